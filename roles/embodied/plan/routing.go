package plan

// A Routing says which workers simulate, infer for, and train on which environments. It follows from
// the counts alone, so every rank computes the same one, and nothing depends on the order of
// arrival.
//
// Environments are numbered globally. Env worker r simulates a contiguous range, in S pipeline
// stages. The environments of one stage on all env workers, laid end to end, are a batch that the
// rollout workers divide evenly. Where the range of an env worker and that of a rollout worker
// overlap runs a route: observations one way, actions the other. Actor a trains on environments
// [a·N/W, (a+1)·N/W), so a route ends in one or more actor shards.
type Routing struct {
	Envs   int     // N, over all env workers
	Stages int     // S, of each env worker
	Routes []Route // in the order of stages, and of environments within
	perEnv int     // environments of one env worker
}

// A Route carries the environments [lo, hi) between an env worker and a rollout worker.
type Route struct {
	ID           int // its place in Routing.Routes
	Env, Rollout int // members of the groups
	Stage        int // of the env worker
	Lo, Hi       int
	Shards       []ActorShard // ascending; none where nothing is trained on
}

// An ActorShard is the part [lo, hi) of a route that one actor trains on.
type ActorShard struct {
	Actor  int // member of the group
	Lo, Hi int // environments
}

// newPlan divides n environments; checks have found that they divide. actors is 0 where nothing is
// trained on, as in evaluation.
func newRouting(n, stages, envWorkers, rolloutWorkers, actors int) Routing {
	p := Routing{Envs: n, Stages: stages, perEnv: n / envWorkers}
	batch := n / stages
	each, share := batch/envWorkers, batch/rolloutWorkers
	for s := range stages {
		for pos := 0; pos < batch; { // within the stage's batch
			r, q := pos/each, pos/share
			end := min((r+1)*each, (q+1)*share)
			base := r*p.perEnv + s*each - r*each // position → global index
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

// Pairs returns the pairs of producer and consumer of observations, actions and trajectories.
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
