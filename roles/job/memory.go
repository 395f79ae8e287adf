package job

// A Footprint is an estimate of the memory of a rank, in bytes.
type Footprint struct {
	Parameters int64 // parameters, gradients, and copies of parameters for the rollouts of an asynchronous run
	Optimiser  int64 // the optimisers' state, critics and target networks
	Rollouts   int64 // trajectories that are recorded, queued or trained on
	Channels   int64 // observations and actions in channels
	Replay     int64 // replay buffer, demonstrations, and the contents of the demonstrations' file

	Activations int64 // of a language model, with logits, for all micro-batches in flight; or classifiers of images
	Messages    int64 // messages between the shards of a language model: activations, gradients and state
	Texts       int64 // texts to train on

	Device int64 // on the GPU of the rank; Sum leaves it out
}

// ProgramBytes estimates the memory that a process needs in addition to the footprints of its ranks.
const ProgramBytes = 48 << 20

// Sum returns the number of bytes in the memory of the machine: all but f.Device.
func (f Footprint) Sum() int64 {
	return f.Parameters + f.Optimiser + f.Rollouts + f.Channels + f.Replay + f.Activations + f.Messages + f.Texts
}

// A FootprintColumn is a column in a table of footprints. The table has a line for each rank.
type FootprintColumn struct {
	Name  string
	Bytes func(Footprint) int64
}

// NodeNeeds returns the memory in bytes that the ranks of a node need. memoryOf(r) is the footprint of rank r.
func NodeNeeds(nodes []int, node int, memoryOf func(r int) Footprint) (need int64) {
	for r, at := range nodes {
		if at == node {
			need += memoryOf(r).Sum()
		}
	}
	return need
}
