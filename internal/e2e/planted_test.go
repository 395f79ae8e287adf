package e2e

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// slept is a job of paced, whose durations are slept. A rollout takes six steps of 20 ms.
const slept = `
cluster:
  component_placement: {actor: 0-1, env: 1-2, rollout: 0}
runner: {max_steps: 10}
env:
  train: {env_type: CartPole-paced, total_num_envs: 8, max_steps_per_rollout_epoch: 6}
algorithm: {adv_type: gae, loss_type: paced, update_epoch: 1}
actor:
  micro_batch_size: 8
  global_batch_size: 48
  model: {hidden_sizes: [8]}
  optim: {lr: 1.0e-3}
`

// A planted is a run with at most one fault.
type planted struct {
	name string
	args []string
	// What the summary must say of the fault. Without a rule there is none.
	rule      timeline.Rule
	component string
	worker    string // the component's member and its rank; "": none
	iteration int64
	key       string
}

// Each component has a rank of its own, so that rollouts go on while the actor trains.
var (
	aside = []string{"runner.async=true", "cluster.component_placement={actor: 0, env: 1, rollout: 2}"}
	// Frames of a film come all at once.
	filmed = []string{"cluster.component_placement={actor: 0, env: 1, rollout: 2}"}
)

var plantedRuns = []planted{
	{name: "healthy"},
	{name: "slow rank", args: []string{"env.train.env_type=CartPole-slow"}, rule: timeline.SlowRank, component: "env",
		worker: "1 on rank 2", key: "cluster.component_placement"},
	{name: "stall", args: []string{"env.train.env_type=CartPole-stall"}, rule: timeline.Stall, component: "env",
		worker: "1 on rank 2", iteration: 6},
	{name: "staleness", args: append([]string{"algorithm.loss_type=bursts", "algorithm.staleness_threshold=1"},
		aside...), rule: timeline.Staleness, component: "rollout", key: "algorithm.staleness_threshold"},
	{name: "healthy, asynchronous", args: append([]string{"algorithm.loss_type=even",
		"algorithm.staleness_threshold=4"}, aside...)},
	{name: "room", args: append([]string{"env.train.env_type=CartPole-film"}, filmed...), rule: timeline.Room,
		component: "env"}, // no key gives the program's own channel more room
	{name: "healthy, with films", args: append([]string{"env.train.env_type=CartPole-films"}, filmed...)},
}

// TestPlantedFaults: the summary names the fault of a run, and no other. A healthy run has none. On MPI no test can
// delay a link: package roles/embodied does so between goroutines.
func TestPlantedFaults(t *testing.T) {
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			program := p.program(t, "./internal/e2e/testdata/paced")
			var dirs []string
			var running []*job
			for _, run := range plantedRuns { // they sleep side by side
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", slept)
				dirs = append(dirs, dir)
				running = append(running, p.startProgram(t, program, dir, 3,
					append([]string{"-c", "job.yaml"}, run.args...)...))
			}
			for i, run := range plantedRuns {
				t.Run(run.name, func(t *testing.T) {
					if r := running[i].result(); r.code != 0 {
						t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
					}
					tr, err := trace.Read(filepath.Join(dirs[i], "logs", "job"))
					if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
						t.Fatalf("%v, %+v", err, tr)
					}
					run.check(t, timeline.Conclude(tr.Attempts), &tr.Attempts[0])
					checkPaths(t, &tr.Attempts[0])
				})
			}
		})
	}
}

func (p *planted) check(t *testing.T, all []timeline.Finding, a *trace.Attempt) {
	t.Helper()
	var faults []timeline.Finding
	for _, f := range all {
		t.Log(f.Text)
		if f.Kind == timeline.Fault {
			faults = append(faults, f)
		}
	}
	if p.rule == "" {
		if len(faults) > 0 || len(all) == 0 || all[len(all)-1].Rule != timeline.NoFault {
			t.Errorf("faults: %+v, want none", faults)
		}
		return
	}
	if len(faults) != 1 {
		t.Fatalf("faults: %+v, want one", faults)
	}
	f, worker := faults[0], ""
	if f.Worker >= 0 {
		worker = fmt.Sprintf("%d on rank %d", a.Workers[f.Worker].Member, a.Workers[f.Worker].Rank)
	}
	got := planted{name: p.name, args: p.args, rule: f.Rule, component: f.Component, worker: worker,
		iteration: f.Iteration, key: f.Key}
	if fmt.Sprint(got) != fmt.Sprint(*p) {
		t.Errorf("got %+v, want %+v", got, *p)
	}
}

// checkPaths checks that the critical paths of all windows but the first are as long as their iterations, and that they
// say for what the time was spent.
func checkPaths(t *testing.T, a *trace.Attempt) {
	t.Helper()
	var whole, all, explained float64
	for i := range a.Windows {
		w := &a.Windows[i]
		k := slices.IndexFunc(a.Phases, func(p trace.Phases) bool { return p.Iteration == w.Iteration })
		if k < 0 || w.Iteration == 1 {
			continue
		}
		path := timeline.CriticalPath(a, w)
		cost := timeline.SharesOf(a, path).Total
		whole += float64(a.Phases[k].Ranks[0][0])
		all, explained = all+cost.Total(), explained+cost.Busy+cost.Transfer
		t.Logf("iteration %d (%s): %.4f s, critical path %.4f s, %+v", w.Iteration, w.Why, a.Phases[k].Ranks[0][0],
			cost.Total(), cost)
	}
	if whole == 0 || math.Abs(all-whole) > 0.05*whole || explained < 0.95*whole {
		t.Errorf("critical paths of %.3f s, of which %.3f s are explained, in iterations of %.3f s", all, explained,
			whole)
	}
}
