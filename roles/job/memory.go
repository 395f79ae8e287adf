package job

import "fmt"

// A Footprint is the memory of a rank, in bytes.
type Footprint struct {
	Parameters int64 // with their gradients, and the copies that rollouts of an asynchronous run use
	Optimiser  int64 // its state
	Rollouts   int64 // trajectories that are recorded, wait, and are trained on
	Channels   int64 // observations and actions on their way
	Replay     int64 // the replay buffer, and demonstrations, with the copy of the file

	Activations int64 // of a language model, in one micro-batch, with the logits
	Texts       int64 // that it learns from
}

// ProgramBytes is about what a process takes beside the footprints of its ranks.
const ProgramBytes = 48 << 20

// Sum returns all of it.
func (f Footprint) Sum() int64 {
	return f.Parameters + f.Optimiser + f.Rollouts + f.Channels + f.Replay + f.Activations + f.Texts
}

// A Column is a figure of a rank's memory, for a table of ranks.
type Column struct {
	Name  string
	Bytes func(Footprint) int64
}

// NodeNeeds returns the memory that the ranks of a node need, if rank r needs memoryOf(r).
func NodeNeeds(nodes []int, node int, memoryOf func(r int) Footprint) (need int64) {
	for r, at := range nodes {
		if at == node {
			need += memoryOf(r).Sum()
		}
	}
	return need
}

// Mebibytes writes a number of bytes in MiB.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
