package emulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/results/resultstest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// A moving job is a split job in real time.
type moving struct {
	unit  time.Duration // a step of a stage's environments in the first phase; an inference takes four
	steps int
	each  int // iterations of a phase
}

// slower returns the factor on a step of environments in a phase.
func slower(phase int) time.Duration {
	if phase == 1 {
		return 8
	}
	return 1
}

// setting returns the setting of the job in the layout Split(first), without moves.
func (m *moving) setting(first, iterations int) Setting {
	l := rolestest.Split(first)
	return Setting{
		Topology: Topology{PerNode: 1}, Ranks: len(l.Nodes), Envs: rolestest.SplitEnvs, Iterations: iterations,
		Stretch: 1, Seed: 1,
		Load: Load{Steps: m.steps, Minibatches: 1, Params: 1000, Shrink: 1, Step: CallTime{Call: m.unit},
			Infer: CallTime{Call: 4 * m.unit}, Update: CallTime{Call: 20 * m.unit}},
		Keys: []string{"rollout.pipeline_stage_num=2", "~cluster.component_placement", fmt.Sprintf(
			"+cluster.component_placement={actor: %q, env: %q, rollout: %q}", spmd.PlacementOf(l.Actor),
			spmd.PlacementOf(l.Env), spmd.PlacementOf(l.Rollout))},
		Drift: func(iteration int, j *Load) { j.Step.Call *= slower(iteration / m.each) },
	}
}

// scheduler returns the scheduler of the job in the layout Split(first), which was measured in the first phase.
func (m *moving) scheduler(t *testing.T, first int) *observed {
	l, unit := rolestest.Split(first), m.unit.Seconds()
	return &observed{t: t, Scheduler: advice.NewScheduler(rolestest.SplitMachine(),
		rolestest.SplitProfile(m.steps, unit, 4*unit, 20*unit),
		planner.SearchSpace{Nodes: l.Nodes, Present: &l}, 0.05)}
}

// An observed scheduler is one that keeps what has moved.
type observed struct {
	*advice.Scheduler
	t     *testing.T
	ranks []int // those of env after each move
}

func (o *observed) Decide(step, left int64) *advice.Decision {
	d := o.Scheduler.Decide(step, left)
	if d != nil {
		o.t.Logf("step %d: to %s: %s", step, d.Placement, d.Reason)
	}
	return d
}

func (o *observed) Moved(to *spmd.Placement, step int64, seconds float64) {
	o.Scheduler.Moved(to, step, seconds)
	o.ranks = append(o.ranks, len(slices.Compact(slices.Sorted(slices.Values(to.Ranks("env"))))))
	o.t.Logf("step %d: moved in %.0f ms, env is on %d ranks", step, 1e3*seconds, o.ranks[len(o.ranks)-1])
}

// trained runs a setting, and returns its result and its metrics without times.
func trained(t *testing.T, s Setting) (r Result, metrics []string) {
	t.Helper()
	s.Record = t.TempDir()
	r = test.Must(Run(t.Context(), s))(t)
	return r, resultstest.Untimed(t, filepath.Join(s.Record, "run"))
}

// TestMoving: environments are fast, slow after the first move, and fast again after the second. Their workers move to
// fewer ranks, to more, and to fewer, if the cores are quiet enough. No number changes.
func TestMoving(t *testing.T) {
	const first, iterations = 6, 45
	m := moving{unit: 300 * time.Microsecond, steps: 4}
	s, o := m.setting(first, iterations), m.scheduler(t, first)
	s.Scheduler = o
	s.Drift = func(_ int, j *Load) { j.Step.Call *= slower(len(o.ranks)) }
	r, metrics := trained(t, s)
	t.Logf("waits were late by %.2f of their time, real work took %.2f of the cores'", r.Late, r.RealWork)
	s = (&moving{steps: m.steps}).setting(first, iterations)
	s.Drift = nil
	if _, static := trained(t, s); len(static) != iterations+1 || !slices.Equal(metrics, static) {
		t.Errorf("metrics with moves\n%v\nwithout\n%v", metrics, static)
	}
	if r.Late > tooLate { // costs are not those of the setting
		return
	}
	ranks := append([]int{first}, o.ranks...)
	for i := 1; i < min(len(ranks), 4); i++ {
		if fewer := slower(i-1) == 1; fewer != (ranks[i] < ranks[i-1]) || ranks[i] == ranks[i-1] {
			t.Errorf("env was on %v ranks, want fewer, more and fewer again", ranks)
		}
	}
	if len(ranks) < 3 {
		t.Errorf("%d moves, want at least 2", len(o.ranks))
	}
}

// TestMovingPays has figures, which need quiet cores. The best placements of the phases are 1.3 times as fast as the
// best one of all. A job that moves has 0.85 of the former speed, and 1.1 times the latter. Noise of 10 % moves
// nothing.
func TestMovingPays(t *testing.T) {
	if os.Getenv("RLINF_TEST_FULL") == "" {
		t.Skip("it takes minutes: RLINF_TEST_FULL is not set")
	}
	m := moving{unit: time.Millisecond, steps: 10, each: 60}
	best, static, late := m.bounds(t)
	s, o := m.setting(4, 3*m.each), m.scheduler(t, 4)
	s.Scheduler = o
	r, _ := trained(t, s)
	took := 0.0
	for _, seconds := range r.Iterations {
		took += seconds
	}
	steady, noise := m.noisy(), m.scheduler(t, 2)
	steady.Scheduler = noise
	q, _ := trained(t, steady)
	late = max(late, r.Late, q.Late)
	t.Logf("the best of each phase %.1f s, the best of all %.1f s (%.2f), with %d moves %.1f s: %.2f of the former, "+
		"%.2f × the latter; %d moves by noise; waits were late by up to %.2f", best, static, static/best, len(o.ranks),
		took, best/took, static/took, len(noise.ranks), late)
	if late > tooLate {
		t.Skip("the cores were not quiet")
	}
	if static < 1.3*best || best < 0.85*took || static < 1.1*took || len(noise.ranks) > 0 {
		t.Error("expected 1.30, 0.85, 1.10, and 0 moves by noise")
	}
}

// bounds returns the seconds of all phases with the best placement of each, and with the best one of all, from a few
// iterations in each placement. late is the largest Result.Late.
func (m *moving) bounds(t *testing.T) (best, static, late float64) {
	few := *m
	few.each = 4
	fast, slow := math.Inf(1), math.Inf(1)
	static = math.Inf(1)
	for first := 1; first < 8; first++ {
		r, _ := trained(t, few.setting(first, 2*few.each))
		f := stats.Summarize(r.Iterations[1:few.each]).Median
		s := stats.Summarize(r.Iterations[few.each+1:]).Median
		t.Logf("env on %d ranks: iterations of %.0f and %.0f ms", first, 1e3*f, 1e3*s)
		fast, slow, static, late = min(fast, f), min(slow, s), min(static, 2*f+s), max(late, r.Late)
	}
	n := float64(m.each)
	return n * (2*fast + slow), n * static, late
}

// noisy returns the setting of 100 iterations in the first phase, in its best placement, with noise of 10 %.
func (m *moving) noisy() Setting {
	s, draw := m.setting(2, 100), rand.New(rand.NewPCG(1, 38))
	s.Drift = func(_ int, j *Load) {
		for _, d := range []*time.Duration{&j.Step.Call, &j.Infer.Call, &j.Update.Call} {
			*d = time.Duration(max(0.1, 1+0.1*draw.NormFloat64()) * float64(*d))
		}
	}
	return s
}
