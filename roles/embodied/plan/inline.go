package plan

// RunsInline reports whether the rollout worker of route l steps the environments of l itself, in its own goroutine.
// It does so if the env worker is on the same rank and no other rollout worker serves these environments. Passing
// observations and actions between goroutines would take longer than a step. of is the routing of l. training says
// whether of is the routing of training or of evaluations.
func (p *Plan) RunsInline(of Routing, l Route, training bool) bool {
	if p.Placement.Group("env").Ranks[l.Env] != p.Placement.Group("rollout").Ranks[l.Rollout] {
		return false
	}
	sharing, serving := 0, 0 // routes with the same env worker and stage, and with the same rollout worker
	for _, other := range of.Routes {
		if other.Env == l.Env && other.Stage == l.Stage {
			sharing++
		}
		if other.Rollout == l.Rollout {
			serving++
		}
	}
	// In an asynchronous run the environments of one route must not delay the rollout worker's other routes.
	return sharing == 1 && (!training || !p.Async() || serving == 1)
}
