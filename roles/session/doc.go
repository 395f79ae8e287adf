// Package session answers: how does a job begin and end? A session is one start of a job in this process. Its ranks
// agree on the configuration, ask connected simulators for their specification, and open the run's folder. They
// load a checkpoint or begin anew, run the task's program, and mark the folder with the outcome. If members move, the
// ranks run the program again in another world, while the folder stays open. A job that only evaluates runs its task's
// Evaluate instead.
package session
