package advice_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/results/resultstest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

func tasks() task.Tasks {
	return task.Tasks{embodied.Task{}, language.FineTuning{}, language.Reasoning{}}
}

// small are the overrides of a job that trains for a moment.
func small(log, name string, more ...string) []string {
	return append([]string{"runner.logger.log_path=" + log, "runner.logger.experiment_name=" + name,
		"runner.max_epochs=4", "runner.val_check_interval=2", "runner.save_interval=2",
		"env.train.max_steps_per_rollout_epoch=8", "env.train.total_num_envs=16", "env.eval.total_num_envs=8",
		"actor.micro_batch_size=8", "actor.global_batch_size=64", "actor.model.hidden_sizes=[8]",
		"~rollout.pipeline_stage_num"}, more...)
}

// auto replaces the placement by auto.
func auto(overrides []string) []string {
	return append(overrides, "~cluster.component_placement", "+cluster.component_placement=auto")
}

// train runs a job on ranks, and returns what it said.
func train(t *testing.T, cfg *config.Config, ranks int, resume string) string {
	t.Helper()
	asked := loop.Watch()
	defer asked.Close()
	var out, log bytes.Buffer
	s := session.New(session.Options{Registries: rolestest.Registries(), Tasks: tasks(), Asked: asked, Out: &out,
		Log: &log, Resume: resume})
	code, err := s.Start(t.Context(), local.New(ranks), cfg, nil, nil)
	if err != nil || code != loop.ExitOK {
		t.Fatalf("code %d, %v\n%s", code, err, &log)
	}
	return out.String()
}

// TestAuto: a run that plans its placement has the metrics of the hand-placed job, to the bit, and a resume takes the
// plan from the run's folder.
func TestAuto(t *testing.T) {
	log := t.TempDir()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, auto(small(log, "auto"))...)
	said := train(t, cfg, 2, "")
	if !strings.Contains(said, "Place actor ") {
		t.Errorf("said\n%s", said)
	}
	file := filepath.Join(log, "auto", "plan.json")
	p, err := advice.ReadStartPlan(file)
	test.OK(t, err)
	if len(p.Layout.Actor) != 2 || len(p.Found.Best) == 0 || p.Profile.Work.Envs != 16 {
		t.Errorf("plan for %d actors, %d layouts, %+v", len(p.Layout.Actor), len(p.Found.Best), p.Profile.Work)
	}
	resolved, err := os.ReadFile(filepath.Join(log, "auto", "config.yaml"))
	if want := "env: " + spmd.PlacementOf(p.Layout.Env); err != nil ||
		!strings.Contains(strings.ReplaceAll(string(resolved), `"`, ""), want) { // one rank alone has quotes
		t.Errorf("%v: config.yaml has no %q", err, want)
	}
	hand, _ := rolestest.MustLoad(t, rolestest.Cartpole, small(log, "hand", "cluster.component_placement.actor=0-1",
		"cluster.component_placement.env=0", "cluster.component_placement.rollout=1")...)
	train(t, hand, 2, "")
	planned := resultstest.Untimed(t, filepath.Join(log, "auto"))
	if want := resultstest.Untimed(t, filepath.Join(log, "hand")); !slices.Equal(planned, want) || len(want) < 4 {
		t.Errorf("planned\n%s\nplaced by hand\n%s", strings.Join(planned, "\n"), strings.Join(want, "\n"))
	}

	before := test.Must(os.ReadFile(file))(t)
	longer, _ := rolestest.MustLoad(t, rolestest.Cartpole, auto(small(log, "auto", "runner.max_epochs=6"))...)
	if said := train(t, longer, 2, "auto"); strings.Contains(said, "Place ") || !strings.Contains(said, "resuming") {
		t.Errorf("a resume said\n%s", said)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v: the plan changed in a resume", err)
	}
	if n := len(resultstest.Untimed(t, filepath.Join(log, "auto"))); n != len(planned)+2 {
		t.Errorf("%d lines of metrics, want %d", n, len(planned)+2)
	}

	other, _ := rolestest.MustLoad(t, rolestest.Cartpole, auto(small(log, "auto", "runner.max_epochs=7"))...)
	if said := train(t, other, 4, "auto"); !strings.Contains(said, "Place ") {
		t.Errorf("in a larger world a resume said\n%s", said)
	}
	if p, err = advice.ReadStartPlan(file); err != nil || len(p.Layout.Actor) != 2 || len(p.Layout.Nodes) != 4 {
		t.Errorf("%v: a resume on 4 ranks has the layout %v", err, p.Layout)
	}
}

// TestAutoOfFurtherComponents: a plan places reward and inference workers, and the metrics are those of the hand-placed
// job.
func TestAutoOfFurtherComponents(t *testing.T) {
	log := t.TempDir()
	job := func(name, others string, more ...string) []string {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, small(log, name, append(more,
			"~cluster.component_placement", "+cluster.component_placement="+others, "reward.reward_type=potential",
			"reward.potential.indices=[2]", "reward.potential.target=[0]", "algorithm.recompute_logprobs=true")...)...)
		if said := train(t, cfg, 3, ""); strings.Contains(others, "auto") {
			for _, want := range []string{", reward ", ", inference ", "An iteration takes "} {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
		}
		return resultstest.Untimed(t, filepath.Join(log, name))
	}
	planned := job("auto", "{actor: 0-1, env: auto, rollout: auto, reward: auto, inference: auto}")
	hand := job("hand", "{actor: 0-1, env: 0, rollout: 1, reward: 2, inference: 0-2}")
	if !slices.Equal(planned, hand) || len(hand) < 4 {
		t.Errorf("planned\n%s\nplaced by hand\n%s", strings.Join(planned, "\n"), strings.Join(hand, "\n"))
	}
	p := test.Must(advice.ReadStartPlan(filepath.Join(log, "auto", "plan.json")))(t)
	x := p.Found.Winner()
	if len(p.Layout.Reward) == 0 || len(p.Layout.Inference) == 0 || !(x.Seconds > 0) || math.IsInf(x.Seconds, 0) {
		t.Errorf("%v takes %v s", p.Layout, x.Seconds)
	}
}

// answers are the overrides of a job that answers additions for a moment.
func answers(t *testing.T, log, name, placement string, more ...string) []string {
	t.Helper()
	dir := filepath.Join(log, "data")
	if code := roles.Main([]string{"rlinf", "data", "addition", "--out", dir, "--train", "40", "--test", "8"},
		roles.Registries(rolestest.Registries())); code != 0 {
		t.Fatalf("rlinf data: exit code %d", code)
	}
	return append([]string{"runner.logger.log_path=" + log, "runner.logger.experiment_name=" + name,
		"++runner.max_steps=4", "++runner.save_interval=2", "++reward.random_reward=true",
		"cluster.component_placement=" + placement,
		"++data.train_data_paths=" + filepath.Join(dir, "train.jsonl"),
		"++actor.tokenizer.tokenizer_model=" + filepath.Join(dir, "tokenizer")}, more...)
}

// answersAsByHand trains a reasoning job on ranks in log, once with the placement auto and once with hand, and checks
// that both have the same metrics. It returns the plan and the messages of the first.
func answersAsByHand(t *testing.T, log string, ranks int, auto, hand string, overrides ...string) (*advice.StartPlan,
	string) {
	t.Helper()
	job := func(name, placement string) ([]string, string) {
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, name,
			placement, overrides...)...)
		said := train(t, cfg, ranks, "")
		return resultstest.Untimed(t, filepath.Join(log, name)), said
	}
	planned, said := job("auto", auto)
	placed, _ := job("hand", hand)
	if !slices.Equal(planned, placed) || len(placed) < 4 {
		t.Errorf("planned\n%s\nplaced by hand\n%s", strings.Join(planned, "\n"), strings.Join(placed, "\n"))
	}
	p := test.Must(advice.ReadStartPlan(filepath.Join(log, "auto", "plan.json")))(t)
	return p, said
}

// TestAutoOfAnswers: a plan places all components of a job that answers, and keeps the number of critic workers. The
// metrics are those of the hand-placed job.
func TestAutoOfAnswers(t *testing.T) {
	log := t.TempDir()
	p, said := answersAsByHand(t, log, 3,
		"{actor: 0-1, rollout: auto, reward: auto, inference: auto, critic: auto}",
		"{actor: 0-1, rollout: 2, reward: 1, inference: 2, critic: 0-1}",
		"++algorithm.kl_beta=0.1", "++algorithm.adv_type=gae", "++algorithm.loss_type=actor_critic",
		"++actor.optim.use_distributed_optimizer=true")
	for _, op := range []string{planner.OpScore, planner.OpLogProbs, planner.OpValues, planner.OpCritic} {
		if took := p.Profile.Time(op, 8); !(took.Seconds > 0) {
			t.Errorf("%s takes %v", op, took)
		}
	}
	if w := &p.Profile.Work; w.Gathers == 0 || w.Gathers != w.OptimiserSteps ||
		!(p.Profile.Together(planner.OpGather, 2, float64(w.GradientBytes)) > 0) {
		t.Errorf("%d gathers, %+v", w.Gathers, p.Profile.Costs)
	}
	if x := p.Found.Winner(); len(p.Layout.Critic) != 2 || !strings.Contains(said, ", critic ") || !(x.Seconds > 0) ||
		math.IsInf(x.Seconds, 0) || p.Profile.Work.CriticBytes == 0 || p.Profile.Work.Bytes.Critic == 0 {
		t.Errorf("%v takes %v s, %+v\n%s", p.Layout, x.Seconds, p.Profile.Work, said)
	}
	t.Log(said)
}

// TestNoCritic: a component that has no work in the job is a mistake of the user, found before anything is measured.
func TestNoCritic(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, t.TempDir(), "a",
		"{actor: 0-1, rollout: auto, critic: auto}")...)
	s := test.Must(advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 2), false))(t)
	var usage config.UsageError
	if _, err := s.Profile(t.Context(), nil, nil); !errors.As(err, &usage) ||
		!strings.Contains(err.Error(), "critic: expected no such component without") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// TestAutoOfThreads: a plan chooses the threads of an actor, unless the configuration says how many, and writes them
// into the configuration. The metrics are those of the job with one.
func TestAutoOfThreads(t *testing.T) {
	if runtime.NumCPU() == 1 {
		t.Skip("one core: threads need several")
	}
	log := t.TempDir()
	config := "../../internal/digests/testdata/reasoning.yaml"
	hand, _ := rolestest.MustLoad(t, config, answers(t, log, "hand", "{actor: 0, rollout: 0}")...)
	train(t, hand, 1, "")
	want := resultstest.Untimed(t, filepath.Join(log, "hand"))
	for name, given := range map[string]int{"free": 0, "given": 1} {
		overrides := answers(t, log, name, "{actor: auto, rollout: auto}")
		if given > 0 {
			overrides = append(overrides, fmt.Sprintf("++actor.threads=%d", given))
		}
		cfg, _ := rolestest.MustLoad(t, config, overrides...)
		train(t, cfg, 1, "")
		p, err := advice.ReadStartPlan(filepath.Join(log, name, "plan.json"))
		test.OK(t, err)
		resolved, err := os.ReadFile(filepath.Join(log, name, "config.yaml"))
		n := p.Layout.Threads["actor"]
		if given > 0 && n != given || n < 1 || len(p.Profile.Speedups) != 2 || err != nil || n > 1 &&
			!strings.Contains(string(resolved), fmt.Sprintf("threads: %d", n)) {
			t.Errorf("%s: %v, %v, %v\n%s", name, &p.Layout, p.Profile.Speedups, err, resolved)
		}
		if got := resultstest.Untimed(t, filepath.Join(log, name)); !slices.Equal(got, want) {
			t.Errorf("%s\n%s\none thread\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		other, _ := rolestest.MustLoad(t, config, append(overrides, "++actor.threads=5")...)
		s, err := advice.New(other, rolestest.Registries(), tasks(), []int{0}, false)
		if err != nil || s.Serves(p) {
			t.Errorf("%s: a plan for %d threads serves a job with 5 (%v)", name, n, err)
		}
		t.Log(&p.Layout, p.Profile.Speedups)
	}
}

// TestPool: the layouts of a plan for a pool are those that run: every rank of actors and rollout workers answers.
func TestPool(t *testing.T) {
	log := t.TempDir()
	for placement, all := range map[string]bool{"{actor: 0-1, rollout: auto}": false,
		"{actor: auto, rollout: auto}": false, "{actor: '0:0-1', rollout: 1-2}": true,
		"{actor: 0-1, rollout: 2, inference: 3}": true} {
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, "a", "{}",
			"++cluster.auto_scheduler=true", "++algorithm.kl_beta=0.1", "~cluster.component_placement",
			"+cluster.component_placement="+placement)...)
		s, err := advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 4), all)
		if err != nil {
			t.Errorf("%s: %v", placement, err)
			continue
		}
		work := planner.Workload{Actors: 2, Prompts: 4, Answers: 8, Samples: 32}
		if strings.Contains(placement, "actor: auto") {
			work.Actors = 4
		}
		f, err := s.Search(&planner.Machine{Cores: 2, Nodes: 1, Copy: 1e9}, &planner.Profile{Work: work})
		if err != nil {
			t.Errorf("%s: %v", placement, err)
			continue
		}
		list := f.Best
		if all {
			list = append(list, *f.Present)
		}
		for _, x := range list {
			p, err := s.Tasks.Plan(s.Resolve(&x.Layout), s.Registries, s.Nodes)
			if err != nil {
				t.Errorf("%s: %v: %v", placement, x.Layout, err)
				continue
			}
			for _, name := range x.Layout.Components() {
				if got := p.Placement.Ranks(name); !slices.Equal(got, x.Layout.Ranks(name)) {
					t.Errorf("%s: %v, and %s runs on %v", placement, x.Layout, name, got)
				}
			}
		}
	}
}

// TestMovable: a plan moves what has the placement auto, and keeps the number of actors.
func TestMovable(t *testing.T) {
	log := t.TempDir()
	for _, c := range []struct {
		overrides []string
		all       bool
		actors    int
		fixed     []string
	}{
		{auto(small(log, "a")), false, 4, nil},
		{small(log, "a", "cluster.component_placement.actor=0-1", "cluster.component_placement.rollout=auto",
			"cluster.component_placement.env=2"), false, 2, []string{"actor", "env"}},
		{small(log, "a", "cluster.component_placement.actor=0-1", "cluster.component_placement.rollout=2",
			"cluster.component_placement.env=2"), true, 2, nil},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, c.overrides...)
		s, err := advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 4), c.all)
		if err != nil {
			t.Errorf("%v: %v", c.overrides, err)
			continue
		}
		space := s.Space()
		var fixed []string
		for name := range space.Fixed {
			fixed = append(fixed, name)
		}
		slices.Sort(fixed)
		p := &planner.Profile{Work: planner.Workload{Actors: c.actors, Envs: 16, Group: 1, Steps: 8, Epochs: 1}}
		f, err := s.Search(&planner.Machine{Cores: 2, Nodes: 1, Copy: 1e9}, p)
		if err != nil || len(f.Winner().Layout.Actor) != c.actors || !slices.Equal(fixed, c.fixed) {
			t.Errorf("%v: %v; fixed %v, want %d actors, fixed %v", c.overrides[len(c.overrides)-2:], err, fixed,
				c.actors, c.fixed)
			continue
		}
		chosen := &advice.StartPlan{Identity: s.Identity(), Layout: f.Winner().Layout, Found: f}
		measured := &advice.StartPlan{Identity: chosen.Identity, Layout: chosen.Layout}
		if !s.Serves(chosen) || s.Serves(measured) != c.all { // a plan without a choice serves a given placement
			t.Errorf("%v: a plan with a choice serves: %v, without one: %v", c.overrides[len(c.overrides)-2:],
				s.Serves(chosen), s.Serves(measured))
		}
	}
}

// TestOtherJob: the plan of a job without reward workers does not serve it with them, as rewards have no cost there.
// After a change of the actors' layout the number of models stays.
func TestOtherJob(t *testing.T) {
	log := t.TempDir()
	subject := func(placement string, more ...string) *advice.Subject {
		t.Helper()
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml",
			answers(t, log, "a", placement, more...)...)
		s := test.Must(advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 8), false))(t)
		return s
	}
	s := subject("{actor: auto, rollout: auto}")
	p := &advice.StartPlan{Identity: s.Identity(), Found: new(planner.Found), Layout: planner.Placement{Nodes: s.Nodes,
		Actor: []int{0, 1}, Rollout: []int{0}, Stages: 1}}
	s.KeepActors(p)
	p.Identity = s.Identity()
	rewarded := subject("{actor: auto, rollout: auto, reward: auto}")
	rewarded.KeepActors(p)
	if !s.Serves(p) || rewarded.Serves(p) {
		t.Errorf("the plan serves its job: %v, one with reward workers: %v", s.Serves(p), rewarded.Serves(p))
	}
	divided := subject("{actor: auto, rollout: auto}", "++actor.model.tensor_model_parallel_size=2")
	divided.KeepActors(p)
	f, err := divided.Search(&planner.Machine{Cores: 2, Nodes: 1, Copy: 1e9},
		&planner.Profile{Work: planner.Workload{Actors: 2, Prompts: 8, Answers: 2}})
	if err != nil || len(f.Winner().Layout.Actor) != 4 {
		t.Errorf("two divided models: %v, %v", f, err)
	}
}

// TestAutoMistakes: auto is refused where a plan cannot place the component, before anything is measured.
func TestAutoMistakes(t *testing.T) {
	for want, overrides := range map[string][]string{
		"cluster.component_placement.critic: critic: expected one of": {"+cluster.component_placement.critic=auto"},
		"expected auto without a node group": {
			"cluster.component_placement.env={node_group: a, placement: auto}"},
	} {
		_, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, overrides, false)
		test.Fails(t, err, want, "%v", overrides)
	}
}

// TestWorldLike: a trial has more ranks than cores only where a node of the job has.
func TestWorldLike(t *testing.T) {
	for _, c := range []struct {
		nodes       []int
		cores, want int
	}{
		{[]int{0}, 2, 1},
		{[]int{0, 0}, 2, 2},
		{[]int{0, 0, 0, 0}, 2, 3},
		{make([]int, 64), 16, 17},
		{make([]int, 12), 16, 12},
		{[]int{0, 0, 1, 1, 2, 2}, 2, 2},
	} {
		test.Equal(t, advice.WorldLike(c.nodes, c.cores), c.want, "nodes %v, %d cores: ranks", c.nodes, c.cores)
	}
}

// A trial of long iterations measures one after one that it skips, so that it does not take minutes.
func TestTrialSteps(t *testing.T) {
	for _, c := range []struct {
		seconds           float64
		skipped, measured int
	}{{0, 2, 40}, {0.001, 2, 40}, {0.5, 2, 5}, {1, 2, 3}, {2.5, 2, 3}, {2.6, 1, 1}, {60, 1, 1}} {
		if skipped, measured := advice.TrialSteps(c.seconds); skipped != c.skipped || measured != c.measured {
			t.Errorf("iterations of %v s: %d skipped, %d measured; want %d, %d", c.seconds, skipped, measured,
				c.skipped, c.measured)
		}
	}
}
