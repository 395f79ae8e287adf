// Package roles answers: which names does a user's program need? It is a facade: Main is the command line, Registries
// hold the parts of jobs, and a Trainer trains in one process. A task is a kind of job. Package roles passes the tasks
// to the command line. The packages below do the work:
//
//	cli        the commands
//	session    one start of a job in a process: agreement on the configuration, the run's folder, exit code
//	task       the interface of a task
//	embodied   the task of training policies in environments: runner, plan, workers, evaluation
//	language   the tasks of training language models, sft and reasoning: runners, plan, workers, evaluation
//	loop       what every runner does between iterations: report, vote, save and load checkpoints, stop
//	weights    the transfer of new weights from actors to the workers that read them
//	member     what workers of every task share: sums of gradients and of activations, early stops
//	job        what every task needs: placement, available memory, files of weights
//	config     the configuration and its checks
//	trainer    training in one process, without ranks
//
// A task's plan estimates the memory of each rank. Package spmd ends the job when a rank fails or dies during any call;
// spmd/mpi detects ranks that stop responding.
package roles
