// Package loop answers: what does every runner share? A runner is the program of a task on every rank. Between two
// iterations its Loop does the following:
//
//	agreement     all ranks vote on the next step, and send their Reports to rank 0
//	Logbook       rank 0 writes the metrics, which the task's Recorder computes from the Reports
//	Saver         saves checkpoints, and distributes one to the ranks of a run that resumes (StartState)
//	Requests      stops the run after a signal or at a deadline
//	Moves         takes the members to other ranks, in another world; Holdings go with them
//
// A Plan has what the loop needs to know of a task.
package loop
