// Package job answers: what does every task need of a world? A Job has the placement and the steps of a run,
// and helps the plans of tasks to check themselves: memory that is available, models that fit their files.
package job
