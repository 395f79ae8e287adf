package advice_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
)

// A measured job is a configuration with overrides.
type measured struct {
	name, file string
	overrides  []string
}

// accuracyTasks are jobs whose bounds differ: the update, the simulator, the policy, answers, waits and skew.
func accuracyTasks(addition string) []measured {
	waits := []string{"cluster.component_placement.actor=0-1", "cluster.component_placement.env=0",
		"cluster.component_placement.rollout=1", "actor.micro_batch_size=64", "actor.global_batch_size=1024",
		"env.train.max_steps_per_rollout_epoch=32", "algorithm.update_epoch=2", "actor.model.hidden_sizes=[256,256]"}
	list := []measured{
		{"CartPole", "cartpole_ppo.yaml", []string{"cluster.component_placement.actor=0-1",
			"cluster.component_placement.env=0", "cluster.component_placement.rollout=1",
			"env.train.max_steps_per_rollout_epoch=128", "actor.global_batch_size=1024", "algorithm.update_epoch=2"}},
		{"HalfCheetah", "halfcheetah_ppo.yaml", []string{"~cluster.component_placement",
			"+cluster.component_placement.actor=0-1", "+cluster.component_placement.env=0",
			"+cluster.component_placement.rollout=1", "env.train.total_num_envs=16",
			"env.train.max_steps_per_rollout_epoch=64", "actor.micro_batch_size=64", "actor.global_batch_size=512",
			"algorithm.update_epoch=2"}},
		{"CNN", "tabletop_reach_cnn_ppo.yaml", []string{"~cluster.component_placement",
			"+cluster.component_placement.actor=0-1", "+cluster.component_placement.env=0",
			"+cluster.component_placement.rollout=1", "env.train.total_num_envs=32", "actor.micro_batch_size=64",
			"env.train.max_steps_per_rollout_epoch=16", "actor.global_batch_size=128", "algorithm.update_epoch=1"}},
		{"addition", "addition_grpo.yaml", []string{"runner.logger.log_interval=1",
			"data.train_data_paths=" + addition + "/data/addition/train.jsonl",
			"data.val_data_paths=" + addition + "/data/addition/test.jsonl",
			"actor.tokenizer.tokenizer_model=" + addition + "/data/addition/tokenizer",
			"runner.ckpt_path=" + addition + "/logs/addition_start/checkpoints/latest/model.safetensors"}},
		{"slow", "cartpole_ppo.yaml", append(slices.Clone(waits), "env.train.step_delay=2ms")},
		{"skewed", "cartpole_ppo.yaml", append(slices.Clone(waits), "env.train.step_delay=1ms",
			"env.train.step_delay_max=8ms")},
	}
	for i := range list {
		list[i].overrides = append(list[i].overrides, "runner.val_check_interval=-1", "runner.save_interval=-1")
	}
	return list
}

// layoutsOf returns the layouts that are measured: members of env and rollout together and apart, in stages, and models
// that two members divide.
func layoutsOf(w *planner.Workload) (list []planner.Placement) {
	add := func(env, rollout []int, stages int) {
		l := planner.Placement{Nodes: make([]int, 4), Actor: []int{0, 1}, Env: env, Rollout: rollout, Stages: stages}
		if w.Envs == 0 {
			l.Env = nil
		}
		list = append(list, l)
	}
	if w.Prompts > 0 {
		for _, r := range [][]int{{0}, {2}, {0, 1}, {2, 3}, {0, 1, 2, 3}} {
			add(nil, r, 1)
			add(nil, r, 2)
		}
		for _, part := range w.Model.Parts { // on four ranks
			if n := part.Members(); n > 1 && n <= 2 {
				add(nil, []int{0, 1}, 1)
				l := &list[len(list)-1]
				l.Actor, l.Meshes = []int{0, 1, 2, 3}, map[string]mesh.Mesh{"actor": part.Mesh}
				if part.Stages == 1 {
					l.Meshes["rollout"] = part.Mesh
				}
			}
		}
		return append(list, list[0])
	}
	add([]int{0}, []int{0}, 1)
	for _, s := range []int{1, 2, 4} {
		add([]int{0}, []int{1}, s)
	}
	for _, s := range []int{1, 2} {
		add([]int{0, 1}, []int{2}, s)
		add([]int{0}, []int{1, 2}, s)
		add([]int{0, 1}, []int{0, 1}, s)
		add([]int{0, 1}, []int{2, 3}, s)
	}
	add([]int{0, 1, 2, 3}, []int{0, 1, 2, 3}, 1)
	return append(list, list[0]) // one layout twice: the noise of the machine
}

// TestAccuracy compares predictions with real iterations, in layouts of several tasks. It measures for minutes, so it
// runs only where RLINF_PLAN_ACCURACY names a folder with the results of `rlinf data addition` and of
// configs/addition_start.yaml. RLINF_PLAN_TASKS may name some of the tasks.
func TestAccuracy(t *testing.T) {
	folder := os.Getenv("RLINF_PLAN_ACCURACY")
	if folder == "" {
		t.Skip("it takes minutes and quiet cores: see scripts/plan-accuracy")
	}
	asked := loop.Watch()
	defer asked.Close()
	var errors []float64
	pairs, right := 0, 0
	var names []string
	for _, c := range accuracyTasks(folder) {
		names = append(names, c.name)
	}
	only := names
	if text := os.Getenv("RLINF_PLAN_TASKS"); text != "" {
		only = strings.Split(text, ",")
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			t.Fatalf("RLINF_PLAN_TASKS: %q: expected some of %s", name, strings.Join(names, ", "))
		}
	}
	for _, c := range accuracyTasks(folder) {
		if !slices.Contains(only, c.name) {
			continue
		}
		cfg, _, err := config.Load(rolestest.Registries(), filepath.Join("../../configs", c.file), c.overrides, false)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		tasks := task.Tasks{embodied.Task{}, language.FineTuning{}, language.Reasoning{}}
		s, err := advice.New(cfg, rolestest.Registries(), tasks, make([]int, 4), true)
		test.OK(t, err, "%s", c.name)
		r, err := compare(t, s, session.Try(rolestest.Registries(), tasks, asked))
		if err != nil {
			fmt.Printf("%s: not measured: %v\n", c.name, err)
			continue
		}
		r.print(c.name)
		errors = append(errors, r.errors()...)
		p, ok := r.order()
		pairs, right = pairs+p, right+ok
	}
	slices.Sort(errors)
	if n := len(errors); n > 0 {
		fmt.Printf("all: error median %.1f %%, nine of ten ≤ %.1f %%, largest %.1f %%; %d of %d pairs that differ by "+
			"10 %% in the right order (%.0f %%)\n", 100*probe.Median(errors), 100*errors[n*9/10], 100*errors[n-1],
			right, pairs, 100*float64(right)/math.Max(1, float64(pairs)))
	}
}

// A comparison has the predicted and the measured seconds of layouts, over several rounds.
type comparison struct {
	layouts     []planner.Placement
	predictions [][]planner.Prediction // by layout and round
	trials      [][]*planner.Trial
	chosen      int // index of the layout that Search chose
}

// compare measures the profile and all layouts in rounds, one after the other.
func compare(t *testing.T, s *advice.Subject, run advice.Runner) (*comparison, error) {
	const rounds = 3
	r := &comparison{chosen: -1}
	for n := range rounds {
		m, err := s.Machine(t.Context())
		if err != nil {
			return nil, err
		}
		p, err := s.Profile(t.Context(), m, run)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			r.layouts = layoutsOf(&p.Work)
			f, err := s.Search(m, p)
			if err != nil {
				return nil, err
			}
			for i := range r.layouts {
				if r.layouts[i].String() == f.Winner().Layout.String() {
					r.chosen = i
				}
			}
			if r.chosen < 0 {
				r.chosen = len(r.layouts)
				r.layouts = append(r.layouts, f.Winner().Layout)
			}
			r.predictions, r.trials = make([][]planner.Prediction, len(r.layouts)), make([][]*planner.Trial,
				len(r.layouts))
		}
		for i, l := range r.layouts {
			x, err := advice.Try(s, t.Context(), m, p, l, run)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", l, err)
			}
			r.predictions[i] = append(r.predictions[i], planner.Predict(m, p, l, planner.Steady()))
			r.trials[i] = append(r.trials[i], x)
		}
	}
	return r, nil
}

// seconds returns the medians of predicted and measured iterations of a layout, or of one of its phases.
func (r *comparison) seconds(i int, phase string) (predicted, measured float64) {
	var p, m []float64
	for n := range r.trials[i] {
		if phase == "" {
			p, m = append(p, r.predictions[i][n].Seconds), append(m, r.trials[i][n].Step)
		} else {
			p = append(p, r.predictions[i][n].Phase(phase).Seconds)
			m = append(m, r.trials[i][n].Phases[phase])
		}
	}
	return probe.Median(p), probe.Median(m)
}

func (r *comparison) errors() (list []float64) {
	for i := range r.layouts {
		p, m := r.seconds(i, "")
		list = append(list, math.Abs(p/m-1))
	}
	return list
}

// order counts the pairs whose measured times differ by 10 % or more, and those predicted in the same order.
func (r *comparison) order() (pairs, right int) {
	for i := range r.layouts {
		for k := range i {
			pi, mi := r.seconds(i, "")
			pk, mk := r.seconds(k, "")
			if math.Max(mi, mk) < 1.1*math.Min(mi, mk) {
				continue
			}
			if pairs++; (pi < pk) == (mi < mk) {
				right++
			}
		}
	}
	return pairs, right
}

func (r *comparison) print(name string) {
	fmt.Printf("%s\n%10s %10s %7s %10s %10s %10s %10s  layout\n", name, "predicted", "measured", "error", "rollout",
		"measured", "update", "measured")
	order := make([]int, len(r.layouts))
	best := math.Inf(1)
	for i := range order {
		order[i] = i
		_, m := r.seconds(i, "")
		best = math.Min(best, m)
	}
	slices.SortFunc(order, func(a, b int) int {
		_, x := r.seconds(a, "")
		_, y := r.seconds(b, "")
		return cmp.Compare(x, y)
	})
	for _, i := range order {
		p, m := r.seconds(i, "")
		gp, gm := r.seconds(i, planner.GenerateRollouts)
		tp, tm := r.seconds(i, planner.ActorTraining)
		mark := ""
		if i == r.chosen {
			mark = "  ← chosen"
		}
		fmt.Printf("%8.2fms %8.2fms %+6.1f%% %8.2fms %8.2fms %8.2fms %8.2fms  %v%s\n", 1e3*p, 1e3*m, 100*(p/m-1),
			1e3*gp, 1e3*gm, 1e3*tp, 1e3*tm, r.layouts[i], mark)
	}
	_, chosen := r.seconds(r.chosen, "")
	_, once := r.seconds(0, "")
	twice := len(r.layouts) - 1
	if r.chosen == twice && r.layouts[twice].String() != r.layouts[0].String() {
		twice--
	}
	_, again := r.seconds(twice, "")
	list := r.errors()
	slices.Sort(list)
	pairs, right := r.order()
	fmt.Printf("error median %.1f %%, nine of ten ≤ %.1f %%; chosen %.2f × the best; %d of %d pairs in order; one "+
		"layout measured twice: %.2f\n\n", 100*probe.Median(list), 100*list[len(list)*9/10], chosen/best, right, pairs,
		again/once)
}
