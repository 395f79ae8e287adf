package plan

// RunsInline reports whether the rollout worker of l, a route of of, steps the environments itself,
// in its own goroutine. It does if both workers are on one rank and no other worker chooses actions
// for them: passing observations and actions between goroutines would take longer than the
// environments' step. training tells routes of training from those of evaluation.
func (p *Plan) RunsInline(of Routing, l Route, training bool) bool {
	if p.Placement.Group("env").Ranks[l.Env] != p.Placement.Group("rollout").Ranks[l.Rollout] {
		return false
	}
	sharing, serving := 0, 0 // routes of the same environments, and of the same rollout worker
	for _, other := range of.Routes {
		if other.Env == l.Env && other.Stage == l.Stage {
			sharing++
		}
		if other.Rollout == l.Rollout {
			serving++
		}
	}
	// In an asynchronous run a worker with other routes must not keep them waiting for a simulator.
	return sharing == 1 && (!training || !p.Async() || serving == 1)
}
