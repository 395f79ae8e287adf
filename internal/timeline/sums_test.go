package timeline_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

func TestWaits(t *testing.T) {
	s := disaggregated(30)
	w := timeline.Waits(&s.Attempt)
	want := []timeline.Times{
		runner0:  {trace.Other: 0.003, trace.Gradient: 0.006, trace.Voting: 0.001, trace.Calling: 0.062},
		actor0:   {trace.Working: 0.028, trace.Other: 0.001, trace.Trajectory: 0.033, trace.Idling: 0.010},
		rollout0: {trace.Working: 0.009, trace.Other: 0.001, trace.Observation: 0.023, trace.Idling: 0.039},
		runner1:  {trace.Other: 0.003, trace.Gradient: 0.041, trace.Voting: 0.001, trace.Calling: 0.027},
		env0:     {trace.Working: 0.020, trace.Other: 0.001, trace.Action: 0.006, trace.Idling: 0.045},
	}
	for i := range want {
		same(t, s.Workers[i].Component, w.Workers[i], want[i])
	}
	actor := w.Workers[actor0]
	if !near(actor.Waited(), 0.043) || !near(actor.Total(), 0.072) {
		t.Errorf("actor: waited %v, total %v s", actor.Waited(), actor.Total())
	}
	if w.Iterations != 1 || len(w.Components) != 4 || w.Components[0].Component != trace.Runner ||
		w.Components[0].Workers != 2 || !near(w.Components[0].Times[trace.Voting], 0.002) {
		t.Errorf("iterations %d, components %+v", w.Iterations, w.Components)
	}
	if len(w.Ranks) != 2 || w.Ranks[0].Rank != 0 || w.Ranks[1].Rank != 1 {
		t.Errorf("ranks %+v", w.Ranks)
	}
	same(t, "rank 1", w.Ranks[1].Times, timeline.Times{trace.Working: 0.020, trace.Other: 0.004,
		trace.Action: 0.006, trace.Gradient: 0.041, trace.Voting: 0.001, trace.Idling: 0.045})
	s.Sums = nil
	if w := timeline.Waits(&s.Attempt); w.Iterations != 0 || w.Workers[0].Total() != 0 {
		t.Errorf("without sums: %+v", w)
	}
}

// A rollout worker steps the environments itself, and records no spans of that: the time of play is divided, in the
// sums, the shares of the critical path, and the times of the components.
func TestPlayIsDivided(t *testing.T) {
	s := &script{}
	r, p, e := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0), s.worker(0, "env", 0)
	for it := range int64(4) {
		r.between(1).await("rollout", "generate", 100*(it+1))
		p.idle(100*it+1).call("generate", 9).work("play", 90)
		e.idle(100 * (it + 1))
		s.keep(it+1, trace.All)
	}
	s.Workers[1].Sites = append(s.Workers[1].Sites,
		trace.Site{Op: trace.Work, Name: "simulate", Key: "play", Peer: "env",
			Cause: trace.Working}, trace.Site{Op: trace.Work, Name: "infer", Key: "play", Cause: trace.Working})
	for i := range s.Sums {
		if sum := &s.Sums[i]; sum.Worker == 1 {
			sum.Times[2] -= 80 * ms // of play
			sum.Times = append(sum.Times, 50*ms, 30*ms)
		}
	}
	shares, _, _ := timeline.UsualShares(&s.Attempt)
	got := map[string]float64{}
	for _, c := range shares.Sites {
		got[c.Name] += c.Cost.Total() / 3
	}
	if !near(got["simulate"], 0.050) || !near(got["infer"], 0.030) || !near(got["bookkeeping"], 0.010) ||
		!near(shares.Total.Total(), 0.300) {
		t.Errorf("%v of %v", got, shares.Total)
	}
	w := timeline.Waits(&s.Attempt)
	same(t, "rollout", w.Workers[1], timeline.Times{trace.Working: 0.160, trace.Other: 0.036, trace.Idling: 0.004,
		trace.Observation: 0.200})
	same(t, "env", w.Workers[2], timeline.Times{trace.Working: 0.200, trace.Idling: 0.200})
	for _, e := range timeline.Efficiencies(&s.Attempt) {
		if want := map[string]float64{"env": 0.5, "rollout": 0.4}[e.Component]; !near(e.PE, want) {
			t.Errorf("%s is busy for %v of the time, want %v", e.Component, e.PE, want)
		}
	}
}

func same(t *testing.T, name string, got, want timeline.Times) {
	t.Helper()
	maps.DeleteFunc(got, func(_ trace.Cause, s float64) bool { return s == 0 })
	if !maps.EqualFunc(got, want, near) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// actors makes windows of one operation: actor i begins it at begin[k][i] in window k.
func actors(begin ...[]int64) *script {
	s := &script{}
	var workers []*worker
	for i := range begin[0] {
		workers = append(workers, s.worker(i, "actor", i))
		s.Workers[i].Node = i / 2
	}
	for k, at := range begin {
		for i, w := range workers {
			w.work("train", at[i]-w.now).collect("gradient", int64(k+1)*100)
		}
		s.keep(int64(k+1), trace.All)
	}
	return s
}

func TestLastArrivals(t *testing.T) {
	s := actors([]int64{50, 60, 90, 70}, []int64{150, 160, 190, 170}, []int64{250, 290, 260, 270},
		[]int64{350, 350, 390, 390}) // in the last operation two arrive at the same time
	got := timeline.LastArrivals(&s.Attempt)
	if len(got) != 1 {
		t.Fatalf("got %+v, want one communicator", got)
	}
	l := got[0]
	if l.Name != "gradient" || l.Component != "actor" || l.Operations != 4 || l.Unclear != 1 || l.Chance != 0.25 {
		t.Errorf("got %+v", l)
	}
	want := []timeline.LateMember{{Worker: 0}, {1, 1, 1.0 / 3, 0.020}, {2, 2, 2.0 / 3, 0.040}, {Worker: 3}}
	if !slices.EqualFunc(l.Members, want, func(a, b timeline.LateMember) bool {
		return a.Worker == b.Worker && a.Last == b.Last && near(a.Share, b.Share) && near(a.Delay, b.Delay)
	}) {
		t.Errorf("got %+v, want %+v", l.Members, want)
	}

	// Clocks of two nodes cannot order arrivals within twice their error.
	for i := range s.Windows {
		s.Windows[i].Bound = 10 * ms
	}
	if l := timeline.LastArrivals(&s.Attempt)[0]; l.Unclear != 2 || l.Members[2].Last != 2 {
		t.Errorf("with an error of 10 ms: %+v, want two unclear operations", l)
	}

	// An operation that a member lacks does not count.
	s = actors([]int64{50, 60, 90, 70})
	for i := range s.Windows[0].Tracks {
		spans := &s.Windows[0].Tracks[i].Spans
		if i == 0 {
			*spans = (*spans)[:1]
		}
		*spans = append(*spans, trace.Span{Site: 1, Start: 120 * ms, End: 130 * ms, N: 1})
	}
	s.Windows[0].Tracks[3].Spans[2].Start++
	if l := timeline.LastArrivals(&s.Attempt)[0]; l.Operations != 1 || l.Members[3].Last != 1 {
		t.Errorf("without a member in one operation: %+v", l)
	}

	// A member without operations in a window does not take part in that window.
	s = actors([]int64{50, 60, 90, 70}, []int64{150, 160, 190, 170})
	s.Windows[0].Tracks[3].Spans = s.Windows[0].Tracks[3].Spans[:1]
	s.Windows[0].Tracks[3].Spans[0].End = 100 * ms
	if l := timeline.LastArrivals(&s.Attempt)[0]; l.Operations != 2 || len(l.Members) != 4 {
		t.Errorf("without a member in one window: %+v", l)
	}
}

// Actors work 50, 60, 90, 70 of 100 ms: LB = 67.5/90, Comm = 90/100.
func TestEfficiencies(t *testing.T) {
	s := actors([]int64{50, 60, 90, 70}, []int64{150, 160, 190, 170})
	got := timeline.Efficiencies(&s.Attempt)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	e := got[0]
	if e.Component != "actor" || e.Workers != 4 || e.Busiest != 2 || !near(e.LB, 0.75) || !near(e.Comm, 0.9) ||
		!near(e.PE, 0.675) {
		t.Errorf("%+v", e)
	}
}

func TestVersionLags(t *testing.T) {
	s := &script{}
	rollout, actor := s.worker(0, "rollout", 0), s.worker(0, "actor", 0)
	actor.work("train", 10).publish(5, 11).work("train", 10).publish(6, 20).work("train", 10).publish(7, 31)
	rollout.adopt(4, 5).adopt(5, 12).work("infer", 5).adopt(5, 20).adopt(6, 25).adopt(6, 40)
	s.keep(1, trace.All)
	got := timeline.VersionLags(&s.Attempt, &s.Windows[0])
	want := []timeline.Lag{{Name: "weights", Unknown: 1, Counts: map[int64]int{0: 2, 1: 2}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestQueues(t *testing.T) {
	s := &script{}
	rollout, actor := s.worker(0, "rollout", 0), s.worker(1, "actor", 0)
	rollout.work("play", 10).put(out, 0).work("play", 10).put(out, 0).work("play", 10).put(out, 0).work("play", 10)
	actor.get(out, 0, 12).work("train", 28)
	s.keep(1, trace.All)
	rollout.work("play", 5).put(out, 0).work("play", 35)
	actor.get(out, 0, 42).work("train", 8).get(out, 0, 51).work("train", 29)
	s.keep(2, trace.All)

	// Items in the channel: none up to 10 ms, one up to 12, none up to 20, one up to 30, two up to 40.
	q := timeline.QueuesOf(&s.Attempt, &s.Windows[0])
	if len(q) != 1 || q[0].Channel != "out" || !q[0].Exact || q[0].Max != 2 || !near(q[0].Mean, (2.0+10+20)/40) {
		t.Errorf("first window: %+v, want max 2, mean 0.8", q)
	}
	// Two items are in the channel at 40 ms, and one from 42 to 45. The numbers of spans and marks give the number at
	// the start.
	q = timeline.QueuesOf(&s.Attempt, &s.Windows[1])
	if len(q) != 1 || !q[0].Exact || q[0].Max != 2 || !near(q[0].Mean, (4.0+3+12+29)/40) {
		t.Errorf("second window: %+v, want max 2, mean 1.2", q)
	}
	// Without the producer's track only changes are known.
	s.Windows[1].Tracks = s.Windows[1].Tracks[1:]
	q = timeline.QueuesOf(&s.Attempt, &s.Windows[1])
	if len(q) != 1 || q[0].Exact || q[0].Max != 2 || !near(q[0].Mean, (4.0+9)/40) {
		t.Errorf("without the producer: %+v, want max 2, mean 0.325", q)
	}
}
