package timeline_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

const (
	busy, transfer, wait, unknown = timeline.Busy, timeline.Transfer, timeline.Wait, timeline.Unknown
)

var (
	obs = edge{"obs", "0", "env", "rollout", trace.Observation}
	act = edge{"act", "0", "rollout", "env", trace.Action}
	out = edge{"out", "0", "rollout", "actor", trace.Trajectory}
)

// disaggregated makes one iteration: rank 0 has the rollout worker and the actor, rank 1 the env worker. Both ranks
// meet before the iteration ends.
//
//	ms        0  1  2        12 13    17 18     28 29   33 34              64 65      70 71 72
//	runner 0  vote . await rollout ---------------------------- await train --- barrier ---- .
//	actor     idle       get out ---------------------------------- | train --- | idle
//	rollout   idle   get obs ---| infer | get obs --| infer | put out | idle
//	env       idle | simulate |  get act --- | simulate | get act
//	runner 1  vote   await env ------------------------------- | other      | barrier
func disaggregated() *script {
	s := &script{}
	r0, actor, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0), s.worker(0, "rollout", 0)
	r1, env := s.worker(1, trace.Runner, 1), s.worker(1, "env", 0)
	r0.vote(1).between(1).await("rollout", "generate", 35).between(1).await("actor", "train", 65).
		collect("barrier", 71).between(1)
	actor.idle(2).get(out, 0, 35).idle(36).work("train", 28).call("train", 1).idle(72)
	rollout.idle(2).get(obs, 0, 13).work("infer", 4).put(act, 0).get(obs, 0, 29).work("infer", 5).put(out, 0).
		call("generate", 1).idle(72)
	r1.vote(1).between(1).await("env", "interact", 34).between(36).collect("barrier", 71).between(1)
	env.idle(2).work("simulate", 10).put(obs, 0).get(act, 0, 18).work("simulate", 10).put(obs, 0).
		call("interact", 1).idle(72)
	s.keep(1, trace.First)
	return s
}

func TestPathOfDisaggregatedIteration(t *testing.T) {
	s := disaggregated()
	p := timeline.CriticalPath(&s.Attempt, &s.Windows[0])
	const r0, actor, rollout, r1, env = 0, 1, 2, 3, 4
	compare(t, p, []step{
		// The votes are the first event at runner 1, which called the env worker.
		{r1, "votes", transfer, 1, -1}, {r1, "", busy, 1, -1},
		{env, "simulate", busy, 10, -1}, {rollout, "obs", transfer, 1, env},
		{rollout, "infer", busy, 4, -1}, {env, "act", transfer, 1, rollout},
		{env, "simulate", busy, 10, -1},
		// Runner 1 was late at the barrier, after its own work from 34 to 70.
		{env, "interact", busy, 1, -1}, {r1, "interact", wait, 5, -1}, {r1, "", busy, 36, -1},
		{r0, "barrier", transfer, 1, r1}, {r0, "", busy, 1, -1},
	})
	_ = actor
}

func compare(t *testing.T, p *timeline.Path, want []step) {
	t.Helper()
	if got := steps(p); !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	addsUp(t, p)
}

// addsUp checks that the segments cover the iteration.
func addsUp(t *testing.T, p *timeline.Path) {
	t.Helper()
	at := p.Start
	for _, s := range p.Segments {
		if s.Start != at || s.End <= s.Start {
			t.Fatalf("segment %+v begins at %d and not at %d, or is empty", s, s.Start, at)
		}
		at = s.End
	}
	if at != p.End {
		t.Fatalf("segments end at %d, and the iteration at %d", at, p.End)
	}
}

var _ = rand.New
var _ = unknown
