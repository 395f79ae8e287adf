// Package roles answers: which names does a program of your own need? It is a facade: Main is the command
// line, Registries say what jobs can be made of, and the Trainer trains in one process. It gives the tasks to
// the command line. Everything stands in a package below:
//
//	cli        the commands
//	session    the beginning and the end of a job
//	trainer    training in one process, without ranks
//	task       what a kind of job must be able to do
//	embodied   the task of training policies in environments
//	language   the tasks of training language models
//	loop       what every runner shares: report, vote, save, resume, stop
//	weights    the way of weights from actors to readers
//	member     what workers of every task share
//	job        what every task needs of a world
//	config     what the user asks for
package roles
