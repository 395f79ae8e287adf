package timeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
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

// compare compares a path with one that was computed by hand.
func compare(t *testing.T, p *timeline.Path, want []step) {
	t.Helper()
	test.EqualSlices(t, steps(p), want)
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

// The workers of disaggregated.
const (
	runner0 = iota
	actor0
	rollout0
	runner1
	env0
)

// disaggregated makes one iteration. Rank 0 has the rollout worker and the actor, rank 1 has the env worker. The ranks
// meet at a barrier. The numbers are the times, in ms, at which spans end.
//
//	runner 0   vote 1, between 2, await generate 35, between 36, await train 65, barrier 71, between 72
//	actor      idle 2, get out 35, idle 36, train 64, call 65, idle 72
//	rollout    idle 2, get obs 13, infer 17, get obs 29, infer 34, call 35, idle 72
//	runner 1   vote 1, between 2, await interact 29, between LATE, barrier 71, between 72
//	env        idle 2, simulate 12, get act 18, simulate 28, call 29, idle 72
func disaggregated(late int64) *script {
	s := &script{}
	r0, actor, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0), s.worker(0, "rollout", 0)
	r1, env := s.worker(1, trace.Runner, 1), s.worker(1, "env", 0)
	r0.vote(1).between(1).await("rollout", "generate", 35).between(1).await("actor", "train", 65).
		collect("barrier", 71).between(1)
	actor.idle(2).get(out, 0, 35).idle(36).work("train", 28).call("train", 1).idle(72)
	rollout.idle(2).get(obs, 0, 13).work("infer", 4).put(act, 0).get(obs, 0, 29).work("infer", 5).put(out, 0).
		call("generate", 1).idle(72)
	r1.vote(1).between(1).await("env", "interact", 29).between(late-29).collect("barrier", 71).between(1)
	env.idle(2).work("simulate", 10).put(obs, 0).get(act, 0, 18).work("simulate", 10).put(obs, 0).
		call("interact", 1).idle(72)
	s.keep(1, trace.First)
	return s
}

func TestPathOfDisaggregatedRanks(t *testing.T) {
	s := disaggregated(30)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{runner1, "votes", transfer, 1, -1}, // both runners vote at the same time
		{runner1, "", busy, 1, -1},
		{env0, "simulate", busy, 10, -1}, {rollout0, "obs", transfer, 1, env0},
		{rollout0, "infer", busy, 4, -1}, {env0, "act", transfer, 1, rollout0},
		{env0, "simulate", busy, 10, -1}, {rollout0, "obs", transfer, 1, env0},
		{rollout0, "infer", busy, 5, -1}, {rollout0, "generate", busy, 1, -1},
		{runner0, "", busy, 1, -1},                                      // the runner calls the actor
		{actor0, "train", busy, 28, -1}, {actor0, "train", busy, 1, -1}, // work, and the rest of the call
		{runner0, "barrier", transfer, 6, -1}, // runner 0 was the last at the barrier
		{runner0, "", busy, 1, -1},
	})
}

// The iteration of a rank begins when the decision of rank 0 has arrived.
func TestPathBeginsWithADecision(t *testing.T) {
	s := &script{}
	r0, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	r1, env := s.worker(1, trace.Runner, 1), s.worker(1, "env", 0)
	r1.now, env.now = 5, 5
	rollout.get(obs, 0, 16).call("generate", 1).idle(20)
	env.work("simulate", 10).put(obs, 0).call("interact", 1).idle(25)
	r0.await("rollout", "generate", 17).vote(20)
	r1.await("env", "interact", 16).vote(25)
	s.keep(1, trace.First)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{env.index, "votes", transfer, 5, r0.index}, {env.index, "simulate", busy, 10, -1},
		{rollout.index, "obs", transfer, 1, env.index}, {rollout.index, "generate", busy, 1, -1},
		{r0.index, "votes", transfer, 3, -1},
	})
}

func TestPathGoesToTheLastAtABarrier(t *testing.T) {
	s := disaggregated(70)
	p := timeline.CriticalPath(&s.Attempt, &s.Windows[0])
	compare(t, p, []step{
		{runner1, "votes", transfer, 1, -1}, {runner1, "", busy, 1, -1},
		{env0, "simulate", busy, 10, -1}, {rollout0, "obs", transfer, 1, env0},
		{rollout0, "infer", busy, 4, -1}, {env0, "act", transfer, 1, rollout0},
		{env0, "simulate", busy, 10, -1}, {env0, "interact", busy, 1, -1},
		{runner1, "", busy, 41, -1},
		{runner0, "barrier", transfer, 1, runner1}, {runner0, "", busy, 1, -1},
	})

	r := timeline.SharesOf(&s.Attempt, p)
	if got := r.Total.Total(); !near(got, 0.072) {
		t.Errorf("shares add up to %v s, want 0.072", got)
	}
	want := []timeline.ComponentCost{
		{trace.Runner, timeline.PathTime{Busy: 0.043, Transfer: 0.002}},
		{"env", timeline.PathTime{Busy: 0.021, Transfer: 0.001}},
		{"rollout", timeline.PathTime{Busy: 0.004, Transfer: 0.001}},
	}
	if !slices.EqualFunc(r.Components, want, func(a, b timeline.ComponentCost) bool {
		return a.Component == b.Component && near(a.Cost.Busy, b.Cost.Busy) && near(a.Cost.Transfer, b.Cost.Transfer) &&
			a.Cost.Wait == 0 && a.Cost.Unknown == 0
	}) {
		t.Errorf("components: %+v, want %+v", r.Components, want)
	}
	if s := r.Sites[1]; s.Component != "env" || s.Name != "simulate" || !near(s.Cost.Busy, 0.020) {
		t.Errorf("second site: %+v, want simulate of env, 0.020 s", s)
	}
	links := []timeline.LinkCost{{runner1, runner0, 0.001}, {env0, rollout0, 0.001}, {rollout0, env0, 0.001}}
	for _, l := range r.Links {
		i := slices.IndexFunc(links, func(m timeline.LinkCost) bool { return m.From == l.From && m.To == l.To })
		if i < 0 || !near(l.Seconds, links[i].Seconds) {
			t.Errorf("link %+v, want one of %+v", l, links)
		}
	}
	if len(r.Links) != len(links) {
		t.Errorf("links %+v, want %+v", r.Links, links)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9+1e-9*math.Abs(b) }

// Without the track of the env worker, waits for the env worker belong to the path. Without rank 1, the path of rank 0
// remains.
func TestPathWithoutTracks(t *testing.T) {
	s := disaggregated(30)
	w := &s.Windows[0]
	w.Tracks = slices.DeleteFunc(w.Tracks, func(t trace.Track) bool { return t.Worker == env0 })
	compare(t, timeline.CriticalPath(&s.Attempt, w), []step{
		{runner0, "votes", transfer, 1, -1}, {runner0, "", busy, 1, -1},
		{rollout0, "obs", wait, 11, -1}, {rollout0, "infer", busy, 4, -1},
		{rollout0, "obs", wait, 12, -1},
		{rollout0, "infer", busy, 5, -1}, {rollout0, "generate", busy, 1, -1},
		{runner0, "", busy, 1, -1}, {actor0, "train", busy, 28, -1}, {actor0, "train", busy, 1, -1},
		{runner0, "barrier", transfer, 6, -1}, {runner0, "", busy, 1, -1},
	})

	// Without rank 0's runner the search begins at the track that ends last, here the actor's.
	w.Tracks = slices.DeleteFunc(w.Tracks, func(t trace.Track) bool { return t.Worker == runner0 })
	compare(t, timeline.CriticalPath(&s.Attempt, w), []step{
		{rollout0, "", wait, 2, -1}, {rollout0, "obs", wait, 11, -1}, {rollout0, "infer", busy, 4, -1},
		{rollout0, "obs", wait, 12, -1}, {rollout0, "infer", busy, 5, -1}, {actor0, "out", transfer, 1, rollout0},
		{actor0, "", wait, 1, -1}, {actor0, "train", busy, 28, -1}, {actor0, "train", busy, 1, -1},
		{actor0, "", wait, 7, -1},
	})
	if p := timeline.CriticalPath(&s.Attempt, &trace.Window{}); len(p.Segments) > 0 || p.End != p.Start {
		t.Errorf("of an empty window: %+v", p)
	}
}

// There is a gap between two spans. Spans that begin before the iteration are cut at its start.
func TestPathIsCutAndSaysWhatIsUnknown(t *testing.T) {
	s := &script{}
	r0, actor := s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0)
	r0.now, actor.now = 10, 3
	r0.await("actor", "train", 30).between(1)
	actor.work("train", 9)
	actor.now = 15 // a gap
	actor.work("train", 14).call("train", 1).idle(31)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{1, "train", busy, 2, -1}, {1, "", unknown, 3, -1}, {1, "train", busy, 14, -1}, {1, "train", busy, 1, -1},
		{0, "", busy, 1, -1},
	})
}

// Rank 1 is late at the sum of the gradients, because its backward pass takes longer.
func TestPathOfASumOfGradients(t *testing.T) {
	s := &script{}
	r0, a0 := s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0)
	r1, a1 := s.worker(1, trace.Runner, 1), s.worker(1, "actor", 1)
	for _, r := range []*worker{r0, r1} {
		r.between(1).await("actor", "train", 40).between(1)
	}
	a0.idle(1).work("train", 10).collect("gradient", 31).work("train", 7).collect("gradient", 39).
		call("train", 1).idle(41)
	a1.idle(1).work("train", 27).collect("gradient", 32).work("train", 5).collect("gradient", 39).
		call("train", 1).idle(41)
	s.keep(1, trace.First)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{2, "", busy, 1, -1}, {3, "train", busy, 27, -1},
		{1, "gradient", transfer, 3, 3}, // rank 1 began at 28
		{1, "train", busy, 7, -1}, {1, "gradient", transfer, 1, -1},
		{1, "train", busy, 1, -1}, {0, "", busy, 1, -1},
	})
}

// A rollout worker waits for version 3 of the weights, which an actor on another rank publishes during the wait. Then
// the rollout worker waits for room, which the actor makes when it releases a trajectory.
func TestPathOfWeightsAndRoom(t *testing.T) {
	s := &script{}
	r0, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	actor := s.worker(1, "actor", 0)
	r0.between(1).await("rollout", "produce", 59).between(1)
	actor.work("train", 20).publish(2, 22).work("train", 8).publish(3, 33).get(out, 0, 34).work("prepare", 10).
		get(out, 0, 60)
	rollout.idle(1).work("infer", 3).adopt(3, 35).room(out, 0, 46).work("infer", 4).put(out, 0).
		work("infer", 8).call("produce", 1).idle(60)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{2, "train", busy, 20, -1}, {2, "weights", wait, 2, -1}, {2, "train", busy, 8, -1}, {2, "weights", wait, 3, -1},
		{2, "out", wait, 1, -1}, // the put of this item is not in the trace
		{2, "prepare", busy, 10, -1}, {1, "out", transfer, 2, 2},
		{1, "infer", busy, 12, -1}, {1, "produce", busy, 1, -1}, {0, "", busy, 1, -1},
	})

	// If there is room at once, the path leads to the weights, which arrive two ms after their publication.
	s = &script{}
	r0, rollout = s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	actor = s.worker(1, "actor", 0)
	r0.between(1).await("rollout", "produce", 40).between(1)
	actor.work("train", 20).publish(2, 22).work("train", 8).publish(3, 33).idle(60)
	rollout.idle(1).work("infer", 3).adopt(3, 35).work("infer", 4).call("produce", 1).idle(60)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{2, "train", busy, 20, -1}, {2, "weights", wait, 2, -1}, {2, "train", busy, 8, -1}, {2, "weights", wait, 3, -1},
		{1, "weights", transfer, 2, 2}, {1, "infer", busy, 4, -1}, {1, "produce", busy, 1, -1}, {0, "", busy, 1, -1},
	})
}

// An item that was put before the wait began was on its way too long. The path stays at the consumer.
func TestPathOfALateItem(t *testing.T) {
	s := &script{}
	r0, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	env := s.worker(1, "env", 0)
	r0.between(1).await("rollout", "generate", 30).between(1)
	env.work("simulate", 5).put(obs, 0).get(act, 0, 40)
	rollout.idle(1).work("other", 9).get(obs, 0, 25).work("infer", 4).call("generate", 1).idle(31)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{0, "", busy, 1, -1}, {1, "other", busy, 9, -1}, {1, "obs", transfer, 15, 2},
		{1, "infer", busy, 4, -1}, {1, "generate", busy, 1, -1}, {0, "", busy, 1, -1},
	})
}

// Two env workers share a key. The numbers of spans do not say which put a get received, but the numbers of items do.
func TestPathOfASharedKey(t *testing.T) {
	s := &script{}
	r0, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	e0, e1 := s.worker(1, "env", 0), s.worker(2, "env", 1)
	r0.between(1).await("rollout", "produce", 30).between(1)
	e0.work("simulate", 5).put(obs, 0).work("simulate", 30).put(obs, 0)
	e1.work("simulate", 17).put(obs, 0).work("simulate", 5).put(obs, 0).work("simulate", 20).put(obs, 0)
	rollout.idle(1).get(obs, 0, 6).work("infer", 2).get(obs, 1, 18).work("infer", 2).get(obs, 1, 24).work("infer", 5).
		call("produce", 1).idle(31)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{3, "simulate", busy, 22, -1}, {1, "obs", transfer, 2, 3},
		{1, "infer", busy, 5, -1}, {1, "produce", busy, 1, -1}, {0, "", busy, 1, -1},
	})
}

// Rank 0 decides with the votes of the previous iteration. The vote of rank 1 came at 20. Rank 1 waits for that
// decision.
func TestPathOfVotes(t *testing.T) {
	s := &script{}
	r0, r1, actor := s.worker(0, trace.Runner, 0), s.worker(1, trace.Runner, 1), s.worker(1, "actor", 0)
	r0.vote(1).between(4).vote(22).between(3)
	r1.between(12).vote(20).between(1).vote(24).between(1)
	actor.idle(25)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{1, "", busy, 12, -1}, {1, "votes", transfer, 8, -1}, {0, "votes", transfer, 2, 1}, {0, "", busy, 3, -1},
	})
	// For rank 1, rank 0 was not late: rank 0 had begun its vote before.
	s.Windows[0].Tracks = s.Windows[0].Tracks[1:]
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{1, "", busy, 12, -1}, {1, "votes", transfer, 8, -1}, {1, "", busy, 1, -1}, {1, "votes", transfer, 3, -1},
		{1, "", busy, 1, -1},
	})
}

// Of two consumers, the one that took an item last made the room.
func TestPathOfRoomWithSeveralConsumers(t *testing.T) {
	s := &script{}
	r0, rollout := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0)
	a0, a1 := s.worker(1, "actor", 0), s.worker(2, "actor", 1)
	r0.between(1).await("rollout", "generate", 30).between(1)
	rollout.idle(1).room(out, -1, 20).work("infer", 9).call("generate", 1).idle(31)
	a0.work("train", 12).get(out, 0, 31)
	a1.work("train", 18).get(out, 0, 31)
	s.keep(1, trace.All)
	w := &s.Windows[0]
	compare(t, timeline.CriticalPath(&s.Attempt, w), []step{
		{3, "train", busy, 18, -1}, {1, "out", transfer, 2, 3}, {1, "infer", busy, 9, -1}, {1, "generate", busy, 1, -1},
		{0, "", busy, 1, -1},
	})
	// A consumer that waited all the time did not make room during the wait.
	w.Tracks = slices.DeleteFunc(w.Tracks, func(t trace.Track) bool { return t.Worker == 2 })
	w.Tracks[2].Spans[0].End, w.Tracks[2].Spans[1].Start = 1*ms, 1*ms
	compare(t, timeline.CriticalPath(&s.Attempt, w), []step{
		{0, "", busy, 1, -1}, {1, "out", wait, 19, -1}, {1, "infer", busy, 9, -1}, {1, "generate", busy, 1, -1},
		{0, "", busy, 1, -1},
	})
}

// Two actors publish at the same time. The reader gets the weights of the actor on its own rank.
func TestPathOfWeightsOfTheSameRank(t *testing.T) {
	s := &script{}
	a0, r1 := s.worker(0, "actor", 0), s.worker(1, trace.Runner, 1)
	a1, rollout := s.worker(1, "actor", 1), s.worker(1, "rollout", 0)
	for _, a := range []*worker{a0, a1} {
		a.work("train", 10).publish(1, 11).idle(20)
	}
	rollout.adopt(1, 12).work("infer", 9)
	r1.between(20)
	s.keep(1, trace.All)
	s.Windows[0].Tracks = slices.DeleteFunc(s.Windows[0].Tracks, func(t trace.Track) bool { return t.Worker == 1 })
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{2, "train", busy, 10, -1}, {2, "weights", wait, 1, -1}, {3, "weights", transfer, 1, 2},
		{3, "infer", busy, 9, -1},
	})
}

// One call follows another without an idle moment. A runner counts as busy between calls, even if that time is recorded
// as idle.
func TestPathOfCallsInTurn(t *testing.T) {
	s := &script{}
	r0, actor := s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0)
	r0.idle(2).await("actor", "receive", 12).await("actor", "train", 30).idle(33)
	actor.idle(1).call("receive", 1).work("copy", 7).call("receive", 1).call("train", 1).work("train", 17).
		call("train", 1).idle(33)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{0, "", busy, 1, -1}, {1, "receive", busy, 1, -1}, {1, "copy", busy, 7, -1}, {1, "receive", busy, 1, -1},
		{1, "train", busy, 1, -1}, {1, "train", busy, 17, -1}, {1, "train", busy, 1, -1},
		{0, "train", wait, 1, -1}, {0, "", busy, 3, -1},
	})
	// If the runner works between the calls, the end of the first call is on the path.
	s = &script{}
	r0, actor = s.worker(0, trace.Runner, 0), s.worker(0, "actor", 0)
	r0.idle(2).await("actor", "receive", 12).between(15)
	actor.idle(1).call("receive", 1).work("copy", 7).call("receive", 1).call("train", 1).work("train", 16)
	s.keep(1, trace.All)
	compare(t, timeline.CriticalPath(&s.Attempt, &s.Windows[0]), []step{
		{0, "", busy, 1, -1}, {1, "receive", busy, 1, -1}, {1, "copy", busy, 7, -1}, {1, "receive", busy, 1, -1},
		{0, "receive", wait, 2, -1}, {0, "", busy, 15, -1},
	})
}

// A random trace has random sites, numbers, arguments and times. Every result is defined and reproducible, and adds up.
func TestRandomTraces(t *testing.T) {
	for seed := range uint64(3000) {
		a := random(rand.New(rand.NewPCG(seed, 1)))
		for i := range a.Windows {
			p := timeline.CriticalPath(a, &a.Windows[i])
			addsUp(t, p)
			if total := timeline.SharesOf(a, p).Total.Total(); !near(total, float64(p.End-p.Start)*1e-9) {
				t.Fatalf("seed %d: shares add up to %v s of %d ns", seed, total, p.End-p.Start)
			}
		}
		if first, second := everything(a), everything(a); !reflect.DeepEqual(first, second) {
			t.Fatalf("seed %d: two results:\n%v\n%v", seed, first, second)
		}
	}
}

// everything returns all results, as text.
func everything(a *trace.Attempt) (list []string) {
	add := func(v any) { list = append(list, fmt.Sprintf("%+v", v)) }
	add(*timeline.Waits(a))
	add(timeline.LastArrivals(a))
	add(timeline.Efficiencies(a))
	add(timeline.Conclude([]trace.Attempt{*a}, nil))
	for i := range a.Windows {
		w := &a.Windows[i]
		p := timeline.CriticalPath(a, w)
		add(*p)
		add(*timeline.SharesOf(a, p))
		add(timeline.VersionLags(a, w))
		add(timeline.QueuesOf(a, w))
	}
	return list
}

// random makes an attempt. One in four attempts has spans out of order, and numbers out of range.
func random(r *rand.Rand) *trace.Attempt {
	a := &trace.Attempt{Ranks: 3, Hosts: []string{"a", "b"}}
	components := []string{trace.Runner, "env", "rollout", "actor"}
	all := []trace.Cause{trace.Working, trace.Other, trace.Idling, trace.Observation, trace.Gradient, trace.Weights,
		trace.Voting, trace.NoRoom, trace.Saving, trace.Calling, trace.Unrecorded, trace.Trajectory}
	wild := r.IntN(4) == 0
	for rank := range a.Ranks {
		for _, c := range components {
			if r.IntN(5) == 0 {
				continue
			}
			w := trace.Lane{Rank: rank, Node: r.IntN(3), Component: c, Member: rank}
			for range 1 + r.IntN(8) {
				w.Sites = append(w.Sites, trace.Site{Op: trace.SiteKind(r.IntN(int(trace.Skipped) + 1)),
					Name: []string{"simulate", "train", "produce"}[r.IntN(3)], Key: []string{"", "k"}[r.IntN(2)],
					Peer: components[r.IntN(4)], Cause: all[r.IntN(len(all))]})
			}
			a.Workers = append(a.Workers, w)
		}
	}
	for it := range int64(r.IntN(5)) {
		win := trace.Window{Iteration: it, Why: trace.Regular, Bound: int64(r.IntN(3))}
		for i := range a.Workers {
			sites := len(a.Workers[i].Sites)
			sum := trace.Sum{Iteration: it, Worker: i, Times: make([]int64, sites)}
			track := trace.Track{Worker: i}
			now := it*100 + int64(r.IntN(10))
			for n := range int64(r.IntN(30)) {
				end := now + int64(r.IntN(10))
				track.Spans = append(track.Spans, trace.Span{Site: r.IntN(sites), Start: now, End: end,
					Arg: int64(r.IntN(4)) - 1, N: n / int64(sites)})
				if r.IntN(3) == 0 {
					track.Marks = append(track.Marks, trace.Mark{Site: r.IntN(sites), At: now + int64(r.IntN(3)),
						Arg: int64(r.IntN(4)) - 1, N: n / int64(sites)})
				}
				if s := &track.Spans[len(track.Spans)-1]; wild && r.IntN(4) == 0 {
					s.Site, s.Start, s.End = r.IntN(20)-5, s.Start+int64(r.IntN(60))-30, s.End+int64(r.IntN(60))-30
					track.Worker = r.IntN(20) - 5
				}
				sum.Times[r.IntN(sites)] += end - now
				if now = end; r.IntN(10) == 0 {
					now++ // a gap
				}
			}
			if r.IntN(6) > 0 {
				win.Tracks = append(win.Tracks, track)
			}
			a.Sums = append(a.Sums, sum)
		}
		a.Windows = append(a.Windows, win)
	}
	return a
}
