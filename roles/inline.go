package roles

// runsInline reports whether the rollout worker of l, a lane of p, steps the environments itself, in
// its own goroutine: both workers are on one rank, and nobody else chooses actions for them. To hand
// observations and actions to another goroutine would take longer than the environments' step.
// training tells lanes of training from those of evaluation.
func (j *job) runsInline(p plan, l lane, training bool) bool {
	if j.place.Group("env").Ranks[l.env] != j.place.Group("rollout").Ranks[l.rollout] {
		return false
	}
	sharing, serving := 0, 0 // lanes of the same environments, and of the same rollout worker
	for _, other := range p.lanes {
		if other.env == l.env && other.stage == l.stage {
			sharing++
		}
		if other.rollout == l.rollout {
			serving++
		}
	}
	// In an asynchronous run a worker that has other lanes must not keep them waiting for a simulator.
	return sharing == 1 && (!training || !j.async() || serving == 1)
}
