package roles

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// checkMemory returns an error where what the ranks of a node take does not fit into the room
// there.
func (j *job) checkMemory(nodes []int, node int, have room) error {
	need := int64(0)
	for r, at := range nodes {
		if at == node {
			mem := j.memory(r)
			need += mem.parameters + mem.optimiser + mem.rollouts + mem.channels + mem.replay
		}
	}
	if need-int64(j.demoBytes()) <= have.free { // the demonstrations have been read once
		return nil
	}
	return fmt.Errorf("node %d needs %s for parameters, optimiser, rollouts, channels and what is drawn from, and "+
		"%v: want fewer environments, shorter rollouts or more nodes",
		node, mebibytes(need), have)
}

// A footprint is the memory of a rank, in bytes.
type footprint struct {
	parameters int64 // with their gradients, and the copies that rollouts of an asynchronous run use
	optimiser  int64
	rollouts   int64 // trajectories that are recorded, wait, and are trained on
	channels   int64 // observations and actions on their way
	replay     int64 // what is drawn from: the replay buffer, and demonstrations with the copy that was read
}

// memory returns what rank r takes.
func (j *job) memory(r int) (f footprint) {
	params, rollouts := int64(j.paramBytes), int64(j.queuedRollouts()+1)
	f.replay = int64(j.demoBytes())
	if j.cfg.Trains() {
		for _, at := range j.place.Group("actor").Ranks {
			if at == r {
				f.parameters += 2 * params
				f.optimiser += 2 * params // Adam's two moments
				f.rollouts += rollouts * int64(j.trajectoryLayout(j.train.envs/j.actors).Size())
				buffer := j.replayBytes(j.cfg.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
				f.replay += int64(min(buffer, 1<<62) + j.demoBytes()) // so that sums stay in range
			}
		}
	}
	if slices.Contains(j.place.Group("rollout").Ranks, r) {
		f.parameters += params // at most: its part of its node's slots, or nothing where it reads an actor's own
	}
	for _, l := range j.train.lanes {
		items := 2 * int64(j.stepLayout(l).Size()+j.actionLayout(l).Size())
		if j.place.Group("env").Ranks[l.env] == r {
			f.channels += items
		}
		if j.place.Group("rollout").Ranks[l.rollout] == r {
			f.channels += items
			if j.async() {
				f.parameters += params
			}
			f.rollouts += rollouts * int64(j.trajectoryLayout(l.hi-l.lo).Size())
		}
	}
	return f
}

// heapWithin is tensor.Heap as long as all that is asked for fits into the room; more is a
// shortage.
func heapWithin(have room) tensor.Allocator {
	need := int64(0)
	return func(n int) ([]byte, error) {
		if need += int64(n); need > have.free {
			return nil, shortage{need, have}
		}
		return tensor.Heap(n)
	}
}

// A shortage says that something needs more memory than there is.
type shortage struct {
	need int64
	have room
}

// Error says how much there is of both.
func (s shortage) Error() string {
	return fmt.Sprintf("at least %s are needed, and %v", mebibytes(s.need), s.have)
}

// checkObservations checks that what the environments show in an iteration, and at once in an
// evaluation, fits into so many nodes with that room each. It is the least that is needed: before
// anything is made, and in numbers that do not overflow.
func (d *draft) checkObservations(nodes int, have room) {
	row := 0
	for _, f := range d.spec.Obs {
		row += f.Dim() * f.DType.Size()
	}
	check := func(section string, envs, steps int) {
		need := float64(row) * float64(envs) * float64(steps)
		d.found.Want(need <= float64(have.free)*float64(nodes), d.cfg.envKey(section, "total_num_envs"), envs, fmt.Sprintf(
			"fewer environments or shorter rollouts: %d observations of %d bytes of each are %.0f MiB on %d nodes, "+
				"and %v", steps, row, need/(1<<20), nodes, have))
	}
	if d.cfg.Trains() && !d.offline {
		_, steps := d.cfg.samples()
		check("env.train", d.cfg.Env.Train.TotalNumEnvs, steps)
	}
	if d.cfg.Evaluates() {
		check("env.eval", d.cfg.Env.Eval.TotalNumEnvs, 1)
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
