package planner

import (
	"cmp"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
)

// near reports whether x is within a share of want.
func near(x, want, share float64) bool { return math.Abs(x-want) <= share*want }

// twoCores is a machine whose messages take 0.1 ms.
func twoCores() *Machine {
	l := Link{Latency: 100e-6}
	return &Machine{Cores: 2, Nodes: 1, Copy: 1e10, Process: l, SameNode: l, Network: Usual()}
}

// waiting is the job of the worked example: 64 environments whose step is a wait, 32 steps, an inference that
// computes. The waits are those that were measured where 2, 1 and 0.5 ms were asked for.
func waiting() *Profile {
	p := &Profile{Work: Workload{Actors: 1, Envs: 64, Group: 1, Steps: 32, Epochs: 1, Samples: 2048, WeightsEvery: 1,
		Staleness: -1}}
	for i, rows := range []int{16, 32, 64} {
		wait, infer := []float64{1.09e-3, 1.09e-3, 2.17e-3}[i], []float64{0.42e-3, 0.69e-3, 1.28e-3}[i]
		p.Costs = append(p.Costs, CallTimes{Op: OpStep, Rows: rows, Seconds: wait},
			CallTimes{Op: OpInfer, Rows: rows, Seconds: infer, Busy: infer})
	}
	return p
}

// TestWorkedExample: rollouts of 64 environments whose figures are known, in six layouts. The measured times were 113,
// 116 to 125, 79 to 98, 143 and 74 to 82 ms.
func TestWorkedExample(t *testing.T) {
	for _, c := range []struct {
		name         string
		env, rollout []int
		stages       int
		want         float64 // ms
	}{
		{"one rank does all", []int{0}, []int{0}, 1, 112},
		{"apart", []int{0}, []int{1}, 1, 118},
		{"apart, 2 stages", []int{0}, []int{1}, 2, 72},
		{"apart, 4 stages", []int{0}, []int{1}, 4, 141},
		{"both on both", []int{0, 1}, []int{0, 1}, 1, 58},
	} {
		l := Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: c.env, Rollout: c.rollout, Stages: c.stages}
		run := Predict(twoCores(), waiting(), l, Options{}).Phase(GenerateRollouts).Seconds
		closed := Estimate(twoCores(), waiting(), l).Phase(GenerateRollouts).Seconds
		if !near(run*1e3, c.want, 0.03) || !near(closed*1e3, c.want, 0.03) {
			t.Errorf("%s: %.1f ms, in closed form %.1f ms; want %.0f", c.name, run*1e3, closed*1e3, c.want)
		}
	}
}

// TestLongEpochsFollowFromTheirPeriod: a run of some steps tells the time of all.
func TestLongEpochsFollowFromTheirPeriod(t *testing.T) {
	p := waiting()
	p.Work.Steps = 1000
	l := Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 2}
	whole, some := Predict(twoCores(), p, l, Options{}), Predict(twoCores(), p, l, Options{Steps: 48})
	if !near(some.Seconds, whole.Seconds, 1e-6) || some.Events > whole.Events/5 {
		t.Errorf("%v s by %d events, all steps %v s by %d", some.Seconds, some.Events, whole.Seconds, whole.Events)
	}
}

// TestHiddenSums: the backward pass hides the sums of all buckets of a gradient but the last, and no sum of a few
// numbers.
func TestHiddenSums(t *testing.T) {
	p := waiting()
	w := &p.Work
	w.Actors, w.OptimiserSteps, w.SmallSums, w.GradientBytes, w.Backward = 2, 10, 5, 4000, 0.5
	p.Costs = append(p.Costs, CallTimes{Op: OpUpdate, Rows: 1024, Seconds: 0.1, Busy: 0.1},
		CallTimes{Op: OpSum, Rows: 64, Members: 2, Seconds: 1e-3}, CallTimes{Op: OpSum, Rows: 1000, Members: 2,
			Seconds: 4e-3})
	l := Placement{Nodes: []int{0, 0}, Actor: []int{0, 1}, Env: []int{0}, Rollout: []int{0}, Stages: 1}
	for bucket, want := range map[int]float64{4000: 0.145, 2000: 0.125, 1000: 0.115, 40: 0.105 + 0.0004, 0: 0.145} {
		w.BucketBytes = bucket
		if got := Estimate(twoCores(), p, l).Phase(ActorTraining).Seconds; !near(got, want, 1e-9) {
			t.Errorf("buckets of %d bytes: %v s, expected %v", bucket, got, want)
		}
	}
}

// TestCrowd: two ranks that compute at the same time slow each other down as the profile says, and three share two
// cores.
func TestCrowd(t *testing.T) {
	p := waiting()
	for i := range p.Costs {
		p.Costs[i].Busy = p.Costs[i].Seconds
	}
	p.Crowd = []Crowd{{OpInfer, 2, 1.5}}
	all := func(n int) float64 {
		var ranks []int
		for r := range n {
			ranks = append(ranks, r)
		}
		l := Placement{Nodes: make([]int, n), Actor: []int{0}, Env: ranks, Rollout: ranks, Stages: 1}
		return Predict(twoCores(), p, l, Options{}).Phase(GenerateRollouts).Seconds * 1e3
	}
	alone := 32*(1.09+0.69) + 0.69 // 32 rows
	if two := all(2); !near(two, 1.5*alone, 3e-3) {
		t.Errorf("two ranks: %.1f ms, want %.1f", two, 1.5*alone)
	}
	quarter := 32*(1.09+0.42) + 0.42 // 16 rows
	if four := all(4); !near(four, 2*1.5*quarter, 3e-3) {
		t.Errorf("four ranks on two cores: %.1f ms, want %.1f", four, 3*quarter)
	}
}

// TestCores: computations on a node share its cores by turns. With 2 cores, 3 computations of 2, 2 and 4 s: all three
// take 1.5 times as long until 3 s, and then one is alone and has 2 s left.
func TestCores(t *testing.T) {
	e := newEngine(1, 1, crowded(&Machine{Cores: 2}, &Profile{}, OpInfer))
	var ends []float64
	for _, busy := range []float64{2, 2, 4} {
		e.start(0, 0, &program{epochs: 1, sections: []section{{[]action{{kind: compute, busy: busy}}, 1, false}}})
	}
	e.run(math.MaxInt)
	for _, p := range e.procs {
		ends = append(ends, p.ended)
	}
	if !slices.Equal(ends, []float64{3, 3, 5}) {
		t.Errorf("ends %v, want 3, 3 and 5", ends)
	}
}

// TestRoom: a process waits until its queue has room. The consumer takes 1 s for each of 3 items; with room for one
// item, the producer ends when the second item is taken.
func TestRoom(t *testing.T) {
	e := newEngine(1, 1, func(int) float64 { return 1 })
	q := e.queue(1)
	e.start(0, 0, &program{epochs: 1, sections: []section{{[]action{{kind: put, queue: q}}, 3, false}}})
	e.start(0, 0, &program{epochs: 1, sections: []section{{[]action{{kind: get, queue: q}, {kind: compute, busy: 1}}, 3,
		false}}})
	e.run(math.MaxInt)
	if got := []float64{e.procs[0].ended, e.procs[1].ended}; got[0] != 1 || got[1] != 3 {
		t.Errorf("ends %v, want 1 and 3", got)
	}
}

// TestDrawnDurations: with noise, the mean of many calls is that of the quantiles, and the seed decides.
func TestDrawnDurations(t *testing.T) {
	d := drawer{noisy: true, seed: 7}
	sum := 0.0
	for n := range uint64(10000) {
		sum += d.factor([]float64{1, 2, 5}, n) // mean of 1.5 and 3.5
	}
	if !near(sum/10000, 2.5, 0.01) {
		t.Errorf("mean %v, want 2.5", sum/10000)
	}
	if d.factor([]float64{0, 1}, 3) != d.factor([]float64{0, 1}, 3) || d.factor([]float64{0, 1}, 3) ==
		(drawer{noisy: true, seed: 8}).factor([]float64{0, 1}, 3) {
		t.Error("a duration does not follow from seed, process and call alone")
	}
}

func TestTimesBetweenAndBeyondSizes(t *testing.T) {
	p := &Profile{Costs: []CallTimes{{Op: OpStep, Rows: 40, Seconds: 5, Busy: 5},
		{Op: OpStep, Rows: 10, Seconds: 2, Busy: 2},
		{Op: OpStep, Rows: 20, Seconds: 3, Busy: 1}}}
	for _, c := range []struct{ rows, seconds, busy float64 }{
		{10, 2, 2}, {15, 2.5, 1.5}, {20, 3, 1}, {40, 5, 5}, {80, 9, 9}, {5, 1.5, 1.5},
	} {
		got := p.Time(OpStep, c.rows)
		if !near(got.Seconds, c.seconds, 0.02) || c.rows >= 10 && c.rows <= 40 && !near(got.Busy, c.busy, 0.02) {
			t.Errorf("%v rows: %v, want %v and %v", c.rows, got, c.seconds, c.busy)
		}
	}
	if got := p.Time(OpInfer, 3); got != (Took{}) {
		t.Errorf("an operation without a measurement takes %v", got)
	}
}

func TestPlacementStrings(t *testing.T) {
	for want, ranks := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0-1:0-3": {0, 0, 1, 1}, "0-1,4-5": {0, 1, 4, 5}, "3:0-1,4:2-3": {3, 3, 4, 4},
		"0:0-1,1": {0, 0, 1},
	} {
		if want == "3:0-1,4:2-3" {
			want = "3-4:0-3"
		}
		test.Equal(t, spmd.PlacementOf(ranks), want, "%v", ranks)
	}
}

// TestTies: of two layouts within 3 % the one with fewer parts wins, even if the other is faster.
func TestTies(t *testing.T) {
	few := Prediction{Seconds: 1.02, Layout: Placement{Nodes: ranksOf(2), Actor: []int{0}, Env: []int{0},
		Rollout: []int{0}, Stages: 1}}
	many := Prediction{Seconds: 1, Layout: few.Layout}
	many.Layout.Env, many.Layout.Rollout = []int{0, 1}, []int{0, 1}
	list := []Prediction{many, few}
	if byParts(list, new(SearchSpace).bySimplicity); list[0].Seconds != 1.02 || list[1].Seconds != 1 {
		t.Errorf("%v wins by less than 3 %%", list[0].Layout)
	}
	few.Seconds = 1.04
	list = []Prediction{many, few}
	if byParts(list, new(SearchSpace).bySimplicity); list[0].Seconds != 1 {
		t.Errorf("%v wins with 4 %% more time", list[0].Layout)
	}
}

func ranksOf(n int) []int { return make([]int, n) }

// TestSearchFindsTheBest: no layout of a small world is better than the winner by more than a tie.
func TestSearchFindsTheBest(t *testing.T) {
	m, p := twoCores(), waiting()
	s := SearchSpace{Nodes: ranksOf(3), Idle: true}
	f := test.Must(Search(m, p, s))(t)
	best := math.Inf(1)
	looked := 0
	var each func(n int, ranks []int, use func([]int))
	each = func(n int, ranks []int, use func([]int)) { // all ways to place up to n members
		if len(ranks) > 0 {
			use(ranks)
		}
		for r := 0; r < 3 && n > 0; r++ {
			if len(ranks) == 0 || r >= ranks[len(ranks)-1] {
				each(n-1, append(slices.Clone(ranks), r), use)
			}
		}
	}
	for _, stages := range []int{1, 2, 4} {
		each(4, nil, func(env []int) {
			each(4, nil, func(rollout []int) {
				l := Placement{Nodes: s.Nodes, Actor: []int{0}, Env: env, Rollout: rollout, Stages: stages}
				if fits(&p.Work, &l) {
					looked++
					best = min(best, Predict(m, p, l, Steady()).Seconds)
				}
			})
		})
	}
	if w := f.Winner(); w.Seconds > best*(1+Tie)+1e-9 || looked < 500 {
		t.Errorf("%v takes %v s; the best of %d takes %v", &w.Layout, w.Seconds, looked, best)
	}
}

// TestThousandsOfRanks: a plan for 4096 ranks is found with few events, and is the same every time.
func TestThousandsOfRanks(t *testing.T) {
	t.Run("", func(t *testing.T) { thousandsOfRanks(t, nil) })
	t.Run("further", func(t *testing.T) { thousandsOfRanks(t, map[string]int{"reward": 0, "inference": 0}) })
}

func thousandsOfRanks(t *testing.T, further map[string]int) {
	m, p := twoCores(), rewarded(1e-4)
	m.Cores, m.Nodes, p.Work.Envs, p.Work.Actors, p.Work.Samples = 8, 512, 1<<16, 512, 1<<21
	s := SearchSpace{Nodes: ranksOf(4096), Idle: true, Further: further}
	for r := range s.Nodes {
		s.Nodes[r] = r / 8
	}
	var text [2]strings.Builder
	for i := range text {
		f := test.Must(Search(m, p, s))(t)
		events := 0
		for _, x := range f.Best {
			events += x.Events
		}
		if events > runEvents {
			t.Errorf("%d events", events)
		}
		test.OK(t, f.Explain(&text[i], m, p))
	}
	if text[0].String() != text[1].String() {
		t.Errorf("two plans from the same numbers:\n%s\n%s", &text[0], &text[1])
	}
}

func TestNothingFits(t *testing.T) {
	m, p := twoCores(), waiting()
	m.Memory, p.Work.Bytes = 1<<20, Sizes{Actor: 3 << 20, Queued: 1}
	_, err := Search(m, p, SearchSpace{Nodes: ranksOf(2), Idle: true})
	if err == nil || !strings.Contains(err.Error(), "memory of a node, 1.0 MiB: the nearest miss is actor 0, env 0") ||
		!strings.Contains(err.Error(), "needs 3.0 MiB on node 0") {
		t.Errorf("no memory: %v", err)
	}
	m.Memory, p.Work.Envs = 0, 7
	p.Work.Actors = 2
	_, err = Search(m, p, SearchSpace{Nodes: ranksOf(2), Fixed: map[string][]int{"env": {0, 1}}})
	if !errors.Is(err, ErrNone) {
		t.Errorf("7 environments on 2 env workers: %v", err)
	}
	_, err = Search(m, p, SearchSpace{Nodes: ranksOf(2), Fixed: map[string][]int{"env": {5}}})
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "too small: env is on rank 5") {
		t.Errorf("a small world: %v", err)
	}
}

// TestTexts: a message counts what the job has, and says why a slower layout wins.
func TestTexts(t *testing.T) {
	none := SearchSpace{Nodes: ranksOf(1)}
	for want, w := range map[string]Workload{
		": 7 environments, 1 actor and 1 rank: ":               {Actors: 1, Envs: 7, Group: 1},
		": 8 environments in groups of 4, 2 actors and 1 rank": {Actors: 2, Envs: 8, Group: 4},
		": 1 prompt, 1 actor":                                  {Actors: 1, Prompts: 1},
		": 64 samples, 3 actors and 1 rank":                    {Actors: 3, Samples: 64},
	} {
		if err := none.nothing(&w); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f := &Found{Best: []Prediction{{Seconds: 1.02, Phases: make([]PhaseEstimate, 1)}, {Seconds: 1}}}
	for seconds, want := range map[float64]string{1: "takes 1s; within 3 % the simpler one wins.", 2: "takes 2s."} {
		f.Best[1].Seconds = seconds
		if text := strings.Join(f.Sentences(waiting()), " "); !strings.HasSuffix(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

// TestFiles: a machine and a profile come back from a file, and give the same plan.
func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.json")
	m, p := twoCores(), waiting()
	p.Build, p.Host, p.Job = "b1", "here", "j1"
	test.OK(t, Write(file, m, p))
	m2, p2, err := Read(file)
	test.OK(t, err)
	a := test.Must(Search(m, p, SearchSpace{Nodes: ranksOf(2), Idle: true}))(t)
	b, err := Search(m2, p2, SearchSpace{Nodes: ranksOf(2), Idle: true})
	if err != nil || a.Winner().Seconds != b.Winner().Seconds ||
		a.Winner().Layout.String() != b.Winner().Layout.String() {
		t.Errorf("%v, then %v (%v)", a.Winner(), b.Winner(), err)
	}
	own := Identity{"b1", "here", "j1"}
	test.Check(t, p2.Fits(own, false))
	for want, id := range map[string]Identity{"another machine": {"b1", "there", "j1"}, "another build": {"b2", "here",
		"j1"}, "another job": {"b1", "here", "j2"}} {
		test.Fails(t, p2.Fits(id, false), want, "%v", id)
	}
	test.Check(t, p2.Fits(Identity{"b1", "there", "j1"}, true), "another machine on purpose")
	for want, wrong := range map[string]Profile{
		"crowd.0: infer on 1 cores":          {Work: p.Work, Crowd: []Crowd{{OpInfer, 1, 2}}},
		"crowd.0: infer on 2 cores takes 0 ": {Work: p.Work, Crowd: []Crowd{{OpInfer, 2, 0}}},
		"work.answers: 0":                    {Work: Workload{Actors: 1, Prompts: 4}},
	} {
		test.OK(t, Write(file, nil, &wrong))
		if _, _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestPresentStays: the present layout wins unless another one is faster by more than Tie. It need not be the simplest.
func TestPresentStays(t *testing.T) {
	s := SearchSpace{Nodes: ranksOf(3), Idle: true}
	free := test.Must(Search(twoCores(), waiting(), s))(t)
	fastest := slices.MinFunc(free.Best, func(a, b Prediction) int { return cmp.Compare(a.Seconds, b.Seconds) })
	stays := 0
	for i := range free.Best {
		now := free.Best[i]
		near := now.Seconds <= fastest.Seconds*(1+Tie)
		if near {
			stays++
		}
		s.Present = &now.Layout
		f := test.Must(Search(twoCores(), waiting(), s))(t)
		said := strings.Join(f.Sentences(waiting()), " ")
		if f.KeepsPresent() != near || (f.Winner().Layout.String() == now.Layout.String()) != near ||
			strings.HasPrefix(said, "Keep the present placement, "+now.Layout.String()+". ") != near {
			t.Errorf("present %v, %v of %v: %s", &now.Layout, now.Seconds, fastest.Seconds, said)
		}
	}
	s.Present = &Placement{Nodes: s.Nodes, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 1}
	if f := test.Must(Search(twoCores(), waiting(), s))(t); f.KeepsPresent() || stays < 2 {
		t.Errorf("the slow layout stays, or only %d are as good as the fastest", stays)
	}
}

// TestPresentThatDoesNotRun: a job may ask for a plan because its placement cannot divide its work.
func TestPresentThatDoesNotRun(t *testing.T) {
	whole := Placement{Nodes: ranksOf(4), Actor: []int{0}, Env: []int{0, 1, 2}, Rollout: []int{3}, Stages: 1}
	half := Placement{Nodes: ranksOf(4), Actor: []int{0}, Rollout: []int{1}, Stages: 1,
		Meshes: map[string]mesh.Mesh{"rollout": {Tensor: 2}}}
	text := &Profile{Work: Workload{Actors: 1, Prompts: 8, Answers: 2, Samples: 16},
		Costs: []CallTimes{{Op: OpGenerate, Rows: 16, Seconds: 1, Busy: 1}}}
	for p, present := range map[*Profile]*Placement{waiting(): &whole, text: &half} {
		p.Work.Actors = 1
		f, err := Search(twoCores(), p,
			SearchSpace{Nodes: present.Nodes, Present: present, Meshes: present.Meshes, Idle: true})
		if err != nil || f.Present != nil || f.Winner().Layout.String() == present.String() {
			t.Errorf("%v: %+v, %v", present, f, err)
		}
	}
}
