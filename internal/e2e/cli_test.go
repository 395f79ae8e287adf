package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
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

// TestRunFolder checks the files of two runs with the same name.
func TestRunFolder(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			args := []string{"-c", "job.yaml", "runner.logger.project_name=balance"}
			p.ok(t, dir, 2, append(args, "rollout.enable_offload=true")...)
			run := filepath.Join(dir, "logs", "job")
			want := []string{
				".rlinf-run", "STATUS", "checkpoints/global_step_1", "checkpoints/global_step_2",
				"checkpoints/latest", "config.yaml", "live.json", "logs/rank-0000.log", "metrics.jsonl",
				"provenance.json", "ranks.jsonl", "tensorboard/events",
				"trace/phases.bin", "trace/rank-0000.bin", "trace/rank-0001.bin",
			}
			if got := left(t, run); !slices.Equal(got, want) {
				t.Errorf("left: %q\nwant: %q", got, want)
			}
			if got := readStatus(t, run); got != runfolder.Done {
				t.Errorf("STATUS %q", got)
			}
			if m := readMetrics(t, run); len(m) != 2 {
				t.Errorf("metrics: %v", m)
			}
			log, err := os.ReadFile(runfolder.RankLog(run, 0))
			if err != nil || count(string(log), "    rollout.enable_offload  true  command line") != 1 {
				t.Errorf("rank 0's log: %v\n%s", err, log)
			}

			// config.yaml is itself a configuration, which means the same.
			again := filepath.Join(dir, "again")
			test.OK(t, os.Mkdir(again, 0o777))
			p.ok(t, again, 2, "-c", filepath.Join(run, "config.yaml"))
			if d := readMetrics(t, filepath.Join(again, "logs", "job")).diff(readMetrics(t, run)); d != "" {
				t.Errorf("from config.yaml: %s", d)
			}

			checkOrigin(t, p, run)
			r := p.ok(t, dir, 2, append(args, "runner.logger.logger_backends=[]")...)
			if !strings.Contains(r.stdout, "an earlier run of this name is now in "+filepath.Join("logs", "job",
				"earlier-1")) && !strings.Contains(r.stdout, filepath.Join(run, "earlier-1")) {
				t.Errorf("nothing said of the earlier run: %s", r.stdout)
			}
			if got := left(t, filepath.Join(run, "earlier-1")); !slices.Equal(got, want[1:]) {
				t.Errorf("left in earlier-1: %q\nwant: %q", got, want[1:])
			}
			if got := left(t, run); slices.Contains(got, "tensorboard/events") ||
				!slices.Contains(got, "metrics.jsonl") {
				t.Errorf("without backends: %q", got)
			}
		})
	}
}

// left lists the files of a run in its folder, without the files of checkpoints, the names of event files, and the
// folders of earlier runs.
func left(t *testing.T, run string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(run, path)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(name, "earlier-"):
			return fs.SkipDir
		case strings.HasPrefix(name, "checkpoints/global_step_") && d.IsDir():
			found = append(found, name)
			return fs.SkipDir
		case strings.HasPrefix(name, "tensorboard/events.out."):
			name = "tensorboard/events"
		}
		if !d.IsDir() {
			found = append(found, name)
		}
		return nil
	})
	test.OK(t, err)
	return found
}

// checkOrigin checks that provenance.json and ranks.jsonl say what ran, where, and how.
func checkOrigin(t *testing.T, p *platform, run string) {
	t.Helper()
	text := readFile(t, filepath.Join(run, "provenance.json"))
	var starts []runfolder.Provenance
	if err := json.Unmarshal([]byte(text), &starts); err != nil || len(starts) != 1 {
		t.Fatalf("provenance.json: %d starts, %v\n%s", len(starts), err, text)
	}
	origin := map[*platform][3]string{local: {"local", "", ""}, openmpi: {"mpi", "Open MPI v", "mpirun"},
		mpich: {"mpi", "MPICH Version: ", "mpiexec"}}[p]
	s := starts[0]
	if s.Project != "balance" || s.Transport != origin[0] || !strings.HasPrefix(s.Library, origin[1]) ||
		s.Launcher != origin[2] || len(s.Hosts) != 2 ||
		len(s.Binding) != 2 || s.Binding[1] == "" || !slices.Contains(s.Args, "job.yaml") ||
		!strings.HasPrefix(s.Build.Go, "go1.") {
		t.Errorf("provenance.json: %s", text)
	}
	ranks := readRanks(t, run)
	want := [][]string{{"actor[0]", "env[0]"}, {"actor[1]", "rollout[0]"}}
	if len(ranks) != 2 || (ranks[0].PID == ranks[1].PID) != (p == local) {
		t.Fatalf("ranks.jsonl: %v", ranks)
	}
	for r, about := range ranks {
		if about.Rank != r || about.PID <= 0 || about.Host != s.Hosts[r] || !slices.Equal(about.Components, want[r]) {
			t.Errorf("ranks.jsonl: %+v, want components %q", about, want[r])
		}
	}
}

// TestCheck shows what a configuration means.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	r := local.ok(t, dir, 0, "check", "-c", "job.yaml", "rollout.pipeline_stage_num=2", "runner.val_check_interval=1",
		"env.eval.total_num_envs=10")
	want := []string{
		"2 ranks on 1 node, hybrid",
		"rank  node  workers              device  parameters  optimiser  rollouts  channels",
		"0     0     actor[0] env[0]      cpu     0.0 MiB     0.0 MiB    0.0 MiB   0.0 MiB",
		"1     0     actor[1] rollout[0]  cpu     0.0 MiB     0.0 MiB    0.0 MiB   0.0 MiB",
		"this build cannot find GPUs%",
		"rollout: 8 environments, 8 on each of 1 env workers in 2 stages of 4, 4 at a time for each of 1 rollout " +
			"workers; 8 steps each",
		"samples: 64 per iteration (8 steps × 8 environments), 32 for each of 2 actors",
		"update: 1 epochs × 2 minibatches of 32 samples (16 on each actor, 16 at a time) = 2 optimiser steps per " +
			"iteration",
		"evaluation: 10 environments, 10 on each of 1 env workers, 10 at a time for each of 1 rollout workers; 500 " +
			"steps each at most",
		"verdict: runs",
	}
	if got := strings.Split(strings.TrimSpace(r.stdout), "\n"); !slices.EqualFunc(got, want, like) || r.stderr != "" {
		t.Errorf("check says\n%s%s\nwant\n%s", r.stdout, r.stderr, strings.Join(want, "\n"))
	}

	// A job that does not fit into memory is refused from an estimate alone: the test makes nothing of that size.
	r = local.run(t, dir, 0, "check", "-c", "job.yaml", "env.train.total_num_envs=1000000",
		"env.train.max_steps_per_rollout_epoch=1000000")
	if r.code != 2 || count(r.stderr, "command line: env.train.total_num_envs: 1000000: expected fewer environments "+
		"or shorter rollouts: 1000000 observations of 16 bytes of each are %") != 1 {
		t.Errorf("too large: exit code %d: %s", r.code, r.stderr)
	}
	if got := contents(t, dir); len(got) != 2 {
		t.Errorf("check has left files: %q", got)
	}

	// The network has a little more than 2^20 parameters, 4 MiB. Each actor also has a gradient and two moments.
	r = local.ok(t, dir, 0, "check", "-c", "job.yaml", "actor.model.hidden_sizes=[1024,1024]",
		"actor.model.add_value_head=false", "algorithm.loss_type=actor")
	if !regexp.MustCompile(`(?m)^1 .* cpu +12\.\d MiB +8\.\d MiB`).MatchString(r.stdout) {
		t.Errorf("memory of a large network:\n%s", r.stdout)
	}

	// Asynchronous rollouts have a copy of the weights. If two rollouts may wait, there are three times as many
	// trajectories as in a synchronous job, whose actor trains on those of its own rank's rollouts.
	long := []string{"check", "-c", "job.yaml", "actor.model.hidden_sizes=[1024,1024]",
		"env.train.max_steps_per_rollout_epoch=16384"}
	memory := func(more ...string) (parameters, rollouts float64) {
		row := regexp.MustCompile(`(?m)^1 .* cpu +(\S+) MiB +\S+ MiB +(\S+) MiB`).FindStringSubmatch(
			local.ok(t, dir, 0, append(long, more...)...).stdout)
		if row == nil {
			t.Fatal("no rank 1")
		}
		parameters, _ = strconv.ParseFloat(row[1], 64)
		rollouts, _ = strconv.ParseFloat(row[2], 64)
		return parameters, rollouts
	}
	params, rollouts := memory()
	asyncParams, asyncRollouts := memory("runner.async=true", "algorithm.staleness_threshold=2")
	if rollouts < 10 || math.Abs(asyncRollouts-3*rollouts) > 0.2 || math.Abs(asyncParams-params*4/3) > 0.2 {
		t.Errorf("parameters %v MiB, rollouts %v MiB; async: %v, %v", params, rollouts, asyncParams, asyncRollouts)
	}
}

// TestCheckUnderLauncher: check takes the launcher's number of ranks, and prints its result once.
func TestCheckUnderLauncher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	if r := mpich.ok(t, dir, 2, "check", "-c", "job.yaml"); count(r.stdout, "2 ranks on 1 node, hybrid") != 1 {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := mpich.run(t, dir, 3, "check", "-c", "job.yaml"); r.code != 2 ||
		count(r.stderr, "%there is none on 2%") != 1 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// TestEval evaluates one policy in every supported way. All ways give the metrics of the last evaluation in the run.
func TestEval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", strings.Replace(good, "  eval:\n", "  eval:\n    total_num_envs: 12\n", 1))
	local.ok(t, dir, 0, "-c", "job.yaml", "runner.val_check_interval=1", "runner.max_steps=4", "actor.optim.lr=0.01")
	run := filepath.Join(dir, "logs", "job")
	last := readMetrics(t, run)[3]
	length := test.Must(last["eval/return"].(json.Number).Float64())(t)
	want := []string{
		"%, 12 episodes of CartPole-v1",
		fmt.Sprintf("  eval/return         %.4g", length),
		"  eval/return_std     %",
		"  eval/return_min     %",
		fmt.Sprintf("  eval/episode_len    %.4g", length),
		"  eval/success_once   0",
		"  eval/success_at_end 0",
	}
	before := contents(t, dir)
	const model = "logs/job/checkpoints/global_step_4/model.safetensors"
	for _, args := range []string{
		"eval -c job.yaml",
		"eval -c job.yaml --checkpoint logs/job/checkpoints/global_step_4 env.train.total_num_envs=64",
		"eval runner.ckpt_path=" + model + " -c job.yaml",
		"-c job.yaml runner.only_eval=true",
		"-c job.yaml runner.task_type=embodied_eval runner.ckpt_path=" + model,
	} {
		r := local.ok(t, dir, 0, strings.Fields(args)...)
		if got := strings.Split(strings.TrimSpace(r.stdout), "\n"); !slices.EqualFunc(got, want, like) ||
			r.stderr != "" {
			t.Errorf("%s says\n%s%s\nwant\n%s", args, r.stdout, r.stderr, strings.Join(want, "\n"))
		}
	}
	if r := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "--checkpoint",
		"logs/job/checkpoints/global_step_2"); strings.Contains(r.stdout, want[1]) {
		t.Errorf("an earlier policy plays the same: %s", r.stdout)
	}
	// If all ranks play, the metrics are those of one rank.
	one := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "--episodes", "9", "--json")
	for _, args := range []string{"eval -c job.yaml", "-c job.yaml runner.only_eval=true"} {
		if r := mpich.ok(t, dir, 2, strings.Fields(args)...); !slices.EqualFunc(
			strings.Split(strings.TrimSpace(r.stdout), "\n"), want, like) || r.stderr != "" {
			t.Errorf("under a launcher, %s: %s%s", args, r.stdout, r.stderr)
		}
	}
	if r := mpich.ok(t, dir, 2, "eval", "-c", "job.yaml", "--episodes", "9", "--json"); r.stdout != one.stdout ||
		!strings.Contains(r.stdout, `"episodes":9`) {
		t.Errorf("nine episodes under a launcher: %swant %s", r.stdout, one.stdout)
	}
	if after := contents(t, dir); !slices.Equal(after, before) {
		t.Errorf("evaluation changed files: %q", after)
	}
}

// TestFilms: each evaluation is filmed, on whatever ranks it runs, and rlinf render draws the initial states.
func TestFilms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	for _, where := range []string{"cluster.component_placement={actor: 0-1, env: 0, rollout: 1}",
		"cluster.component_placement={actor: 0-1, env: 0-1, rollout: 0-1}"} {
		args := []string{"-c", "job.yaml", "runner.val_check_interval=1",
			"env.eval.video_cfg={save_video: true, width: 24, height: 16, num_envs: 2}", where}
		local.ok(t, dir, 0, args...)
		run := filepath.Join(dir, "logs", "job")
		for step, line := range readMetrics(t, run) {
			film, _ := videotest.Frames(t, filepath.Join(run, "videos", fmt.Sprintf("global_step_%d.png", step+1)))
			// Poles of untrained policies fall at similar times, so a film is about as long as the mean episode.
			length, _ := line["eval/episode_len"].(json.Number).Float64()
			if frames := float64(len(film)); frames < length/2 || frames > 3*length {
				t.Errorf("%s: a film of %v frames of episodes of %v steps", where, frames, length)
			}
		}
		test.OK(t, os.RemoveAll(run))
		local.ok(t, dir, 0, args...)
	}
	r := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "env.eval.video_cfg={save_video: true, video_base_dir: films}")
	if _, err := os.Stat(filepath.Join(dir, "films", "global_step_2.png")); err != nil ||
		!strings.Contains(r.stdout, "films/global_step_2.png") {
		t.Errorf("%v; %s", err, r.stdout)
	}
	local.ok(t, dir, 0, "render", "-c", "job.yaml", "--out", "first.png")
	if text, err := os.ReadFile(filepath.Join(dir, "first.png")); err != nil ||
		!bytes.HasPrefix(text, []byte("\x89PNG")) {
		t.Errorf("no picture: %v", err)
	}
}

// TestFirstWeights trains from the weights of another run. With a learning rate of about 0 the last weights are equal
// to the first.
func TestFirstWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	local.ok(t, dir, 0, "-c", "job.yaml")
	model := func(name string, step int) []byte {
		b := test.Must(os.ReadFile(filepath.Join(dir, "logs", name, "checkpoints", fmt.Sprintf("global_step_%d", step),
			"model.safetensors")))(t)
		return b
	}
	for _, p := range []*platform{local, mpich} {
		r := p.ok(t, dir, 2, "-c", "job.yaml", "runner.ckpt_path=logs/job/checkpoints/global_step_2/model.safetensors",
			"actor.optim.lr=1e-30", "runner.logger.experiment_name="+p.name)
		if !strings.HasPrefix(r.stdout,
			"starting from the weights in logs/job/checkpoints/global_step_2/model.safetensors\n") {
			t.Errorf("%s says %s", p.name, r.stdout)
		}
		if len(readMetrics(t, filepath.Join(dir, "logs", p.name))) != 2 {
			t.Errorf("%s: not two steps", p.name)
		}
		if !bytes.Equal(model(p.name, 2), model("job", 2)) || bytes.Equal(model("job", 1), model("job", 2)) {
			t.Errorf("%s: trained from other weights", p.name)
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

// TestCPUProfile profiles every process of a job.
func TestCPUProfile(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{local, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			p.ok(t, dir, 2, "-c", "job.yaml", "--cpu-profile", "cpu")
			files, err := filepath.Glob(filepath.Join(dir, "cpu-*"))
			want := []string{filepath.Join(dir, "cpu-rank-0.pprof"), filepath.Join(dir, "cpu-rank-1.pprof")}
			if p == local { // all ranks are in one process
				want = want[:1]
			}
			if err != nil || !slices.Equal(files, want) {
				t.Fatalf("%q, %v, want %q", files, err, want)
			}
			for _, file := range files {
				// the magic number of gzip, which pprof reads
				if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
					t.Errorf("%s: %d bytes, %v", file, len(b), err)
				}
			}
		})
	}
}

// TestWatched inspects every rank of a running job, over HTTP and by the signal USR2. The job is not disturbed.
func TestWatched(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{local, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			port := freePorts(t)
			j := p.start(t, dir, 2, "-c", "job.yaml", "--pprof", fmt.Sprintf("127.0.0.1:%d", port),
				"runner.max_steps=-1", "runner.max_time=1h", "runner.save_interval=-1")
			ranks := 2
			if p == local {
				ranks = 1
			}
			for r := range ranks {
				if text := fetch(t, j, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/goroutine?debug=1",
					port+r)); !strings.Contains(text, "embodied.(*EmbodiedRunner)") {
					t.Errorf("rank %d: no runner among its goroutines:\n%s", r, text)
				}
			}
			run := filepath.Join(dir, "logs", "job")
			poll(t, j, func() bool { return len(readMetrics(t, run)) > 0 }) // ranks.jsonl exists by then
			for _, about := range readRanks(t, run)[:ranks] {
				test.OK(t, syscall.Kill(about.PID, syscall.SIGUSR2))
			}
			seen := len(readMetrics(t, run))
			poll(t, j, func() bool { return len(readMetrics(t, run)) > seen+2 })
			if got := readStatus(t, run); got != runfolder.Running {
				t.Errorf("STATUS %q", got)
			}
			// By now every rank has taken two steps since the signal.
			j.signal(syscall.SIGTERM)
			j.wait()
			if dumps := strings.Count(j.stderr.String(), "spmd.Run("); dumps < ranks {
				t.Errorf("%d dumps, want %d:\n%s", dumps, ranks, &j.stderr)
			}
		})
	}
}

// freePorts returns a free port. The next port is free, too.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		test.OK(t, err)
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err == nil {
			err = b.Close()
		}
		if err := errors.Join(err, a.Close()); err == nil {
			return port
		}
	}
	t.Fatal("no two free ports")
	return 0
}

// fetch returns the content of url, once the job answers.
func fetch(t *testing.T, j *job, url string) (text string) {
	t.Helper()
	poll(t, j, func() bool {
		r, err := http.Get(url)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		text = string(b)
		return err == nil && strings.Contains(text, "EmbodiedRunner)")
	})
	return text
}

// poll waits until what returns true. The test fails if the job ends before.
func poll(t *testing.T, j *job, what func() bool) {
	t.Helper()
	for start := time.Now(); !what(); time.Sleep(5 * time.Millisecond) {
		if j.over() || time.Since(start) > hung {
			t.Fatalf("the job ended, or hangs\n%s%s", &j.stdout, &j.stderr)
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

// TestRequeued starts a job again on another host after it was killed and left its lock. The new job waits until a
// minute has passed since the lock's last heartbeat. The test shortens this wait to twenty seconds.
func TestRequeued(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	local.ok(t, dir, 0, "-c", "job.yaml", "runner.max_steps=1")
	lock := writeFile(t, filepath.Join(dir, "logs", "job"), "lock",
		`{"host": "elsewhere", "pid": 1, "pids": "", "started": "2026-01-02T03:04:05Z"}`)
	beat := time.Now().Add(-40 * time.Second)
	test.OK(t, os.Chtimes(lock, beat, beat))
	r := local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto")
	if count(r.stderr,
		"warning: run folder %: in use by process 1 on elsewhere, %; waiting for a sign that it is over") != 1 ||
		!strings.Contains(r.stdout, "resuming from ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

// TestResumeAutoKeepsMetrics: --resume auto of a run without checkpoints begins a new run. The earlier output is set
// aside, as without --resume.
func TestResumeAutoKeepsMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := filepath.Join(dir, "logs", "job")
	writeFile(t, dir, "job.yaml", good)
	none, last := "runner.save_interval=-1", "runner.save_at_end=false"
	local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", none, last, "runner.max_steps=2")
	if _, err := os.Stat(filepath.Join(run, "earlier-1")); err == nil {
		t.Error("something was moved aside where nothing was")
	}
	want := readMetrics(t, run)
	r := local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", none, last, "runner.max_steps=1")
	if !strings.Contains(r.stderr, "starting anew") ||
		!strings.Contains(r.stdout, "an earlier run of this name is now in ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if d := readMetrics(t, filepath.Join(run, "earlier-1")).diff(want); d != "" || len(readMetrics(t, run)) != 1 {
		t.Errorf("the earlier run's metrics: %s; there are %d new lines, want 1", d, len(readMetrics(t, run)))
	}
}
