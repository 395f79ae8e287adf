package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/reward/frames"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

// planArgs are the arguments of rlinf plan for a job that takes a moment.
func planArgs(more ...string) []string {
	return append([]string{"plan", "-c", "../config/testdata/cartpole.yaml", "env.train.max_steps_per_rollout_epoch=8",
		"env.train.total_num_envs=16", "actor.micro_batch_size=8", "actor.global_batch_size=64",
		"actor.model.hidden_sizes=[8]", "cluster.component_placement.actor=0-1", "cluster.component_placement.env=0",
		"cluster.component_placement.rollout=1"}, more...)
}

// TestPlan: a plan measures, explains and ends in YAML, unless the present placement stays. The later cases plan from
// its file.
func TestPlan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.json")
	code, out, errs := run(t, planArgs("--save-profile", file)...)
	said := []string{"layouts fit this job", "What bounds the first one:\n",
		"How wrong an entry must be to change the winner:\n", "An iteration takes "}
	if strings.Contains(out, "\nKeep the present placement, actor ") {
		said = append(said, "No other layout is faster by more than 3 %.\n")
	} else {
		said = append(said, "\nPlace actor ", "The present placement takes ", "\ncluster:\n",
			"  component_placement:\n    actor: ", "\nrollout:\n  pipeline_stage_num: ")
	}
	for _, want := range said {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != loop.ExitOK || t.Failed() {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	t.Run("from a file", func(t *testing.T) { planFromFile(t, file, out) })
	t.Run("what if", func(t *testing.T) { planWhatIf(t, file) })
	t.Run("whole numbers as floats", func(t *testing.T) { planFloats(t, file, out) })
	t.Run("costs", func(t *testing.T) { planCosts(t, file) })
	t.Run("refuses", func(t *testing.T) { planRefuses(t, file) })
}

// planCosts: a plan for several numbers of ranks compares what the whole job costs, and a batch script takes its time
// limit from the plan.
func planCosts(t *testing.T, file string) {
	more := []string{"--profile", file, "runner.max_epochs=1000", "runner.save_interval=300"}
	code, text, errs := run(t, planArgs(append(more, "--ranks", "2,4", "--json")...)...)
	var plans []struct {
		Ranks int
		Whole planner.Bill
		Best  []planner.Prediction
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil || code != loop.ExitOK || len(plans) != 2 {
		t.Fatalf("code %d, %v\n%s%s", code, err, text, errs)
	}
	code, text, errs = run(t, planArgs(append(more, "--ranks", "2,4")...)...)
	rows := strings.Split(strings.TrimSpace(text), "\n")
	if code != loop.ExitOK || len(rows) != 5 || !strings.HasPrefix(rows[2], "ranks  iteration  whole job  core ") ||
		!strings.Contains(rows[0], "1000 iterations, at most ") || !strings.Contains(rows[0], ", 4 checkpoints") {
		t.Fatalf("code %d\n%s%s", code, text, errs)
	}
	for i, p := range plans {
		row, other := rows[3+i], &plans[1-i].Whole
		test.Equal(t, p.Ranks, 2+2*i)
		test.Equal(t, len(p.Best[0].Layout.Nodes), p.Ranks)
		test.Equal(t, strings.HasPrefix(row, fmt.Sprint(p.Ranks)), true)
		time, cost := cmp.Compare(p.Whole.Seconds, other.Seconds), cmp.Compare(p.Whole.CoreHours, other.CoreHours)
		test.Equal(t, strings.Contains(row, "fastest"), cmp.Or(time, cost, i-1) < 0) // of equals the first
		test.Equal(t, strings.Contains(row, "cheapest"), cmp.Or(cost, time, i-1) < 0)
	}
	code, text, errs = run(t, append([]string{"slurm", "--time", "auto"}, planArgs("--profile", file,
		"runner.max_epochs=1000000")[1:]...)...)
	took := regexp.MustCompile(`takes (\S+): .* The time limit is 0-(\d+):(\d+):00: 125 % of this, and 5m0s`).
		FindStringSubmatch(errs)
	if code != loop.ExitOK || took == nil || !strings.Contains(text, "#SBATCH --time=0-"+took[2]+":"+took[3]+":00\n") {
		t.Fatalf("code %d\n%s%s", code, text, errs)
	}
	limit := test.Must(time.ParseDuration(took[2] + "h" + took[3] + "m"))(t)
	if least := test.Must(time.ParseDuration(took[1]))(t)*5/4 + 5*time.Minute; limit < least ||
		limit > least+time.Minute {
		t.Errorf("the limit is %v, want %v", limit, least)
	}
}

// TestPlanOfClassifier: the plan of a classifier counts the steps of its epochs.
func TestPlanOfClassifier(t *testing.T) {
	dir := t.TempDir()
	s := frames.Set{Images: tensor.New(tensor.U8, 8, 8, 8, 3), Labels: []byte{0, 1, 0, 1, 0, 1, 0, 1}}
	test.OK(t, s.Write(filepath.Join(dir, "train.safetensors"), nil))
	job := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(job, []byte("cluster: {component_placement: {actor: 0}}\n"+
		"runner: {task_type: sft, max_epochs: 3}\ndata: {train_data_paths: "+dir+"/train.safetensors}\n"+
		"actor:\n  micro_batch_size: 2\n  global_batch_size: 4\n  model: {model_type: resnet, pretrained: false, "+
		"hidden_dim: 4, image_size: [3, 32, 32]}\n  optim: {lr: 1.0e-3}\n"), 0o600))
	code, out, errs := run(t, "plan", "-c", job, "runner.logger.log_path="+dir)
	if code != loop.ExitOK || !strings.Contains(out, "The whole job (6 iterations, 1 checkpoint) takes ") ||
		!strings.Contains(out, "actor_training, bound by the update") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// TestPlanNeedsTheDevice: a job that this machine cannot run has no plan.
func TestPlanNeedsTheDevice(t *testing.T) {
	if devices, _ := gpu.Devices(); len(devices) > 0 {
		t.Skip("this machine has a GPU")
	}
	code, out, errs := run(t, planArgs("actor.device=cuda")...)
	if code != loop.ExitConfig || out != "" || !strings.Contains(errs, "actor.device: cuda: expected cpu: ") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// planFromFile: a plan from a file is the same every time, and needs no other input.
func planFromFile(t *testing.T, file, out string) {
	for range 2 {
		code, again, errs := run(t, planArgs("--profile", file)...)
		if code != loop.ExitOK || again != out || errs != "" {
			t.Errorf("code %d, from the file\n%s%s\nfirst\n%s", code, again, errs, out)
		}
	}
	code, text, errs := run(t, planArgs("--profile", file, "--json")...)
	var plan struct {
		Best      []planner.Prediction
		Sentences []string
		YAML      string
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || code != loop.ExitOK || len(plan.Sentences) != 3 ||
		!strings.HasSuffix(out, plan.YAML) || len(plan.Best[0].Layout.Actor) != 2 {
		t.Errorf("code %d, %v\n%s%s", code, err, text, errs)
	}
	if plan.YAML == "" {
		return
	}
	best := &plan.Best[0].Layout
	code, text, errs = run(t, planArgs("--profile", file, "~cluster.component_placement", fmt.Sprintf(
		"+cluster.component_placement={actor: '%s', env: '%s', rollout: '%s'}", spmd.PlacementOf(best.Actor),
		spmd.PlacementOf(best.Env), spmd.PlacementOf(best.Rollout)), "cluster.allow_idle_ranks=true",
		fmt.Sprint("rollout.pipeline_stage_num=", best.Stages))...)
	if code != loop.ExitOK || !strings.Contains(text, "\nKeep the present placement, ") ||
		strings.Contains(text, "component_placement") {
		t.Errorf("the plan of the planned placement: code %d\n%s%s", code, text, errs)
	}
}

// planWhatIf: a plan for another machine and other ranks needs no cluster.
func planWhatIf(t *testing.T, file string) {
	cluster := filepath.Join(t.TempDir(), "cluster.json")
	m := &planner.Machine{Cores: 4, Nodes: 2, Copy: 1e10, Network: planner.Usual()}
	test.OK(t, planner.Write(cluster, m, nil))
	code, text, errs := run(t, planArgs("--profile", file, "--machine", cluster, "--ranks", "8", "--json")...)
	var plan struct{ Best []planner.Prediction }
	if err := json.Unmarshal([]byte(text), &plan); err != nil || code != loop.ExitOK ||
		!slices.Equal(plan.Best[0].Layout.Nodes, []int{0, 0, 0, 0, 1, 1, 1, 1}) {
		t.Errorf("code %d, %v\n%s%s", code, err, text, errs)
	}
	m.Memory = 1 << 10
	test.OK(t, planner.Write(cluster, m, nil))
	code, _, errs = run(t, planArgs("--profile", file, "--machine", cluster, "--ranks", "8")...)
	if code != loop.ExitConfig || !strings.Contains(errs, "no placement fits into the memory of a node") ||
		!strings.Contains(errs, "the nearest miss is actor ") {
		t.Errorf("without memory: code %d\n%s", code, errs)
	}
}

// planFloats: a machine and a profile may have whole numbers with a fraction, as other programs write them.
func planFloats(t *testing.T, file, out string) {
	text := test.Must(os.ReadFile(file))(t)
	floats := filepath.Join(t.TempDir(), "floats.json")
	text = regexp.MustCompile(`(?m)([:\[ ] *-?[0-9]+)(,?)$`).ReplaceAll(text, []byte("$1.0$2"))
	if err := os.WriteFile(floats, text, 0o600); err != nil || !bytes.Contains(text, []byte(`"cores": `)) ||
		!bytes.Contains(text, []byte(".0,\n")) {
		t.Fatalf("%v\n%s", err, text)
	}
	code, again, errs := run(t, planArgs("--profile", floats)...)
	if code != loop.ExitOK || again != out || errs != "" {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, again, errs, out)
	}
	if code, _, errs := run(t, planArgs("--profile", file, "--machine", floats)...); code != loop.ExitOK {
		t.Errorf("machine: code %d\n%s", code, errs)
	}
}

// planRefuses: plan refuses a profile of another job, build or machine, a file without a profile, and a world that is
// too small.
func planRefuses(t *testing.T, file string) {
	dir := t.TempDir()
	change := func(name string, f func(m *planner.Machine, p *planner.Profile)) string {
		m, p, err := planner.Read(file)
		test.OK(t, err)
		f(m, p)
		path := filepath.Join(dir, name)
		test.OK(t, planner.Write(path, m, p))
		return path
	}
	machine := filepath.Join(dir, "machine.json")
	test.OK(t, planner.Write(machine, &planner.Machine{Cores: 1, Nodes: 1, Copy: 1}, nil))
	for want, args := range map[string][]string{
		"the profile is of another job (": {"--profile", file, "algorithm.gamma=0.5"},
		"the profile is of another build (": {"--profile", change("build.json", func(_ *planner.Machine,
			p *planner.Profile) {
			p.Build = "other"
		})},
		"the profile is of another machine (": {"--profile", change("host.json", func(_ *planner.Machine,
			p *planner.Profile) {
			p.Host = "other"
		})},
		"cores: 0: expected a number > 0": {"--profile", change("wrong.json", func(m *planner.Machine,
			_ *planner.Profile) {
			m.Cores = 0
		})},
		"it has no profile":                        {"--profile", machine},
		"no such file":                             {"--machine", filepath.Join(dir, "none.json")},
		"expected resources 0..0":                  {"--profile", file, "--ranks", "1"},
		"expected one that trains":                 {"runner.only_eval=true"},
		"--ranks 2,x: expected numbers from 1 to ": {"--profile", file, "--ranks", "2,x"},
		"expected runner.max_steps or runner.max_epochs": {"--profile", file, "--ranks", "2,4", "runner.max_steps=-1",
			"runner.max_epochs=-1", "runner.max_time=1h"},
		"no number of actors up to 2 divides": {"~cluster.component_placement", "+cluster.component_placement=auto",
			"--ranks", "2", "actor.global_batch_size=60", "actor.micro_batch_size=64"},
	} {
		if code, out, errs := run(t, planArgs(args...)...); code != loop.ExitConfig || !strings.Contains(errs, want) ||
			out != "" {
			t.Errorf("%v: code %d\n%s%s\nwant %s", args, code, out, errs, want)
		}
	}
}

// TestStopOfPlan: a signal ends a plan's measurement, with the exit code that it has for jobs, and with the reason.
func TestStopOfPlan(t *testing.T) {
	for _, c := range []struct {
		signal  syscall.Signal // none: the clock stops the plan
		maxTime string
		code    int
		says    string
	}{{syscall.SIGUSR1, "0s", loop.ExitRequeue, ""}, {syscall.SIGINT, "0s", loop.ExitInterrupted, ""},
		{syscall.SIGTERM, "0s", loop.ExitTerminated, ""},
		{0, "1ms", loop.ExitRequeue, "runner.max_time 1ms is over: "}} {
		reg := rolestest.Registries()
		var once sync.Once
		reg.Envs.Add("StandIn-v0", func(cfg env.Config, n int) (env.Vec, error) {
			once.Do(func() { syscall.Kill(syscall.Getpid(), c.signal) })
			return standIn{obs: 4, act: 1}.vec(cfg, n)
		})
		code, out, errs := runWith(t, reg, planArgs("env.train.init_params.id=StandIn-v0",
			"runner.val_check_interval=-1", "runner.max_time="+c.maxTime)...)
		if want := c.says + "the program was asked to stop\n"; code != c.code || out != "" ||
			strings.Count(errs, want) != 1 {
			t.Errorf("%v: exit code %d, want %d and %q\n%s%s", c.signal, code, c.code, want, out, errs)
		}
	}
}

// TestCheckOfAuto: a job whose placement will be planned can be checked.
func TestCheckOfAuto(t *testing.T) {
	code, out, errs := run(t, "check", "-c", "../config/testdata/cartpole.yaml", "-np", "4",
		"~cluster.component_placement", "+cluster.component_placement=auto")
	if code != loop.ExitOK || !strings.Contains(out, "the placement auto is planned when training starts") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// TestStoppable: a request to stop ends the wait for simulators of init, check and plan with its exit code.
func TestStoppable(t *testing.T) {
	hub := external.NewHub(io.Discard, 0)
	c := cli.NewContext(&cli.App{ErrWriter: io.Discard}, nil, nil)
	code, err := stoppable(c, hub, func(asked *loop.Requests) error {
		stopped := make(chan struct{})
		defer asked.AtStop(func(bool) { close(stopped) })()
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			return err
		}
		<-stopped
		return fmt.Errorf("greeting: %w", external.ErrStopRequested)
	})
	if code != loop.ExitRequeue || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}
