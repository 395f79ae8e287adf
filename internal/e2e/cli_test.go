package e2e

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestArgumentOrder writes the same command in several orders, which all give the same configuration.
func TestArgumentOrder(t *testing.T) {
	t.Parallel()
	var first string
	for _, args := range []string{
		"-c job.yaml -np 2 --resume auto runner.max_steps=1 algorithm.gamma=0.9",
		"runner.max_steps=1 -c job.yaml algorithm.gamma=0.9 --resume auto -np 2",
		"algorithm.gamma=0.9 runner.max_steps=1 --np=2 --resume=auto --config=job.yaml",
		"--np 2 algorithm.gamma=0.8 --config job.yaml runner.max_steps=1 -resume auto algorithm.gamma=0.9",
	} {
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", good)
		local.ok(t, dir, 0, strings.Fields(args)...)
		text := readFile(t, filepath.Join(dir, "logs", "job", "config.yaml"))
		if first == "" {
			first = text
		}
		if text != first || !strings.Contains(first, "gamma: 0.9\n") || !strings.Contains(first, "max_steps: 1\n") {
			t.Errorf("%s:\n%s\nwant\n%s", args, text, first)
		}
	}
}

// TestRanksWithoutLauncher starts as many goroutine ranks as -np says or, without -np, as the placement needs.
func TestRanksWithoutLauncher(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want int
	}{
		{"", 2},
		{"-np 2", 2},
		{"-np 3 cluster.allow_idle_ranks=true", 3},
		{"-np 1 cluster.component_placement.actor=0 cluster.component_placement.rollout=0", 1},
		{"-np 3 cluster.component_placement.env=all env.train.total_num_envs=12 cluster.allow_idle_ranks=true", 3},
	} {
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", good)
		r := local.ok(t, dir, 0, append(strings.Fields(c.args), "-c", "job.yaml")...)
		test.Equal(t, len(readRanks(t, filepath.Join(dir, "logs", "job"))), c.want, "%q: ranks", c.args)
		says := ""
		if c.want > 1 {
			says = fmt.Sprintf("running without MPI: %d ranks in one process\n", c.want)
		}
		if c.want > runtime.NumCPU() {
			says += fmt.Sprintf("%d ranks share ", c.want)
		}
		if !strings.HasPrefix(r.stderr, says) || says == "" && r.stderr != "" {
			t.Errorf("%q: on standard error %q, want %q", c.args, r.stderr, says)
		}
	}
}

// TestInformation runs the commands that need no configuration.
func TestInformation(t *testing.T) {
	t.Parallel()
	codes := []string{
		"%Exit codes: 0 done; 1 failed; 2 usage or configuration; 3 a check failed;",
		"%75 checkpointed on request: queue the job again; 76 a rank stopped responding; 129 its terminal was closed;",
		"%130 interrupted; 134 crashed; 143 terminated.",
	}
	for _, c := range []struct {
		p    *platform
		args string
		want []string // lines that appear once each
	}{
		{local, "help",
			append([]string{"%mpirun -np 8 rlinf -c cfg.yaml [key=value ...]", "     check %", "     eval %",
				"     envs %",
				"     version %", "     doctor %",
				"   --config FILE, -c FILE %", "   --np value %(default: as many as the placement names)",
				"   --strict %", "   --resume auto %", "   --cpu-profile PREFIX %", "   --pprof HOST:PORT %"},
				codes...)},
		{local, "--help", codes},
		{local, "eval --help", append([]string{"   --checkpoint DIR %", "   --config FILE, -c FILE %"}, codes...)},
		{local, "help check",
			append([]string{"   rlinf check -c FILE.yaml [key=value ...]", "   --np value %",
				"   --config FILE, -c FILE %"}, codes...)},
		{local, "envs", []string{"CartPole-v1 % observations state F32[4]; actions Discrete(2); 500 steps",
			"Pendulum-v1 % observations state F32[3]; actions Box(-2, 2, (1,)); 200 steps", "MountainCar-v0 %",
			"MountainCarContinuous-v0 %", "Acrobot-v1 %"}},
		{local, "version",
			[]string{"rlinf %", "go1.% linux/%", "tags: none", "MPI: not compiled in (scripts/build --tags mpi)"}},
		{local, "doctor", []string{"tags: none", "cores % this process may use %; GOMAXPROCS %", "memory % MiB free",
			"/dev/shm %", "memlock %", "single copy %"}},
		{openmpi, "version", []string{"tags: mpi", "MPI: compiled in"}},
		{mpich, "doctor", []string{"tags: mpi", "launched by    mpiexec, 2 processes"}},
	} {
		np := 2
		if c.p == local {
			np = 0
		}
		r := c.p.ok(t, t.TempDir(), np, strings.Fields(c.args)...)
		for _, want := range c.want {
			if count(r.stdout, want) != 1 {
				t.Errorf("%s, %s: not once %q in\n%s", c.p.name, c.args, want, r.stdout)
			}
		}
	}
}

// TestWarnings: a job of several processes warns once about keys without effect.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			r := p.ok(t, dir, 2, "-c", "job.yaml", "rollout.enable_offload=true", "--debug")
			if n := strings.Count(r.stderr, "rollout.enable_offload  true  command line"); n != 1 {
				t.Errorf("%d times: %s", n, r.stderr)
			}
			for _, group := range []string{`group "actor": ranks [0 1]`, `group "env": ranks [0]`,
				`group "rollout": ranks [1]`} {
				if n := strings.Count(r.stderr, group+"\n"); n != 1 {
					t.Errorf("%s is listed %d times: %s", group, n, r.stderr)
				}
			}
			if strings.Contains(r.stdout, "\x1b") {
				t.Errorf("control characters, and no terminal: %q", r.stdout)
			}
		})
	}
}
