package timeline_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// A job is a synchronous run in emulated durations, in µs. Each of its pairs of ranks has an env worker on the second
// rank, and a rollout worker and an actor on the first. Two pairs share a node.
type job struct {
	pairs, steps, iterations int
	simulate                 func(iteration, env, step int) int64
	infer                    int64
	train                    func(iteration, actor int) int64
	delay                    func(channel string, pair int) int64 // delay of an item
	window                   func(iteration int) trace.Reason
}

// healthy returns a run without a fault. Durations vary by up to 6 %, and transfers by a factor of up to 5.
func healthy() *job {
	r := rand.New(rand.NewPCG(1, 2))
	about := func(x int64) int64 { return x + int64(r.IntN(int(x*6/100)+1)) }
	return &job{pairs: 4, steps: 5, iterations: 20, infer: 300,
		simulate: func(int, int, int) int64 { return about(1000) },
		train:    func(int, int) int64 { return about(4000) },
		delay:    func(string, int) int64 { return 4 + int64(r.IntN(17)) },
		window: func(iteration int) trace.Reason {
			if iteration <= 3 {
				return trace.First
			}
			return trace.Regular
		}}
}

// run makes the attempt.
func (j *job) run() *script {
	s := &script{unit: 1000}
	var runners, rollouts, actors, envs []*worker
	for i := range j.pairs {
		runners = append(runners, s.worker(2*i, trace.Runner, 2*i))
		rollouts = append(rollouts, s.worker(2*i, "rollout", i))
		actors = append(actors, s.worker(2*i, "actor", i))
		runners = append(runners, s.worker(2*i+1, trace.Runner, 2*i+1))
		envs = append(envs, s.worker(2*i+1, "env", i))
	}
	for i := range s.Workers {
		s.Workers[i].Node = s.Workers[i].Rank / 4
	}
	s.Hosts = []string{"a", "b"}
	for it := 1; it <= j.iterations; it++ {
		j.iterate(it, runners, rollouts, actors, envs)
		s.keep(int64(it), j.window(it))
	}
	return s
}

func (j *job) iterate(it int, runners, rollouts, actors, envs []*worker) {
	start := runners[0].now
	for _, r := range runners {
		r.vote(start + 5).between(10)
	}
	start += 15
	for _, w := range slices.Concat(rollouts, actors, envs) {
		w.idle(start)
	}
	of := func(e edge, pair int) edge {
		e.key = strconv.Itoa(pair)
		return e
	}
	sent := make([]int64, len(envs)) // when the env worker or the rollout worker of a pair has put its last item
	for step := range j.steps {
		for e, w := range envs {
			w.work("simulate", j.simulate(it, e, step)).put(of(obs, e), int64(e))
			sent[e] = w.now
		}
		for r, w := range rollouts {
			w.get(of(obs, r), int64(r), max(w.now+1, sent[r]+j.delay("obs", r))).work("infer", j.infer)
			w.put(of(act, r), int64(r))
			sent[r] = w.now
		}
		for e, w := range envs {
			w.get(of(act, e), int64(e), max(w.now+1, sent[e]+j.delay("act", e)))
		}
	}
	end := int64(0)
	for i, w := range rollouts {
		w.put(of(out, i), int64(i)).call("generate", 5)
		envs[i].call("interact", 5)
		at := w.now
		actors[i].get(of(out, i), int64(i), at+j.delay("out", i))
		runners[2*i].await("rollout", "generate", at+2)
		runners[2*i+1].await("env", "interact", envs[i].now+2)
		actors[i].work("train", j.train(it, i))
		end = max(end, actors[i].now+50)
	}
	for i, w := range actors {
		w.collect("gradient", end).call("train", 5).idle(end + 30)
		runners[2*i].await("actor", "train", end+10).between(20)
		runners[2*i+1].between(end + 30 - runners[2*i+1].now)
		rollouts[i].idle(end + 30)
		envs[i].idle(end + 30)
	}
}

// conclude returns the findings of a run.
func conclude(s *script) []timeline.Finding {
	return timeline.Conclude([]trace.Attempt{s.Attempt}, nil)
}

// faults returns the findings that are faults.
func faults(all []timeline.Finding) []timeline.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f timeline.Finding) bool { return f.Kind != timeline.Fault })
}

// only checks that all faults are of one rule, and that the sentence of the only fault has these words. It returns the
// fault.
func only(t *testing.T, all []timeline.Finding, rule timeline.Rule, words ...string) timeline.Finding {
	t.Helper()
	found := faults(all)
	if len(found) != 1 || found[0].Rule != rule {
		t.Fatalf("got %+v, want one fault %q", all, rule)
	}
	says(t, found[0], words...)
	return found[0]
}

func says(t *testing.T, f timeline.Finding, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(f.Text, w) {
			t.Errorf("%q lacks %q", f.Text, w)
		}
	}
	if strings.Count(f.Text, ". ") > 0 || !strings.HasSuffix(f.Text, ".") {
		t.Errorf("%q is not one sentence", f.Text)
	}
}

// healthyRun checks that a run has no fault, and that the last finding says so.
func healthyRun(t *testing.T, all []timeline.Finding) {
	t.Helper()
	if len(faults(all)) > 0 || len(all) == 0 || all[len(all)-1].Rule != timeline.NoFault {
		t.Errorf("got %+v, want no fault", all)
	}
}

func TestHealthyRunHasNoFault(t *testing.T) {
	all := conclude(healthy().run())
	healthyRun(t, all)
	if len(all) != 2 || all[0].Rule != timeline.Bound {
		t.Fatalf("got %+v, want what bounds it, and that nothing is wrong", all)
	}
	// 5 of 11 ms are simulate, and 4 are train.
	if f := all[0]; f.Component != "env" || f.Share < 0.40 || f.Share > 0.55 || f.Key != "runner.async" {
		t.Errorf("got %+v", f)
	}
	says(t, all[0], "The env workers bounded this run", "simulate", "runner.async: true", "cluster.component_placement")
}

// TestFullCores: if the ranks fill the cores, no sentence wants more ranks, or work at the same time, for a component
// that all ranks have.
func TestFullCores(t *testing.T) {
	full := func(*trace.Attempt) timeline.CoreUse { return timeline.Full }
	s := healthy().run()
	all := timeline.Conclude([]trace.Attempt{s.Attempt}, full)
	if f := all[0]; f.Component != "env" || f.Key != "runner.async" {
		t.Errorf("env on some ranks: got %+v", f)
	}
	says(t, all[0], "runner.async: true, with algorithm.staleness_threshold", "more ranks")
	for i := range s.Workers {
		s.Workers[i].Rank = s.Workers[i].Member
	}
	s.Ranks = 4
	all = timeline.Conclude([]trace.Attempt{s.Attempt}, full)
	if f := all[0]; f.Component != "env" || f.Key != "" || strings.Contains(f.Text, "more ranks") {
		t.Errorf("env on all ranks: got %+v", f)
	}
	says(t, all[0], "they fill the cores: more cores help.")
}

func TestNothingIsConcludedFromNothing(t *testing.T) {
	if got := timeline.Conclude(nil, nil); got != nil {
		t.Errorf("of no attempt: %+v", got)
	}
	if got := timeline.Conclude(make([]trace.Attempt, 2), nil); got != nil {
		t.Errorf("of empty attempts: %+v", got)
	}
}

func TestSlowRank(t *testing.T) {
	slow := func(factor float64, when func(iteration int) bool) *script {
		j := healthy()
		train := j.train
		j.train = func(it, actor int) int64 {
			if d := train(it, actor); actor != 2 || !when(it) {
				return d
			}
			return int64(4100 * factor)
		}
		return j.run()
	}
	always := func(int) bool { return true }
	f := only(t, conclude(slow(1.2, always)), timeline.SlowRank, "Rank 4 is slow", "train takes",
		"on actor 2 (rank 4, host b)", "100 % of the iterations", "cluster.component_placement")
	if f.Component != "actor" || f.Key != "cluster.component_placement" || f.Share < 0.05 || f.Share > 0.08 {
		t.Errorf("got %+v", f)
	}
	only(t, conclude(slow(1.2, func(it int) bool { return it%10 > 0 })), timeline.SlowRank, "90 % of the iterations")
	healthyRun(t, conclude(slow(1.08, always)))
	healthyRun(t, conclude(slow(1.2, func(it int) bool { return it%3 > 0 })))

	// A rank whose work is only a small part of the iteration costs nothing.
	j := healthy()
	j.steps, j.train = 50, func(_, actor int) int64 { return int64(400 + 200*(actor/3)) }
	healthyRun(t, conclude(j.run()))

	// A slow rank is named once, even if several of its workers are slow. Other slow ranks are counted.
	j = healthy()
	simulate, train := j.simulate, j.train
	j.simulate = func(it, env, step int) int64 { return simulate(it, env, step) * int64(10+2*(env/2)) / 10 }
	all := conclude(j.run())
	only(t, all, timeline.SlowRank, "simulate takes", "(2 of 4 members are slow)")
	j.simulate, j.train = simulate, func(it, actor int) int64 { return train(it, actor) * int64(5+actor/3) / 5 }
	only(t, conclude(j.run()), timeline.SlowRank, "Rank 6")
}

func TestSlowLink(t *testing.T) {
	slow := func(to string, by int64) *script {
		j := healthy()
		delay := j.delay
		j.delay = func(channel string, pair int) int64 {
			if channel == to && pair == 1 {
				return by
			}
			return delay(channel, pair)
		}
		return j.run()
	}
	f := only(t, conclude(slow("obs", 500)), timeline.SlowLink,
		"from env 1 (rank 3, host a) to rollout 1 (rank 2, host a)", `of channel "obs" takes 500 µs`, "on one rank")
	if f.Share < 0.15 || f.Share > 0.25 || f.Key != "cluster.component_placement" {
		t.Errorf("got %+v", f)
	}
	only(t, conclude(slow("act", 500)), timeline.SlowLink, "from rollout 1", "to env 1")
	healthyRun(t, conclude(slow("obs", 80))) // 7 times the others, and 4 % of the iteration

	// One item that needs very long does not make a link slow.
	j := healthy()
	delay, items := j.delay, 0
	j.delay = func(channel string, pair int) int64 {
		if channel != "obs" || pair != 1 {
			return delay(channel, pair)
		}
		if items++; items%40 == 7 {
			return 50_000
		}
		return 5 * delay(channel, pair)
	}
	healthyRun(t, conclude(j.run()))

	// If all links are alike, none of them is at fault.
	j = healthy()
	j.delay = func(string, int) int64 { return 300 }
	healthyRun(t, conclude(j.run()))

	// Between nodes the delay may be an error of the clocks.
	s := slow("obs", 500)
	for i := range s.Workers {
		s.Workers[i].Node = s.Workers[i].Rank
	}
	for i := range s.Windows {
		s.Windows[i].Bound = 240_000
	}
	healthyRun(t, conclude(s))
}

// pipe makes a run of one producer and one consumer from the spans of an iteration, which is 100 ms long.
func pipe(produce, consume func(*worker)) *script {
	s := &script{}
	p, c := s.worker(0, "rollout", 0), s.worker(1, "actor", 0)
	for it := range int64(5) {
		produce(p)
		consume(c)
		p.idle(100 * (it + 1))
		c.idle(100 * (it + 1))
		s.keep(it+1, "")
	}
	return s
}

func TestTooLittleRoom(t *testing.T) {
	answers := edge{"answers of rollout", "0", "rollout", "actor", trace.Trajectory}
	for _, tc := range []struct {
		of         edge
		room, lack int64
		fault      bool
		key        string
		words      []string
	}{
		{out, 20, 20, true, "runner.async", []string{
			`The rollout workers wait 20 % of their time for room in channel "out"`,
			"the actors wait 20 % of theirs", "algorithm.staleness_threshold"}},
		{obs, 6, 6, true, "rollout.pipeline_stage_num", []string{"raise rollout.pipeline_stage_num"}},
		{answers, 30, 10, true, "cluster.component_placement", []string{"its size is fixed"}},
		{out, 30, 4, false, "cluster.component_placement", []string{"more room cannot help", "more ranks for actor"}},
		{out, 4, 50, false, "", nil},
	} {
		tc.of.to = "actor"
		s := pipe(func(w *worker) { w.work("infer", 50).room(tc.of, 0, w.now+tc.room).put(tc.of, 0) },
			func(w *worker) { w.get(tc.of, 0, w.now+tc.lack).work("train", 30) })
		all := conclude(s)
		if tc.fault {
			if f := only(t, all, timeline.Room, tc.words...); f.Key != tc.key || f.Component != "rollout" {
				t.Errorf("%v: got %+v", tc, f)
			}
			continue
		}
		healthyRun(t, all)
		if (tc.words == nil) != (all[0].Rule != timeline.Room) {
			t.Errorf("%v: got %+v", tc, all)
		} else if tc.words != nil {
			says(t, all[0], tc.words...)
		}
	}
}

func TestStalenessAtItsBound(t *testing.T) {
	for _, tc := range []struct {
		name                string
		weights, room, lack int64
		async, fault        bool
		words               []string
	}{
		{"weights", 20, 0, 30, true, true, []string{"rollout workers wait 20 % of their time for newer weights",
			"the actors wait 30 % of theirs for trajectories", "raise algorithm.staleness_threshold."}},
		{"room", 0, 20, 30, true, true, []string{"for room for their trajectories",
			"actor.recv_drain_max_trajectories"}},
		{"both", 3, 3, 6, true, true, []string{"6 % of their time for newer weights and for room"}},
		{"actors are busy", 20, 0, 4, true, false, []string{"the actors are busy and bound the run"}},
		{"below", 2, 2, 30, true, false, nil},
		{"synchronous", 20, 0, 30, false, false, nil},
	} {
		s := pipe(func(w *worker) {
			name := "generate"
			if tc.async {
				name = "produce"
			}
			w.call(name, 1).work("infer", 50)
			if tc.weights > 0 {
				w.adopt(1, w.now+tc.weights)
			}
			if tc.room > 0 {
				w.room(out, 0, w.now+tc.room)
			}
			w.put(out, 0)
		}, func(w *worker) { w.get(out, 0, w.now+tc.lack).work("train", 30).publish(1, w.now+1) })
		all := conclude(s)
		switch {
		case tc.fault:
			if f := only(t, all, timeline.Staleness, tc.words...); f.Key != "algorithm.staleness_threshold" {
				t.Errorf("%s: got %+v", tc.name, f)
			}
		default:
			healthyRun(t, all)
			if (tc.words == nil) != (all[0].Rule != timeline.Staleness) {
				t.Errorf("%s: got %+v", tc.name, all)
			} else if tc.words != nil {
				says(t, all[0], tc.words...)
			}
		}
	}
}

// At the start of a run the workers wait for the first weights, and after their last rollout for the end.
func TestStalenessIsInTheMiddle(t *testing.T) {
	s := &script{}
	p, c := s.worker(0, "rollout", 0), s.worker(1, "actor", 0)
	for it := range int64(8) {
		if p.call("produce", 1); it > 0 && it < 6 {
			p.work("infer", 95)
		}
		p.adopt(1, 100*(it+1))
		c.get(out, 0, c.now+30).work("train", 30).publish(1, 100*(it+1))
		s.keep(it+1, "")
	}
	healthyRun(t, conclude(s))
}

func TestStall(t *testing.T) {
	stalled := func(by int64, at ...int) *script {
		j := healthy()
		simulate := j.simulate
		j.simulate = func(it, env, step int) int64 {
			if d := simulate(it, env, step); !slices.Contains(at, it) || env != 3 || step != 2 {
				return d
			}
			return by
		}
		j.window = func(it int) trace.Reason {
			switch {
			case it <= 3:
				return trace.First
			case slices.Contains(at, it):
				return trace.Slowest
			case it%5 == 0:
				return trace.Regular
			}
			return ""
		}
		return j.run()
	}
	f := only(t, conclude(stalled(20_000, 12)), timeline.Stall,
		"An environment of env 3 (rank 7, host b) stalled in iteration 12: simulate took 20 ms", "times its median")
	if f.Iteration != 12 || f.Share < 0.6 || f.Share > 0.7 {
		t.Errorf("got %+v", f)
	}
	healthyRun(t, conclude(stalled(4900, 12)))         // less than 5 times
	healthyRun(t, conclude(stalled(20_000, 1)))        // the first iteration warms up
	healthyRun(t, conclude(stalled(20_000, 2, 3, 12))) // long steps are usual in this run

	j := healthy() // a long span that is a small part of the iteration
	simulate := j.simulate
	j.steps, j.simulate = 100, func(it, env, step int) int64 {
		if it == 12 && env == 3 && step == 2 {
			return 20_000
		}
		return simulate(it, env, step)
	}
	healthyRun(t, conclude(j.run()))
}

// Several faults come in the order of their shares. There are at most MostFindings findings.
func TestFindingsAreFew(t *testing.T) {
	j := healthy()
	simulate, train, delay := j.simulate, j.train, j.delay
	j.train = func(it, actor int) int64 { return train(it, actor) * int64(5+actor/3*4) / 5 }
	j.delay = func(channel string, pair int) int64 {
		if pair == 2 {
			return 700
		}
		return delay(channel, pair)
	}
	j.simulate = func(it, env, step int) int64 {
		if (it == 5 || it == 11) && env == 0 && step == 1 {
			return 30_000 * int64(it)
		}
		return simulate(it, env, step)
	}
	j.iterations = 30
	all := conclude(j.run())
	if len(all) != timeline.MostFindings || all[4].Rule != timeline.Bound {
		t.Fatalf("got %+v", all)
	}
	if all[0].Rule != timeline.Stall || all[0].Iteration != 11 || all[1].Iteration != 5 || all[2].Share < all[3].Share {
		t.Errorf("got %+v", all)
	}
	// An attempt with the same findings adds nothing. The description is that of the longer attempt.
	s := j.run()
	again := timeline.Conclude([]trace.Attempt{actors([]int64{50, 60}).Attempt, s.Attempt, s.Attempt}, nil)
	test.EqualSlices(t, again, timeline.Conclude([]trace.Attempt{s.Attempt}, nil), "of three attempts")
	j = healthy()
	j.train = func(_, actor int) int64 { return 4000 + 1000*int64(actor/3) }
	s = j.run()
	only(t, timeline.Conclude([]trace.Attempt{s.Attempt, s.Attempt}, nil), timeline.SlowRank)
}

// If ranks share cores, no rank, link or short step is blamed, and no sentence wants more ranks for a component.
func TestCrowdedRanksAreNotBlamed(t *testing.T) {
	j := healthy()
	simulate, train := j.simulate, j.train
	j.train = func(it, actor int) int64 { return train(it, actor) * int64(5+actor/3*4) / 5 }
	j.delay = func(_ string, pair int) int64 { return 4 + 700*int64(pair/3) }
	stalled := int64(30_000)
	j.simulate = func(it, env, step int) int64 {
		if it == 11 && env == 0 && step == 1 {
			return stalled
		}
		return simulate(it, env, step)
	}
	s := j.run()
	crowded := func(a *trace.Attempt) timeline.CoreUse {
		if a.ID == 7 {
			return timeline.Crowded
		}
		return timeline.Spare
	}
	if all := timeline.Conclude([]trace.Attempt{s.Attempt}, crowded); len(faults(all)) < 3 {
		t.Fatalf("the ranks of another attempt share cores: %+v", all)
	}
	s.ID = 7
	all := timeline.Conclude([]trace.Attempt{s.Attempt}, crowded)
	if len(all) != 1 || all[0].Rule != timeline.Bound || strings.Contains(all[0].Text, "more ranks") {
		t.Fatalf("got %+v, want the bound alone", all)
	}
	says(t, all[0], "more cores help, or fewer ranks (cluster.component_placement)")
	j.delay = func(string, int) int64 { return 9_000 }
	s = j.run()
	s.ID = 7
	all = timeline.Conclude([]trace.Attempt{s.Attempt}, crowded)
	if len(all) != 1 || !strings.HasPrefix(all[0].Text, "Waits for a core bounded this run: ") {
		t.Errorf("slow messages: %+v", all)
	}
	j.delay = func(_ string, pair int) int64 { return 4 + 700*int64(pair/3) }
	stalled = 3_000_000
	s = j.run()
	s.ID = 7
	only(t, timeline.Conclude([]trace.Attempt{s.Attempt}, crowded), timeline.Stall)
}

func TestBound(t *testing.T) {
	last := func(s *script) timeline.Finding {
		all := conclude(s)
		i := slices.IndexFunc(all, func(f timeline.Finding) bool { return f.Rule == timeline.Bound })
		if i < 0 {
			t.Fatalf("got %+v, want a bound", all)
		}
		return all[i]
	}
	j := healthy()
	j.train = func(int, int) int64 { return 40_000 }
	if f := last(j.run()); f.Component != "actor" || f.Share < 0.8 || f.Key != "cluster.component_placement" {
		t.Errorf("training: %+v", f)
	}
	j = healthy()
	j.train, j.infer = func(int, int) int64 { return 100 }, 900
	if f := last(j.run()); f.Component != "env" || f.Key != "rollout.pipeline_stage_num" {
		t.Errorf("environments and rollouts in turns: %+v", f)
	}
	j = healthy()
	j.delay = func(string, int) int64 { return 3000 }
	f := last(j.run())
	says(t, f, "Transfers bounded this run")
	if f.Key != "cluster.component_placement" || f.Share < 0.7 {
		t.Errorf("transfers: %+v", f)
	}
	j = healthy() // the first iteration warms up
	j.iterations, j.train = 3, func(it, _ int) int64 { return map[bool]int64{true: 90_000, false: 1000}[it == 1] }
	if f := last(j.run()); f.Component != "env" {
		t.Errorf("a long first iteration: %+v", f)
	}
	s := &script{} // an idle worker without a track of its runner
	s.worker(0, "env", 0).idle(90).work("simulate", 10)
	s.keep(1, trace.All)
	f = last(s)
	says(t, f, "does not explain 90 %", "idle")
}

// A run of one rank evaluates in every fifth iteration, and these iterations are those that are kept.
func evaluating(iterations int, every int) *script {
	s := &script{}
	r, p, c := s.worker(0, trace.Runner, 0), s.worker(0, "rollout", 0), s.worker(0, "actor", 0)
	for it := 1; it <= iterations; it++ {
		at := r.now
		ph := [trace.NumPhases]float32{0.100, 0, 0.010, 0, 0.090}
		r.between(1)
		p.idle(at+1).call("generate", 1).work("play", 7)
		r.await("rollout", "generate", at+9).between(1)
		c.idle(at+10).call("run_training", 1).work("train", 89)
		r.await("actor", "run_training", at+100)
		if it%every == 0 {
			p.idle(at+101).call("evaluate", 1).work("play", 198)
			r.between(1).await("rollout", "evaluate", at+300)
			ph[0], ph[5] = 0.300, 0.200
		}
		p.idle(r.now)
		c.idle(r.now)
		s.Phases = append(s.Phases, trace.Phases{Iteration: int64(it), Ranks: [][trace.NumPhases]float32{ph}})
		why := trace.Reason("")
		switch {
		case it <= 3:
			why = trace.First
		case it%5 == 0:
			why = trace.Regular
		}
		s.keep(int64(it), why)
	}
	return s
}

func TestBoundIsThatOfUsualIterations(t *testing.T) {
	all := conclude(evaluating(50, 5)) // every kept iteration evaluates: 28 % of the time, and 67 % in these iterations
	healthyRun(t, all)
	says(t, all[0], "The actors bounded this run: training is 90 % of the time of usual iterations (without "+
		"evaluation and checkpoint), and 89 % of the critical path is train", "evaluations are 29 % of all time")
	shares, iterations, windows := timeline.UsualShares(&evaluating(50, 5).Attempt)
	if iterations != 39 || windows != 2 || !near(shares.Total.Total(), 3.9) {
		t.Errorf("%d iterations by %d windows in %v s, want 39 by 2 in 3.9 s", iterations, windows, shares.Total)
	}
	all = conclude(evaluating(20, 1))
	says(t, all[0], "Evaluations bounded this run: they are 67 % of the time", "runner.val_check_interval")
	s := evaluating(50, 2) // the sums count, not the kept iterations alone
	for i := range s.Sums {
		if sum := &s.Sums[i]; sum.Iteration > 3 && sum.Iteration%2 == 1 {
			for k := range sum.Times {
				if site := &s.Workers[sum.Worker].Sites[k]; site.Name == "generate" && site.Op == trace.Await {
					sum.Times[k] *= 30
				}
			}
		}
	}
	says(t, conclude(s)[0], "The rollout workers bounded this run", "is play")
	for i := range s.Phases { // the same with a checkpoint in every iteration
		s.Phases[i].Ranks[0][0], s.Phases[i].Ranks[0][5] = 0.100, 0
	}
	for i := range s.Sums {
		w := &s.Workers[s.Sums[i].Worker]
		w.Sites = append(w.Sites, trace.Site{Op: trace.Work, Name: "save", Cause: trace.Saving})
		s.Sums[i].Times = append(s.Sums[i].Times, make([]int64, len(w.Sites)-len(s.Sums[i].Times))...)
		s.Sums[i].Times[len(w.Sites)-1] = ms
	}
	says(t, conclude(s)[0], "each has an evaluation or a checkpoint")
}

// The environments of an evaluation are not those of training: their steps are no stall.
func TestEvaluationIsNoStall(t *testing.T) {
	s := evaluating(50, 5)
	for i := range s.Workers {
		for k := range s.Workers[i].Sites {
			if site := &s.Workers[i].Sites[k]; site.Name == "play" {
				site.Name = "simulate"
			}
		}
	}
	s.Windows = slices.DeleteFunc(s.Windows, func(w trace.Window) bool { return w.Iteration > 5 })
	healthyRun(t, conclude(s))
}

func BenchmarkConclude(b *testing.B) {
	for _, pairs := range []int{64, 256} {
		j := healthy()
		j.pairs = pairs
		s := j.run()
		b.Run(strconv.Itoa(2*pairs)+" ranks", func(b *testing.B) {
			for b.Loop() {
				conclude(s)
			}
		})
	}
}
