package plan

// A Routing assigns environments to env workers, rollout workers and actors. It depends only on the numbers of
// environments, stages and workers. So every rank computes the same Routing, and nothing depends on the order of
// arrival.
//
// Environments are numbered globally. Each env worker simulates a contiguous range, in pipeline stages. The
// environments of one stage on all env workers form a batch. The batch is divided evenly among the rollout workers.
// Where the range of an env worker overlaps the range of a rollout worker, a route carries the observations and actions
// of the shared environments. With N environments and W actors, actor a trains on [a·N/W, (a+1)·N/W), so each route is
// divided into one or more actor shards.
type Routing struct {
	Envs   int     // N, the number of environments
	Stages int     // the number of pipeline stages of each env worker
	Routes []Route // ordered by stage, then by environment
	perEnv int     // the number of environments of one env worker
}

// A Route carries the environments [lo, hi) between an env worker and a rollout worker.
type Route struct {
	ID           int // index of the route in Routing.Routes
	Env, Rollout int // members of the groups env and rollout
	Stage        int // number of the env worker's stage
	Lo, Hi       int
	Shards       []ActorShard // in ascending order; empty in evaluations
}

// An ActorShard is the part [lo, hi) of a route. One actor trains on this part.
type ActorShard struct {
	Actor  int // member of the group actor
	Lo, Hi int // the range of environments
}

// newRouting divides n environments among the workers, without a remainder. actors is 0 in evaluations.
func newRouting(n, stages, envWorkers, rolloutWorkers, actors int) Routing {
	p := Routing{Envs: n, Stages: stages, perEnv: n / envWorkers}
	batch := n / stages
	each, share := batch/envWorkers, batch/rolloutWorkers
	for s := range stages {
		for pos := 0; pos < batch; { // index within the stage's batch
			r, q := pos/each, pos/share
			end := min((r+1)*each, (q+1)*share)
			base := r*p.perEnv + s*each - r*each // the global index minus pos
			l := Route{ID: len(p.Routes), Env: r, Rollout: q, Stage: s, Lo: base + pos, Hi: base + end}
			for lo := l.Lo; actors > 0 && lo < l.Hi; {
				a := lo * actors / n
				hi := min(l.Hi, (a+1)*n/actors)
				l.Shards = append(l.Shards, ActorShard{Actor: a, Lo: lo, Hi: hi})
				lo = hi
			}
			p.Routes = append(p.Routes, l)
			pos = end
		}
	}
	return p
}

// StageOf returns the environments that env worker r simulates in stage s.
func (p Routing) StageOf(r, s int) (lo, hi int) {
	n := p.perEnv / p.Stages
	lo = r*p.perEnv + s*n
	return lo, lo + n
}

// Firsts returns the first environment of each stage of each env worker.
func (p Routing) Firsts() (all []int) {
	for lo := 0; lo < p.Envs; lo += p.perEnv / p.Stages {
		all = append(all, lo)
	}
	return all
}

// Pairs returns the pairs (sender, receiver) that exchange observations, actions and trajectories.
func (p Routing) Pairs() (obs, act, out map[[2]int]bool) {
	obs, act, out = map[[2]int]bool{}, map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range p.Routes {
		obs[[2]int{l.Env, l.Rollout}] = true
		act[[2]int{l.Rollout, l.Env}] = true
		for _, s := range l.Shards {
			out[[2]int{l.Rollout, s.Actor}] = true
		}
	}
	return obs, act, out
}

// RunsInline reports whether the rollout worker of route l itself steps the environments of l. This is faster, but the
// env worker must be on the same rank, and no other rollout worker may serve these environments. l belongs to routing.
// training is false for evaluations.
func (p *Plan) RunsInline(routing Routing, l Route, training bool) bool {
	if p.Placement.Group("env").Ranks[l.Env] != p.Placement.Group("rollout").Ranks[l.Rollout] {
		return false
	}
	sharing, serving := 0, 0 // numbers of routes that share l's env worker and stage, and that share l's rollout worker
	for _, other := range routing.Routes {
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
