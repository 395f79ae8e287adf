package advice

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A Runner runs the job of cfg on ranks, without output, and returns its error.
type Runner func(ctx context.Context, ranks []spmd.Transport, cfg *config.Config) error

// trialTime is the approximate time of a trial's real iterations, in seconds.
const trialTime = 2.5

// worldLike returns the number of goroutine ranks that imitate the waits of the ranks on node 0. cores is the number of
// cores of this node. Waits depend only on whether each rank has a core, so cores + 1 ranks are enough.
func worldLike(nodes []int, cores int) int {
	here := 0
	for _, n := range nodes {
		if n == 0 {
			here++
		}
	}
	return min(here, cores+1)
}

// Correct runs a few real iterations of the job in a temporary folder, and corrects p by their times. Most ranks of a
// trial have no members. They only make the waits realistic: see worldLike.
func (s *Subject) Correct(ctx context.Context, m *planner.Machine, p *planner.Profile, run Runner) error {
	world := worldLike(s.Nodes, runtime.NumCPU())
	one := s.inTurn(make([]int, world))
	if p.Work.Envs+p.Work.Prompts == 0 { // training from demonstrations
		one.Env, one.Rollout = nil, nil
	}
	first, err := s.try(ctx, m, p, one, run)
	if err != nil {
		return err
	}
	if p.Work.Envs == 0 || len(s.Nodes) == 1 {
		planner.Correct(m, p, *first, nil)
		return nil
	}
	two := one
	two.Nodes, two.Rollout = make([]int, max(2, world)), []int{1}
	second, err := s.try(ctx, m, p, two, run)
	if err == nil {
		planner.Correct(m, p, *first, second)
	}
	return err
}

// try runs real iterations with a layout, and returns their times.
func (s *Subject) try(ctx context.Context, m *planner.Machine, p *planner.Profile, l planner.Placement,
	run Runner) (*planner.Trial, error) {
	folder, err := os.MkdirTemp("", "rlinf-plan-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	skipped, measured := trialSteps(planner.Estimate(m, p, l).Seconds)
	skipped += min(p.Work.Warmup, 1000)
	cfg := s.onRanks(&l)
	r := &cfg.Runner
	r.Logger.LogPath, r.Logger.ExperimentName, r.Logger.LoggerBackends = folder, "trial", nil
	r.Logger.LogInterval, r.MaxEpochs, r.MaxSteps, r.MaxTime = 1, -1, skipped+measured, 0
	r.ValCheckInterval, r.SaveInterval, r.SaveAtEnd, r.ResumeDir = -1, -1, false, ""
	cfg.Cluster.Tracer = config.TracerConfig{}
	if err := run(ctx, local.New(len(l.Nodes)), cfg); err != nil {
		return nil, fmt.Errorf("real iterations of the job: %w", err)
	}
	return readTrial(filepath.Join(folder, "trial", "metrics.jsonl"), l, skipped)
}

// trialSteps returns how many iterations a trial skips at first, and how many it then measures. iteration is the
// approximate time of an iteration in seconds, or 0 if it is unknown. A long iteration varies little, so one is enough.
func trialSteps(iteration float64) (skipped, measured int) {
	const least, most = 3, 40
	switch {
	case iteration <= 0:
		return 2, most
	case iteration > trialTime:
		return 1, 1
	}
	return 2, min(most, max(least, int(trialTime/iteration)))
}

// onRanks returns the configuration of a trial, with all components on the ranks of l.
func (s *Subject) onRanks(l *planner.Placement) *config.Config {
	was := s.movable
	defer func() { s.movable = was }()
	s.movable = s.placing.Components
	c := s.placedBy(l)
	for i := range c.Cluster.ComponentPlacement {
		if e := &c.Cluster.ComponentPlacement[i]; len(e.Value.NodeGroup) > 0 || i >= len(s.movable) {
			e.Value = config.PlacementConfig{Placement: "0"}
		}
	}
	c.Cluster.NodeGroups, c.Cluster.NumNodes, c.SPMD.Nodes, c.Cluster.AllowIdleRanks = nil, 0, 0, true
	c.Cluster.AutoScheduler = false
	return c
}

// readTrial reads the times of a run's iterations. skipped is the number of iterations that it omits at the beginning.
func readTrial(file string, l planner.Placement, skipped int) (*planner.Trial, error) {
	times, n := map[string][]float64{}, 0
	if _, err := metrics.ReadLines(file, 0, func(line []byte, _ int64) error {
		if math.IsNaN(metrics.Number(line, "time/step")) {
			return nil
		}
		if n++; n <= skipped {
			return nil
		}
		for _, name := range []string{"step", planner.SyncWeights, planner.GenerateRollouts, planner.CalAdvAndReturns,
			planner.ActorTraining} {
			if t := metrics.Number(line, "time/"+name); !math.IsNaN(t) {
				times[name] = append(times[name], t)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if len(times["step"]) == 0 {
		return nil, fmt.Errorf("real iterations of the job: no times in %s", file)
	}
	t := &planner.Trial{Layout: l, Step: probe.Median(times["step"]), Phases: map[string]float64{}}
	for name, list := range times {
		t.Phases[name] = probe.Median(list)
	}
	return t, nil
}
