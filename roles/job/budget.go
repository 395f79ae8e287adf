package job

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// CheckMemory returns an error if the ranks of a node need more memory than it has.
func (j *Job) CheckMemory(nodes []int, node int, have Available) error {
	need := int64(0)
	for r, at := range nodes {
		if at == node {
			need += j.MemoryOf(r).Sum()
		}
	}
	if need-int64(j.demoBytes()) <= have.Free { // the demonstrations have been read once
		return nil
	}
	if j.Tuning != nil {
		return fmt.Errorf("node %d needs %s for parameters, optimiser, activations and texts, and %v: expected fewer "+
			"tokens in a micro-batch, adapters (actor.model.is_lora) or more nodes", node, Mebibytes(need), have)
	}
	return fmt.Errorf("node %d needs %s for parameters, optimiser, rollouts, channels and what is drawn from, and "+
		"%v: expected fewer environments, shorter rollouts or more nodes",
		node, Mebibytes(need), have)
}

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

// MemoryOf returns the memory that rank r needs.
func (j *Job) MemoryOf(r int) (f Footprint) {
	if j.Tuning != nil {
		return j.tuningMemory(r)
	}
	params, rollouts := int64(j.paramBytes), int64(j.QueuedRollouts()+1)
	f.Replay = int64(j.demoBytes())
	if j.Config.Trains() {
		for _, at := range j.Placement.Ranks("actor") {
			if at == r {
				f.Parameters += 2 * params
				f.Optimiser += 2 * params // Adam's two moments
				f.Rollouts += rollouts * int64(j.TrajectoryLayout(j.Train.Envs/j.Actors).Size())
				buffer := j.replayBytes(j.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
				f.Replay += int64(min(buffer, 1<<62) + j.demoBytes()) // so that sums stay in range
			}
		}
	}
	envs, players := j.Placement.Ranks("env"), j.Placement.Ranks("rollout")
	if slices.Contains(players, r) {
		f.Parameters += params // at most: its part of its node's slots, or nothing where it reads an actor's own
	}
	for _, l := range j.Train.Routes {
		if envs[l.Env] != r && players[l.Rollout] != r {
			continue // a job of many ranks has many routes: lay out none in vain
		}
		items := 2 * int64(j.StepLayout(l).Size()+j.ActionLayout(l).Size())
		if envs[l.Env] == r {
			f.Channels += items
		}
		if players[l.Rollout] == r {
			f.Channels += items
			if j.Async() {
				f.Parameters += params
			}
			f.Rollouts += rollouts * int64(j.TrajectoryLayout(l.Hi-l.Lo).Size())
		}
	}
	return f
}

// heapWithin is tensor.Heap up to that much memory in all; beyond it allocations fail with a
// shortage.
func heapWithin(have Available) tensor.Allocator {
	need := int64(0)
	return func(n int) ([]byte, error) {
		if need += int64(n); need > have.Free {
			return nil, shortage{need, have}
		}
		return tensor.Heap(n)
	}
}

// A shortage is an allocation of more memory than there is.
type shortage struct {
	need int64
	have Available
}

// Error says how much is needed and how much is available.
func (s shortage) Error() string {
	return fmt.Sprintf("at least %s are needed, and %v", Mebibytes(s.need), s.have)
}

// checkObservations checks that the observations of an iteration, and those of one step of an
// evaluation, fit into the memory of so many nodes, and reports whether they do. This is a lower
// bound, which needs no environment and does not overflow.
func (d *draft) checkObservations(nodes int, have Available) (fit bool) {
	row, on := 0, "one node"
	if nodes > 1 {
		on = fmt.Sprintf("%d nodes", nodes)
	}
	fit = true
	for _, f := range d.Spec.Obs {
		row += f.Dim() * f.DType.Size()
	}
	check := func(section string, envs, steps int) {
		need := float64(row) * float64(envs) * float64(steps)
		fits := need <= float64(have.Free)*float64(nodes)
		fit = fit && fits
		d.found.Want(fits, d.Config.EnvKey(section, "total_num_envs"), envs,
			fmt.Sprintf(
				"fewer environments or shorter rollouts: %d observations of %d bytes of each are %.0f MiB on %s, "+
					"and %v", steps, row, need/(1<<20), on, have))
	}
	if d.Config.Trains() && !d.Offline {
		_, steps := d.Config.Samples()
		check("env.train", d.Config.Env.Train.TotalNumEnvs, steps)
	}
	if d.Config.Evaluates() {
		check("env.eval", d.Config.Env.Eval.TotalNumEnvs, 1)
	}
	return fit
}

// Mebibytes writes a number of bytes in MiB.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
