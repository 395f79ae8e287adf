// Package loop answers: what does every runner share? A runner is the program of a task on every rank. Between two
// iterations its Loop does the following:
//
//	agreement        all ranks vote on the next step, and send their RankReports to rank 0
//	Logbook          writes the metrics on rank 0; the Recorder of the task computes them from the RankReports
//	CheckpointSaver  saves checkpoints; at the start of a run, distributes one to all ranks (StartState)
//	Requests         stops the run after a signal or at a deadline
//	Moves            moves the members to other ranks, in another world; Holdings survive the move
//
// A JobPlan describes a task to the loop.
package loop
