package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/planner"
)

// hostsScript returns the path of scripts/hosts.
func hostsScript(t testing.TB) string {
	t.Helper()
	path := test.Must(filepath.Abs(filepath.Join(root, "scripts", "hosts")))(t)
	return path
}

// tryHosts returns what scripts/hosts lacks on this machine.
var tryHosts = sync.OnceValue(func() error {
	script := filepath.Join(root, "scripts", "hosts")
	text, err := exec.Command(script, "run", filepath.Join(bin, "hosts"), "2", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
	}
	return nil
})

// onHosts returns p on so many hosts. The number of the first host is first. It skips the test if this machine cannot
// have hosts.
func (p *platform) onHosts(t *testing.T, n, first int) *platform {
	t.Helper()
	if err := tryHosts(); err != nil {
		t.Skipf("several hosts need root, network namespaces, iproute2 and util-linux: %v", err)
	}
	on := &platform{name: fmt.Sprintf("%s on %d hosts", p.name, n), names: p.names, says: p.says, flags: p.flags,
		of: p, hosts: n, first: first}
	on.program(t, ".") // or skip the test
	return on
}

// hybrid returns the variant whose environments are on the first of two hosts and whose rollouts are on the second.
func hybrid(on *platform, name string) variant {
	return variant{on: on, place: slices.IndexFunc(placements, func(p placement) bool { return p.name == "hybrid" }),
		task:   slices.IndexFunc(tasks, func(t task) bool { return t.name == name }),
		actors: 2, stages: 1, epochs: 1, sync: 1}
}

// TestHosts: a job on two hosts, which reach each other only by TCP, has the metrics of goroutines. It ends with its
// exit code, although MPICH's MPI_Finalize often does not return here.
func TestHosts(t *testing.T) {
	t.Parallel()
	names, most := []string{"CartPole"}, 2
	if full {
		names, most = []string{"CartPole", "CartPole by GRPO", "Pendulum by SAC"}, 4
	}
	for _, p := range []*platform{openmpi, mpich} {
		for n := 2; n <= most; n++ {
			for _, name := range names {
				t.Run(fmt.Sprint(p.name, "/", n, "/", name), func(t *testing.T) {
					t.Parallel()
					v := hybrid(p.onHosts(t, n, 1), name)
					want := v.likeness().run(t)
					want.checkWhole(t, 4)
					v.run(t).same(t, want, "not the metrics of goroutines")
				})
			}
		}
	}
}

// TestTuningOnHosts: fine-tuning on several hosts has the metrics of goroutines.
func TestTuningOnHosts(t *testing.T) {
	t.Parallel()
	if !full {
		t.Skip("jobs on two hosts are tested by reinforcement learning: RLINF_TEST_FULL=1")
	}
	dir := writeTexts(t)
	want := tune(t, local, dir, 0, "'0:0-3'")
	for _, p := range []*platform{openmpi, mpich} {
		for n := 2; n <= 4; n++ {
			if diff := tune(t, p.onHosts(t, n, 1), dir, 4, "0-3").diff(want); diff != "" {
				t.Errorf("%s, %d hosts: not the metrics of goroutines:\n%s", p.name, n, diff)
			}
			hosts := map[string]bool{}
			for _, r := range readRanks(t, filepath.Join(dir, "logs", "run")) {
				hosts[r.Host] = true
			}
			if len(hosts) != n {
				t.Errorf("%s: ranks on the hosts %v, want %d", p.name, hosts, n)
			}
		}
	}
}

// TestEndsOnHosts: every job ends with its exit code.
func TestEndsOnHosts(t *testing.T) {
	t.Parallel()
	if !full {
		t.Skip("20 ends of each MPI take minutes: RLINF_TEST_FULL=1")
	}
	for _, p := range []*platform{openmpi, mpich} {
		on := p.onHosts(t, 2, 1)
		without := 0
		for i := range 20 {
			dir := t.TempDir()
			np, cluster := placements[hybrid(on, "CartPole").place].place(2)
			args := []string{"-c", writeFile(t, dir, "job.yaml", cluster+tasks[0].yaml),
				fmt.Sprint("env.train.max_steps_per_rollout_epoch=", tasks[0].steps), "runner.max_steps=4"}
			want := 0
			if i%2 == 1 {
				args, want = append(args, "runner.max_time=1ms"), 75
			}
			r := on.run(t, dir, np, args...)
			if r.code != want {
				t.Errorf("%s: exit code %d, want %d\n%s%s", on.name, r.code, want, r.stdout, r.stderr)
			}
			without += strings.Count(r.stderr, "MPI_Finalize has not returned")
		}
		t.Logf("%s: %d of 20 jobs ended without MPI_Finalize", on.name, without)
	}
}

// untilStep waits until the run in dir has taken some steps.
func (j *job) untilStep(dir string, steps int) {
	j.t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if bytes.Count(text, []byte("\n")) >= steps {
			return
		}
		if j.over() || time.Since(start) > hung {
			j.t.Fatalf("no %d steps after %v\n%s%s", steps, time.Since(start), &j.stdout, &j.stderr)
		}
	}
}

// slowly slows down the environments of a job, so that it still runs when the test needs it.
const slowly = "env.train.step_delay=3ms"

// TestKilledOnHosts kills a rank of the second host. The job ends and names the rank. It can be resumed on other hosts.
func TestKilledOnHosts(t *testing.T) {
	t.Parallel()
	type kill struct {
		p    *platform
		code int      // 0: any code that the launcher chooses
		says []string // the job prints one of these
		then *platform
	}
	// MPICH names the rank if another rank notices its end first.
	ofMPICH := []string{"=   PID % RUNNING AT h2",
		"%rank % host h1 step %: % member 3, tag %: Other MPI error, error stack:"}
	kills := []kill{
		{openmpi, 137, []string{"%process rank 3 with PID % on node h2 exited on signal 9 (Killed)."}, openmpi},
		{mpich, 0, ofMPICH, openmpi},
	}
	if full { // it may take 10 s to end
		kills = append(kills, kill{mpich, 0, ofMPICH, mpich})
	}
	for _, c := range kills {
		t.Run(c.p.name+", then "+c.then.name, func(t *testing.T) {
			t.Parallel()
			on, then := c.p.onHosts(t, 2, 1), c.then.onHosts(t, 2, 3)
			np, cluster := placements[hybrid(on, "CartPole").place].place(2)
			run := newCourse(t, 0)
			j := run.start(on, np, cluster, steps(1000), slowly)
			j.untilStep(run.folder(), 3) // step 2 has a checkpoint by then
			if !j.killRank(3) {
				t.Fatal("there is no rank 3")
			}
			r := j.result()
			says := 0
			for _, line := range c.says {
				says += count(r.stderr+r.stdout, line)
			}
			if r.code == 0 || c.code != 0 && r.code != c.code || says == 0 {
				t.Errorf("exit code %d, want %d and one of %q\n%s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
			if ranks := readRanks(t, run.folder()); ranks[0].Host != "h1" || ranks[3].Host != "h2" {
				t.Errorf("ranks were on %+v", ranks)
			}
			// A job on another host takes the lock of a dead host's job after a minute without a heartbeat.
			long := time.Now().Add(-2 * time.Minute)
			test.OK(t, os.Chtimes(filepath.Join(run.folder(), "lock"), long, long))
			n := len(run.metrics()) + 4
			run.ok(then, np, cluster, steps(n), slowly, "--resume", "auto")
			run.metrics().same(t, undisturbed(t, 0, 2, n), "afterwards, not the metrics of the undisturbed run")
			if ranks := readRanks(t, run.folder()); ranks[0].Host != "h3" || ranks[3].Host != "h4" {
				t.Errorf("ranks were on %+v", ranks)
			}
		})
	}
}

// TestHostCutOff cuts the network of the second host. The job ends by its stall timeout, and names a rank of that host.
func TestHostCutOff(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			on := p.onHosts(t, 2, 1)
			np, cluster := placements[hybrid(on, "CartPole").place].place(2)
			run := newCourse(t, 0)
			j := run.start(on, np, cluster, steps(100000), slowly, "comm.stall_timeout=2s")
			j.untilStep(run.folder(), 2)
			if text, err := exec.Command(hostsScript(t), "cut", j.folder, "h2").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			r := j.result()
			const says = "rank % (host h2, pid %) has been silent for 2% (stall timeout 2s): it is stopped, or its " +
				"node hangs; rank % on h1 ends the job with exit code 76"
			if r.code != 76 || count(r.stderr, says) != 1 {
				t.Errorf("exit code %d, want 76 and once %s\n%s%s", r.code, says, r.stdout, r.stderr)
			}
			test.Equal(t, readStatus(t, run.folder()), runfolder.Failed, "STATUS")
		})
	}
}

// TestAutoMeasuresNodes: a job that plans its placement measures the links between its nodes by MPI. Both nodes are on
// one host, so no warning tells hosts apart.
func TestAutoMeasuresNodes(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := test.Must(filepath.Abs(filepath.Join(root, "configs", "cartpole_auto.yaml")))(t)
			r := p.ok(t, dir, 3, "-c", config, "spmd.nodes=2", "cluster.num_nodes=2", "runner.max_epochs=1",
				"runner.logger.experiment_name=run")
			text := test.Must(os.ReadFile(runfolder.Plan(filepath.Join(dir, "logs", "run"))))(t)
			var plan struct{ Machine planner.Machine }
			test.OK(t, json.Unmarshal(text, &plan))
			if l := plan.Machine.Network; l == planner.Usual() || l == (planner.Link{}) || l.Latency < 0 ||
				l.Latency > 1e-2 {
				t.Errorf("a link of %+v", l)
			}
			if strings.Contains(r.stdout+r.stderr, "times as fast as host") {
				t.Errorf("one host differs from itself:\n%s%s", r.stdout, r.stderr)
			}
		})
	}
}
