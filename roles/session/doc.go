// Package session answers: how does a job begin and end? A Session is one start of a job in this
// process: its ranks agree on the configuration, ask simulators outside of the program what they
// are, open the run's folder, start from a checkpoint or anew, let the runner run, and leave the
// folder in order. EvaluateCheckpoint plays evaluations alone.
package session
