// Package task answers: what must a kind of job be able to do? A Task drafts, plans, runs and evaluates jobs whose
// runner.task_type names it. Package roles lists all tasks, and the command line finds a job's task by Tasks.Of.
package task
