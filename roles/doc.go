// Package roles answers: what does a program of your own need? It is a facade: Main is the command
// line, Registries say what jobs can be made of, and the Trainer trains in one process. Everything
// stands in a package below, each of which knows only those before it:
//
//	config     what the user asks for
//	play       a policy in environments, step by step
//	job        what follows from the configuration in a world
//	worker     what one member of each group does
//	trainer    training in one process
//	runner     the order in which groups work
//	session    the beginning and the end of a job
//	cli        the commands
package roles
