// Package job answers: what does every task need of a world? A Job has the placement and the number of steps of a run.
// The plan of a task embeds a Job. A Footprint is the memory that a rank needs, and Available is the memory that a
// machine has. FitModel and Fit check files of weights.
package job
