package roles

// A plan says which workers simulate, infer for, and train on which environments. It follows from the
// counts alone, so every rank computes the same one, and nothing depends on the order of arrival.
//
// Environments are numbered globally. Env worker r simulates a contiguous range, in S pipeline
// stages. The environments of one stage on all env workers, laid end to end, are a batch that the
// rollout workers divide evenly. Where the range of an env worker and that of a rollout worker
// overlap runs a route: observations one way, actions the other. Actor a trains on environments
// [a·N/W, (a+1)·N/W), so a route ends in one or more actor shards.
type plan struct {
	envs   int // N, over all env workers
	stages int
	lanes  []lane
	perEnv int // environments of one env worker
}

// A lane carries the environments [lo, hi) between an env worker and a rollout worker.
type lane struct {
	id, env, rollout, stage int
	lo, hi                  int
	segments                []segment
}

// A segment is the part [lo, hi) of a route that one actor trains on.
type segment struct{ actor, lo, hi int }

// newPlan divides n environments, which Validate has found to divide. actors is 0 where nothing is
// trained on, as in evaluation.
func newPlan(n, stages, envWorkers, rolloutWorkers, actors int) plan {
	p := plan{envs: n, stages: stages, perEnv: n / envWorkers}
	batch := n / stages
	shard, share := batch/envWorkers, batch/rolloutWorkers
	for s := range stages {
		for pos := 0; pos < batch; { // within the stage's batch
			r, q := pos/shard, pos/share
			end := min((r+1)*shard, (q+1)*share)
			base := r*p.perEnv + s*shard - r*shard // position → global index
			l := lane{id: len(p.lanes), env: r, rollout: q, stage: s, lo: base + pos, hi: base + end}
			for lo := l.lo; actors > 0 && lo < l.hi; {
				a := lo * actors / n
				hi := min(l.hi, (a+1)*n/actors)
				l.segments = append(l.segments, segment{a, lo, hi})
				lo = hi
			}
			p.lanes = append(p.lanes, l)
			pos = end
		}
	}
	return p
}

// shardOf returns the environments that env worker r simulates in stage s.
func (p plan) shardOf(r, s int) (lo, hi int) {
	n := p.perEnv / p.stages
	lo = r*p.perEnv + s*n
	return lo, lo + n
}

// pairs returns who sends observations, actions and trajectories to whom, as pairs of producer and
// consumer.
func (p plan) pairs() (obs, act, out map[[2]int]bool) {
	obs, act, out = map[[2]int]bool{}, map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range p.lanes {
		obs[[2]int{l.env, l.rollout}] = true
		act[[2]int{l.rollout, l.env}] = true
		for _, s := range l.segments {
			out[[2]int{l.rollout, s.actor}] = true
		}
	}
	return obs, act, out
}
