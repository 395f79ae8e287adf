// Package job answers: what does every task need of a world? A Job has the placement and the number of steps of a
// run. A task's plan embeds it, and estimates memory with its types: Footprint is what a rank needs, Available what
// a machine has. FitModel and Fit check files of weights.
package job
