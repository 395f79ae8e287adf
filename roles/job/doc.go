// Package job answers: what does every task need of a world? A Job has the placement and the number of steps of a run.
// The plan of a task embeds a Job. It estimates memory with the types of this package: a Footprint is what a rank
// needs, and Available is what a machine has. FitModel and Fit check files of weights.
package job
