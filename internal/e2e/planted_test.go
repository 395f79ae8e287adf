package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// slept is a job of paced, which sleeps in place of work. A rollout takes four steps of 40 ms.
const slept = `
cluster:
  component_placement: {actor: 0-1, env: 1-2, rollout: 0}
runner: {max_steps: 10}
env:
  train: {env_type: CartPole-paced, total_num_envs: 8, max_steps_per_rollout_epoch: 4}
algorithm: {adv_type: gae, loss_type: paced, update_epoch: 1}
actor:
  micro_batch_size: 8
  global_batch_size: 32
  model: {hidden_sizes: [8]}
  optim: {lr: 1.0e-3}
`

// A planted is a run with at most one fault.
type planted struct {
	name string
	args []string
	// The summary must name this fault. Without a rule it must name no fault.
	rule      timeline.Rule
	component string
	worker    string // the component's member and its rank; "": none
	iteration int64
	key       string
}

// Arguments of runs in which each component has its own rank. Some are asynchronous. In the others the actor watches
// films after it has trained.
var (
	filmed = []string{"cluster.component_placement={actor: 0, env: 1, rollout: 2}"}
	aside  = append([]string{"runner.async=true"}, filmed...)
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
		component: "env"}, // no key gives more room to a channel of the user's program
	{name: "healthy, with films", args: append([]string{"env.train.env_type=CartPole-films"}, filmed...)},
}

// TestPlantedFaults: the summary names the fault of a run, and no other. For a healthy run it names none.
// TestSlowLinkOnHosts tests slow links.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		if p == mpich && !full {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			program := p.program(t, "./internal/e2e/testdata/paced")
			var running []*pacedJob
			for i := range plantedRuns { // they only sleep, so they run side by side
				running = append(running, plantedRuns[i].start(t, p, program))
			}
			for i := range plantedRuns {
				run := &plantedRuns[i]
				t.Run(run.name, func(t *testing.T) {
					a, stalled := running[i].attempt(t)
					wrong := run.judge(t, a, stalled)
					for range 3 { // other tests may have slowed a rank, or the machine stalled
						if wrong == "" {
							break
						}
						t.Logf("once more: %s", wrong)
						a, stalled = run.start(t, p, program).attempt(t)
						wrong = run.judge(t, a, stalled)
					}
					if wrong != "" {
						t.Error(wrong)
					}
				})
			}
		})
	}
}

// A pacedJob is a job of the program paced.
type pacedJob struct {
	*job
	run string // the run's folder
}

func (p *planted) start(t *testing.T, on *platform, program string) *pacedJob {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", slept)
	return &pacedJob{on.startProgram(t, program, dir, 3, append([]string{"-c", "job.yaml"}, p.args...)...),
		filepath.Join(dir, "logs", "job")}
}

// attempt returns the record of the job after its end, and whether the machine stalled during the job.
func (j *pacedJob) attempt(t *testing.T) (a *trace.Attempt, stalled bool) {
	t.Helper()
	r := j.result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	tr, err := trace.Read(j.run)
	if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
		t.Fatalf("%v, %+v", err, tr)
	}
	return &tr.Attempts[0], strings.Contains(r.stderr, "the machine stalled")
}

// judge returns the mistakes in the summary or in the critical paths of a run. If the machine stalled, the summary may
// also name that.
func (p *planted) judge(t *testing.T, a *trace.Attempt, stalled bool) string {
	t.Helper()
	all := timeline.Conclude([]trace.Attempt{*a}, nil)
	var faults []string
	for _, f := range all {
		t.Log(f.Text)
		if f.Kind != timeline.Fault || stalled && f.Rule == timeline.Stall && f.Iteration != p.iteration {
			continue
		}
		worker := ""
		if f.Worker >= 0 {
			worker = fmt.Sprintf("%d on rank %d", a.Workers[f.Worker].Member, a.Workers[f.Worker].Rank)
		}
		faults = append(faults, fmt.Sprintf("%s: %s %s, iteration %d, key %q", f.Rule, f.Component, worker, f.Iteration,
			f.Key))
	}
	var want []string
	if p.rule != "" {
		want = []string{fmt.Sprintf("%s: %s %s, iteration %d, key %q", p.rule, p.component, p.worker, p.iteration,
			p.key)}
	} else if !stalled && (len(all) == 0 || all[len(all)-1].Rule != timeline.NoFault) {
		return fmt.Sprintf("the summary does not say that there is no fault: %+v", all)
	}
	if !slices.Equal(faults, want) {
		return fmt.Sprintf("faults %q, want %q", faults, want)
	}
	return checkPaths(t, a)
}

// checkPaths checks that at least half of the windows have a critical path as long as the iteration, with all time
// explained. It returns "" if they do. A busy machine may need long between two iterations, which no phase has. The
// first window does not count.
func checkPaths(t *testing.T, a *trace.Attempt) string {
	t.Helper()
	windows, good := 0, 0
	for i := range a.Windows {
		w := &a.Windows[i]
		k := slices.IndexFunc(a.Phases, func(p trace.Phases) bool { return p.Iteration == w.Iteration })
		if k < 0 || w.Iteration == 1 || a.Phases[k].Ranks[0][0] < 0.1 {
			continue
		}
		whole := float64(a.Phases[k].Ranks[0][0])
		cost := timeline.SharesOf(a, timeline.CriticalPath(a, w)).Total
		windows++
		if math.Abs(cost.Total()-whole) <= 0.05*whole && cost.Busy+cost.Transfer >= 0.95*whole {
			good++
		} else {
			t.Logf("iteration %d: %.4f s, critical path %+v", w.Iteration, whole, cost)
		}
	}
	if windows == 0 || good < (windows+1)/2 {
		return fmt.Sprintf("%d of %d critical paths are as long as their iterations, and explained", good, windows)
	}
	return ""
}

// linked is a job whose env workers each send 16 kB of observations per step to a rollout worker on another host.
const linked = `
cluster:
  component_placement: {actor: 0, env: 1-2, rollout: 3-4}
runner: {max_steps: 4, save_interval: -1}
env:
  train: {env_type: CartPole-v1, total_num_envs: 2048, max_steps_per_rollout_epoch: 6, step_delay: 20ms}
algorithm: {adv_type: gae, loss_type: actor_critic, update_epoch: 1}
actor:
  micro_batch_size: 1024
  global_batch_size: 12288
  model: {hidden_sizes: [8]}
  optim: {lr: 1.0e-3}
`

// TestSlowLinkOnHosts: on hosts of MPI the summary names the link with 8 Mbit/s, with both ends. If all links are
// alike, it names no link. Package roles/embodied tests delayed links between goroutines.
func TestSlowLinkOnHosts(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{openmpi, mpich} {
		if p == mpich && !full {
			continue // such a job of MPICH ends slowly
		}
		for slow, want := range map[string]string{"": "", "h3 8mbit": "env 1 on rank 2 to rollout 1 on rank 4"} {
			t.Run(p.name+" "+slow, func(t *testing.T) {
				t.Parallel()
				on := p.onHosts(t, 3, 1)
				if on.slow = slow; slow != "" {
					try := exec.Command(hostsScript(t), "run", filepath.Join(t.TempDir(), "hosts"), "3", "true")
					try.Env = append(os.Environ(), "SLOW="+slow)
					if text, err := try.CombinedOutput(); err != nil {
						t.Skipf("a slow link needs tc of iproute2, and a kernel with sch_tbf: %v: %s", err, text)
					}
				}
				got := slowLinks(t, on)
				for range 3 {
					if got == want || !strings.Contains(got, want) {
						break
					}
					t.Logf("a busy machine delays other links, too, so once more: %s", got)
					got = slowLinks(t, on)
				}
				test.Equal(t, got, want, "slow links")
			})
		}
	}
}

// slowLinks runs the job linked, and returns the slow links that its summary names.
func slowLinks(t *testing.T, on *platform) (links string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", linked)
	on.ok(t, dir, 5, "-c", "job.yaml")
	tr, err := trace.Read(filepath.Join(dir, "logs", "job"))
	if err != nil || len(tr.Attempts) != 1 || len(tr.Attempts[0].Hosts) != 3 {
		t.Fatalf("%v, %+v", err, tr)
	}
	a := &tr.Attempts[0]
	for _, f := range timeline.Conclude(tr.Attempts, nil) {
		t.Log(f.Text)
		if f.Rule == timeline.SlowLink {
			from, to := &a.Workers[f.Worker], &a.Workers[f.Peer]
			links += fmt.Sprintf("%s %d on rank %d to %s %d on rank %d", from.Component, from.Member, from.Rank,
				to.Component, to.Member, to.Rank)
		}
	}
	return links
}
