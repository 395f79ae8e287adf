package plan

import (
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// planCases calls f with a few hundred plans that Validate accepts.
func planCases(f func(what string, p Routing, stages, envs, rollouts, actors int)) (n int) {
	for _, total := range []int{1, 2, 12, 24, 40, 96, 420} {
		for stages := 1; stages <= 4; stages++ {
			for _, envs := range []int{1, 2, 3, 4, 5} {
				for _, rollouts := range []int{1, 2, 3, 4, 6, 7} {
					for _, actors := range []int{0, 1, 2, 3, 4, 5, 8} {
						if total%(envs*stages) != 0 || total%(rollouts*stages) != 0 || actors > 0 && total%actors != 0 {
							continue
						}
						n++
						f(fmt.Sprintf("%d environments, %d stages, %d env, %d rollout, %d actor workers", total, stages,
							envs, rollouts, actors),
							newRouting(total, stages, envs, rollouts, actors), stages, envs, rollouts, actors)
					}
				}
			}
		}
	}
	return n
}

// Every environment is simulated, inferred for and trained on once, by the worker that follows from the numbers of
// workers.
func TestRoutingCoversEveryEnvironmentOnce(t *testing.T) {
	n := planCases(func(what string, p Routing, stages, envs, rollouts, actors int) {
		lanes, segments := make([]int, p.Envs), make([]int, p.Envs)
		for i, l := range p.Routes {
			if l.ID != i {
				t.Errorf("%s: lane %d has the id %d", what, i, l.ID)
			}
			if l.Lo >= l.Hi {
				t.Errorf("%s: lane %d is [%d,%d)", what, i, l.Lo, l.Hi)
			}
			for e := l.Lo; e < l.Hi; e++ {
				lanes[e]++
				worker, shard := e/(p.Envs/envs), p.Envs/envs/stages
				if l.Env != worker || l.Stage != e%(p.Envs/envs)/shard {
					t.Errorf("%s: environment %d is worker %d's in stage %d, want %d's in %d", what, e, l.Env, l.Stage,
						worker, e%(p.Envs/envs)/shard)
				}
				// The environment's place in the batch of the stage: the shards of all workers, end to end.
				if at := worker*shard + e%shard; l.Rollout != at/(p.Envs/stages/rollouts) {
					t.Errorf("%s: environment %d is at %d of its stage's batch and inferred for by %d", what, e, at,
						l.Rollout)
				}
			}
			next := l.Lo
			for _, s := range l.Shards {
				if s.Lo != next || s.Hi <= s.Lo || s.Hi > l.Hi {
					t.Errorf("%s: lane [%d,%d) has the segments %v", what, l.Lo, l.Hi, l.Shards)
				}
				next = s.Hi
				for e := s.Lo; e < s.Hi; e++ {
					segments[e]++
					test.Equal(t, s.Actor, e*actors/p.Envs, "%s: environment %d is trained on by actor", what, e)
				}
			}
			if actors > 0 && next != l.Hi || actors == 0 && l.Shards != nil {
				t.Errorf("%s: lane [%d,%d) has the segments %v", what, l.Lo, l.Hi, l.Shards)
			}
		}
		for e := range p.Envs {
			if lanes[e] != 1 || actors > 0 && segments[e] != 1 {
				t.Errorf("%s: environment %d is in %d lanes and %d segments", what, e, lanes[e], segments[e])
			}
		}
	})
	if n < 500 {
		t.Errorf("%d plans looked at, want some more", n)
	}
}

// The shards of a worker are its stages, one after the other. The shards of all workers, in order, have all
// environments. A shard is the routes of its worker and stage, side by side.
func TestShardsAreContiguous(t *testing.T) {
	planCases(func(what string, p Routing, stages, envs, rollouts, actors int) {
		next := 0
		for r := range envs {
			for s := range stages {
				lo, hi := p.StageOf(r, s)
				if lo != next || hi != lo+p.Envs/envs/stages {
					t.Fatalf("%s: worker %d simulates [%d,%d) in stage %d, want it to start at %d", what, r, lo, hi, s,
						next)
				}
				row := lo
				for _, l := range p.Routes {
					if l.Env == r && l.Stage == s {
						if l.Lo != row {
							t.Errorf("%s: the shard [%d,%d) has a lane that starts at %d, want %d", what, lo, hi, l.Lo,
								row)
						}
						row = l.Hi
					}
				}
				if row != hi {
					t.Errorf("%s: the lanes of the shard [%d,%d) end at %d", what, lo, hi, row)
				}
				next = hi
			}
		}
		if next != p.Envs {
			t.Errorf("%s: the shards end at %d", what, next)
		}
	})
}

// The placement of seeds: 4 env workers, 4 rollout workers and 8 actors, in two stages.
func TestRoutingOfTheSeedsPlacement(t *testing.T) {
	p := newRouting(64, 2, 4, 4, 8)
	want := []Route{
		{0, 0, 0, 0, 0, 8, []ActorShard{{0, 0, 8}}}, {1, 1, 1, 0, 16, 24, []ActorShard{{2, 16, 24}}},
		{2, 2, 2, 0, 32, 40, []ActorShard{{4, 32, 40}}}, {3, 3, 3, 0, 48, 56, []ActorShard{{6, 48, 56}}},
		{4, 0, 0, 1, 8, 16, []ActorShard{{1, 8, 16}}}, {5, 1, 1, 1, 24, 32, []ActorShard{{3, 24, 32}}},
		{6, 2, 2, 1, 40, 48, []ActorShard{{5, 40, 48}}}, {7, 3, 3, 1, 56, 64, []ActorShard{{7, 56, 64}}},
	}
	if got := fmt.Sprint(p.Routes); got != fmt.Sprint(want) {
		t.Errorf("lanes (id env rollout stage lo hi segments)\ngot  %v\nwant %v", got, want)
	}
}
