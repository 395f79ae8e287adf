// Package state answers: what does a worker's state consist of, and how does it get from here to there? A worker lists
// the Parts of its state: tensors, or slices of tensors, with the memory that has them. All else follows from the lists
// of all workers:
//
//	Collect     writes whole tensors to files, on rank 0, which asks the other ranks for pieces
//	Distribute  fills the parts of all ranks from files that rank 0 reads, in any layout
//	Pack        brings a worker's state to its successor on another rank, which lists the same parts
//
// In a save and a resume no rank holds more of the state than its own parts and two pieces.
package state
