// Package session answers: how does a job begin and end? A Session is one start of a job in this
// process. Its ranks agree on the configuration, ask connected simulators what they are, and open
// the run's folder. They start from a checkpoint or anew, let the runner run, and leave the folder
// in order. A job that only evaluates does what its task says.
package session
