package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/test"
	"golang.org/x/sys/unix"
)

// A refusal is a job that does not move, and its answer.
type refusal struct {
	name, pkg string
	np        int
	yaml      string
	args      []string
	ask       func(t *testing.T, j *job, run string, ask int) // called before each request
	asks      [][2]string                                     // a placement, and why not, see like; "": it moves
	other     bool                                            // two runs of the job have different metrics
}

// still is a job whose members could move.
const still = `
cluster: {component_placement: {actor: 0-1, env: 2, rollout: 3}}
runner: {max_steps: 40, save_interval: -1, save_at_end: false}
env: {train: {env_type: CartPole-v1, total_num_envs: 12, max_steps_per_rollout_epoch: 8, step_delay: 1ms}}
algorithm: {update_epoch: 1}
actor: {micro_batch_size: 24, global_batch_size: 96, model: {hidden_sizes: [8]}, optim: {lr: 1.0e-3}}
`

func refusals(t *testing.T) []refusal {
	const faulty = "./internal/e2e/testdata/faulty"
	at := "rank 2: env 0 cannot move: "
	return []refusal{
		{name: "places", pkg: ".", np: 4, yaml: still, asks: [][2]string{
			{"{actor: 0-1, env: 2, rollout: 3}", "the members are there already"},
			{"{env: 4}", "job.yaml:2: cluster.component_placement.env: 4: expected resources 0..3, the ranks that " +
				"were started (-np 4; the placement has 5), not \"4\""},
			{"{simulator: 0}", "command line: cluster.component_placement.simulator: simulator: expected one of " +
				"actor, rollout, env, reward, inference"},
			{"{reward: 0}", "command line: cluster.component_placement.reward: reward: expected one of the " +
				"components that the run has: actor, env, rollout"},
			{"{env: auto}", "config.yaml:%: cluster.component_placement: auto: expected ranks: auto is for the " +
				"start of a job"},
			{"{env: 0", "command line: cluster.component_placement: {env: 0: expected the places of components, " +
				"as {actor: 0-3, env: 4-7}"},
			{"{env: 1}", ""},
		}},
		{name: "one rank", pkg: ".", np: 1, yaml: still,
			args: []string{"cluster.component_placement={actor: '0:0-1', env: 0, rollout: 0}"},
			asks: [][2]string{{"{env: 0}", "the job has one rank, so its members have no other place"}}},
		{name: "environments without state", pkg: faulty, np: 4, yaml: still,
			args: []string{"env.train.env_type=CartPole-sound"},
			asks: [][2]string{
				{"{env: 3}", at + "CartPole-v1 cannot save its state: expected env on the ranks that it has"},
				{"{rollout: 1}", ""}}},
		{name: "environments that fail to pack", pkg: faulty, np: 4, yaml: still,
			args: []string{"env.train.env_type=CartPole-pack-error"},
			asks: [][2]string{{"{env: 3}", at + "out of boxes"}, {"{rollout: 1}", ""}}},
		{name: "simulators", pkg: ".", np: 4,
			yaml: strings.Replace(still, "env_type: CartPole-v1", "env_type: external, external: {command: \""+
				local.program(t, ".")+" bridge serve -c served.yaml\"}", 1),
			asks: [][2]string{{"{env: 3}", at + "its external simulators stay where they run: expected env on the " +
				"ranks that it has"}, {"{rollout: 1}", ""}}},
		{name: "a program of its own", pkg: "./examples/embodied", np: 4, yaml: still,
			asks: [][2]string{
				{"{env: 3}", "the program of this job has not said that it can move (roles.RunMovable)"}}},
		{name: "memory", pkg: ".", np: 4, yaml: still, ask: tighten,
			args: []string{"runner.max_steps=16", "actor.model.hidden_sizes=[64,16384]", "env.train.total_num_envs=2",
				"env.train.max_steps_per_rollout_epoch=2", "actor.micro_batch_size=2", "actor.global_batch_size=4"},
			asks: [][2]string{
				{"{actor: 2-3}", "node 0 receives and copies % MiB, and the limit of ulimit -d has % MiB free"},
				{"{actor: 2-3}", ""}}},
	}
}

// tighten leaves little memory to a job while it gets its first request.
func tighten(t *testing.T, j *job, run string, ask int) {
	for len(readMetrics(t, run)) < 2 && !j.over() {
		time.Sleep(5 * time.Millisecond)
	}
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if ask == 1 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", j.cmd.Process.Pid))
		test.Check(t, err)
		limit.Cur = uint64(mebibytes(regexp.MustCompile(`VmData:\s+(\d+) kB`), text)+12) << 20
	}
	test.Check(t, unix.Prlimit(j.cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil))
}

// TestMovesRefused: a job that cannot move says why, and goes on in its placement with unchanged metrics.
func TestMovesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range refusals(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program, dir := local.program(t, c.pkg), t.TempDir()
			writeFile(t, dir, "job.yaml", c.yaml)
			writeFile(t, dir, "served.yaml", served)
			start := func(run string) *job {
				return local.startProgram(t, program, dir, c.np, append([]string{"-c", "job.yaml",
					"++runner.logger.experiment_name=" + run}, c.args...)...)
			}
			asked, run := 0, filepath.Join(dir, "logs", "asked")
			j := start("asked")
			w := j.walk(run, func() string {
				if asked++; asked > len(c.asks) {
					return ""
				}
				if c.ask != nil {
					c.ask(t, j, run, asked)
				}
				return c.asks[asked-1][0]
			})
			r := j.result()
			<-w.ended
			if r.code != 0 {
				t.Errorf("exit code %d", r.code)
			}
			refused := w.refused
			for _, ask := range c.asks {
				if ask[1] == "" {
					continue
				}
				if len(refused) == 0 || !like(refused[0], ask[1]) {
					t.Fatalf("%s: refused %q, want %q\n%s%s", ask[0], refused, ask[1], r.stdout, r.stderr)
				}
				refused = refused[1:]
			}
			made, _, err := moves.Read(run)
			if want := len(c.asks) - len(w.refused); len(made) != want || err != nil {
				t.Errorf("%d moves, %v, want %d\n%s%s", len(made), err, want, r.stdout, r.stderr)
			}
			if c.other {
				return
			}
			if r := start("settled").result(); r.code != 0 {
				t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if diff := readMetrics(t, run).diff(readMetrics(t, filepath.Join(dir, "logs", "settled"))); diff != "" {
				t.Errorf("not the metrics of a job that nobody asks: %s", diff)
			}
		})
	}
}
