// Package task answers: what must a kind of job be able to do? A Task drafts, plans, runs and evaluates the jobs of
// a value of runner.task_type. Package roles hands the tasks to the command line; nothing else asks which task a
// job has.
package task
