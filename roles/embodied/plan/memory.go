package plan

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/roles/job"
)

// CheckMemory returns an error if the ranks of a node need more memory than is available.
func (p *Plan) CheckMemory(nodes []int, node int, have job.Available) error {
	actors := 0
	for r, n := range nodes {
		if n == node && p.Config.Trains() {
			actors += len(p.MembersOn("actor", r))
		}
	}
	if err := p.checkReplay(actors, have); err != nil {
		return err
	}
	if err := p.CheckDevices(nodes, node, p.DeviceOf); err != nil {
		return err
	}
	need := job.NodeNeeds(nodes, node, p.MemoryOf)
	if need-int64(p.demoBytes()+p.pictureBytes()) <= have.Free { // the demonstrations are already in memory
		return nil
	}
	return fmt.Errorf("node %d needs %s for parameters, optimiser, rollouts, channels, replay buffers, "+
		"demonstrations and classifiers, and %v: expected fewer environments, shorter rollouts or more nodes", node,
		figures.MiB(need), have)
}

// MemoryColumns returns the columns of a table of the ranks' memory.
func (p *Plan) MemoryColumns() []job.FootprintColumn {
	columns := []job.FootprintColumn{
		{Name: "parameters", Bytes: func(f job.Footprint) int64 { return f.Parameters }},
		{Name: "optimiser", Bytes: func(f job.Footprint) int64 { return f.Optimiser }},
		{Name: "rollouts", Bytes: func(f job.Footprint) int64 { return f.Rollouts }},
		{Name: "channels", Bytes: func(f job.Footprint) int64 { return f.Channels }},
	}
	if p.OffPolicy || p.Offline {
		columns = append(columns, job.FootprintColumn{Name: "replay",
			Bytes: func(f job.Footprint) int64 { return f.Replay }})
	}
	if p.deviceBytes > 0 {
		columns = append(columns, job.DeviceColumn())
	}
	if p.scorerBytes != nil {
		columns = append(columns, job.FootprintColumn{Name: "classifier",
			Bytes: func(f job.Footprint) int64 { return f.Activations }})
	}
	return columns
}

// ActorBytes returns the memory of an actor's parameters, gradients, optimisers, critics and target networks.
func (p *Plan) ActorBytes() int64 { return int64(2*p.paramBytes + p.learnerBytes) }

// MemoryOf estimates the memory of rank r.
func (p *Plan) MemoryOf(r int) (f job.Footprint) {
	params, rollouts := int64(p.paramBytes), int64(p.QueuedRollouts()+1)
	f.Replay, f.Device = int64(p.demoBytes()+p.pictureBytes()), p.DeviceOf(r)
	if p.Config.Trains() {
		for range p.MembersOn("actor", r) {
			f.Parameters += 2 * params
			f.Optimiser += int64(p.learnerBytes)
			f.Rollouts += rollouts * int64(p.TrajectoryLayout(p.Train.Envs/p.Actors).Size())
			off := &p.Config.Algorithm.OffPolicy
			for _, n := range []int{p.replayBytes(off.ReplayBuffer.SampleWindowSize),
				p.interventionBytes(off.Demos.SampleWindowSize), p.drawnBytes()} {
				f.Replay += int64(min(n, 1<<60)) // bounded, so that sums do not overflow
			}
		}
	}
	envs, players, learners := p.Placement.Ranks("env"), p.Placement.Ranks("rollout"), p.Placement.Ranks("actor")
	f.Activations = p.classifiers(r)
	if p.On("rollout", r) || p.On("actor", r) && p.kept == nil { // actors that get feature maps read no images
		f.Parameters += int64(p.frozenBytes)
	}
	if p.On("rollout", r) {
		f.Parameters += params // an upper bound: the ranks of a node share copies, and may read an actor's parameters
	}
	for _, l := range p.Train.Routes {
		for _, s := range l.Shards {
			if n := s.Hi - s.Lo; learners[s.Actor] == r && n < p.Train.Envs/p.Actors { // the actor joins shards
				f.Rollouts += int64(p.TrajectoryLayout(n).Size())
			}
		}
		if envs[l.Env] != r && players[l.Rollout] != r {
			continue // saves time: a large job has many routes of other ranks
		}
		items := 2 * int64(p.StepLayout(l).Size()+p.ActionLayout(l).Size())
		if envs[l.Env] == r {
			f.Channels += items
		}
		if players[l.Rollout] == r {
			f.Channels += items
			if p.Async() {
				f.Parameters += params
			}
			made := rollouts
			if n := p.Backlog(); n > 0 {
				made += int64(n + 1)
			}
			for _, s := range l.Shards {
				if p.Async() || p.Inferences > 0 || learners[s.Actor] != r { // or else it is the actor's
					f.Rollouts += made * int64(p.TrajectoryLayout(s.Hi-s.Lo).Size())
				}
			}
		}
	}
	return f
}

// classifiers returns the memory of the networks of rank r that classify images. Each reward worker has one. If env
// workers score images themselves, each stage of an env worker has one.
func (p *Plan) classifiers(r int) (n int64) {
	if p.scorerBytes == nil {
		return 0
	}
	if p.Config.Standalone() {
		stages := p.Train.Stages
		return int64(len(p.MembersOn("env", r))*stages) * p.scorerBytes(p.Train.Envs/p.simulators/stages)
	}
	for _, w := range p.MembersOn("reward", r) {
		rows := 0
		for _, l := range p.Train.Routes {
			if p.RewardWorker(l) == w {
				rows = max(rows, l.Hi-l.Lo)
			}
		}
		n += p.scorerBytes(rows)
	}
	return n
}

// checkObservations reports whether the memory of all nodes has room for the observations of one iteration, and for
// those of one step of an evaluation. nodes is the number of nodes, and nodeMemory is the memory of one node.
func (d *Draft) checkObservations(nodes int, nodeMemory job.Available) (fit bool) {
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
		fits := need <= float64(nodeMemory.Free)*float64(nodes)
		fit = fit && fits
		d.found.Want(fits, d.Config.EnvKey(section, "total_num_envs"), envs, fmt.Sprintf(
			"fewer environments or shorter rollouts: %d observations of %d bytes of each are %.0f MiB on %s, "+
				"and %v", steps, row, need/(1<<20), on, nodeMemory))
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
