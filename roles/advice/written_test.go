package advice_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/planner"
	"gopkg.in/yaml.v3"
)

// TestWritten: a configuration and the YAML to paste have the threads and the layout that a plan chooses.
func TestWritten(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, t.TempDir(), "a",
		"{actor: auto, rollout: auto}")...)
	s := test.Must(advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 2), false))(t)
	both := planner.Axes{Stage: true, Tensor: true}
	if space := s.Space(); len(space.Threads) != 0 || !maps.Equal(space.Free, map[string]planner.Axes{"actor": both,
		"rollout": {Tensor: true}}) {
		t.Errorf("layouts are free: %v, threads are fixed: %v", space.Free, space.Threads)
	}
	l := planner.Placement{Nodes: make([]int, 2), Actor: []int{0, 1}, Rollout: []int{0, 1}, Stages: 1,
		Meshes: map[string]mesh.Mesh{"rollout": {Tensor: 2}}, Threads: map[string]int{"actor": 3, "rollout": 5}}
	c := s.Resolve(&l)
	if c.Actor.Threads != 3 || c.Rollout.Threads != 5 || c.Rollout.TensorParallelSize != 2 {
		t.Errorf("%d and %d threads, %d parts", c.Actor.Threads, c.Rollout.Threads, c.Rollout.TensorParallelSize)
	}
	want := "actor:\n  threads: 3\nrollout:\n  pipeline_stage_num: 1\n  threads: 5\n  tensor_parallel_size: 2\n"
	if got := s.YAML(&l); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestWithoutPlace: rollout workers without a place are with the actors. If the actors' place is planned, so is theirs.
func TestWithoutPlace(t *testing.T) {
	for placement, want := range map[string]string{
		"{actor: auto}":                 "    actor: 0\n    rollout: 1\n",
		"{actor: 0-1, inference: auto}": "    inference: 0\n    actor: 0-1\n",
	} {
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, t.TempDir(), "a",
			"{}", "++algorithm.kl_beta=0.1", "~cluster.component_placement",
			"+cluster.component_placement="+placement)...)
		s, err := advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 2), false)
		if err != nil {
			t.Errorf("%s: %v", placement, err)
			continue
		}
		l := planner.Placement{Nodes: make([]int, 2), Actor: []int{0}, Rollout: []int{1}, Stages: 1}
		fixed := s.Space().Fixed
		if strings.Contains(placement, "inference") {
			l.Actor, l.Rollout, l.Inference = fixed["actor"], fixed["rollout"], []int{0}
		}
		if got := s.YAML(&l); !strings.Contains(got, want) || len(l.Rollout) == 0 ||
			fixed["rollout"] != nil && !slices.Equal(fixed["rollout"], []int{0, 1}) {
			t.Errorf("%s: rollout is fixed on %v\n%s", placement, fixed["rollout"], got)
		}
	}
}

// A chosen layout is one for the job of a file, on three ranks.
type chosen struct {
	name, file string
	overrides  []string
	layout     planner.Placement
}

// chosenLayouts are layouts for jobs whose placement names several components in one key.
func chosenLayouts(t *testing.T, log string) []chosen {
	placed := func(overrides []string, placement string) []string {
		return append(overrides, "~cluster.component_placement", "+cluster.component_placement="+placement)
	}
	steps := func(placement string, more ...string) []string {
		return placed(small(log, "a", append(more, "cluster.num_nodes=0")...), placement)
	}
	texts := func(placement string, more ...string) []string {
		return placed(answers(t, log, "a", "{}", more...), placement)
	}
	const reasoning, recompute = "../../internal/digests/testdata/reasoning.yaml", "++algorithm.recompute_logprobs=true"
	meshes := map[string]mesh.Mesh{"actor": {Stages: 2, Tensor: 1}, "rollout": {Tensor: 2},
		"inference": {Stages: 1, Tensor: 2}}
	return []chosen{
		{"together", rolestest.Cartpole, steps("{'actor,env': 0-1, rollout: 2}"),
			planner.Placement{Actor: []int{0, 1}, Env: []int{2}, Rollout: []int{1, 2}, Stages: 2}},
		{"idle", rolestest.Cartpole, steps("{'actor,env,rollout': all}"),
			planner.Placement{Actor: []int{0, 0}, Env: []int{1}, Rollout: []int{1}, Stages: 1}},
		{"a node group", rolestest.Cartpole, steps("{'actor,rollout': 0-1, env: {node_group: few, placement: 0}}",
			"cluster.node_groups=[{label: few, node_ranks: 0}]"),
			planner.Placement{Actor: []int{0, 1}, Env: []int{0}, Rollout: []int{2}, Stages: 1}},
		{"divided", reasoning, texts("{'actor,rollout': 0-2}", "++actor.threads=4"),
			planner.Placement{Actor: []int{0, 1}, Rollout: []int{0, 2}, Stages: 1, Meshes: meshes,
				Threads: map[string]int{"actor": 1, "rollout": 3}}},
		{"with inference", reasoning, texts("{'actor,rollout,inference': 0-2}", recompute),
			planner.Placement{Actor: []int{0, 1}, Rollout: []int{0, 2}, Inference: []int{0, 1}, Stages: 1,
				Meshes: meshes}},
		{"inference as actors", reasoning, texts("{'actor,rollout,inference': 0-2}", recompute),
			planner.Placement{Actor: []int{0, 1}, Rollout: []int{0, 2}, Inference: []int{0, 1}, Stages: 1,
				Meshes: map[string]mesh.Mesh{"actor": {Tensor: 2}, "inference": {Tensor: 2}}}},
	}
}

// TestPastedBatches: the keys of a plan, added to a file without a placement, change no default that results depend on.
func TestPastedBatches(t *testing.T) {
	reg := rolestest.Registries()
	text := []byte("env: {train: {env_type: cartpole, total_num_envs: 8, max_steps_per_rollout_epoch: 32}}\n" +
		"actor: {model: {model_type: mlp_policy}, optim: {lr: 1e-3}}\nrunner: {max_epochs: 1}\n")
	cfg, _, err := config.LoadText(reg, "open.yaml", text, nil, false)
	test.OK(t, err)
	s := test.Must(advice.New(cfg, reg, tasks(), make([]int, 2), true))(t)
	l := planner.Placement{Nodes: make([]int, 2), Actor: []int{0, 1}, Env: []int{0, 1}, Rollout: []int{0, 1}, Stages: 1}
	var file, keys map[string]any
	test.OK(t, errors.Join(yaml.Unmarshal(text, &file), yaml.Unmarshal([]byte(s.YAML(&l)), &keys)))
	paste(file, keys)
	pasted, _, err := config.LoadText(reg, "pasted.yaml", test.Must(yaml.Marshal(file))(t), nil, false)
	test.OK(t, err)
	if now, then := cfg.Actor, pasted.Actor; now.MicroBatchSize != 8 || then.MicroBatchSize != now.MicroBatchSize {
		t.Errorf("micro-batches of %d, and of %d with\n%s", now.MicroBatchSize, then.MicroBatchSize, s.YAML(&l))
	}
}

// TestPasted: a configuration in which the printed keys replace its own is that with the plan's choice.
func TestPasted(t *testing.T) {
	for _, c := range chosenLayouts(t, t.TempDir()) {
		cfg, _ := rolestest.MustLoad(t, c.file, c.overrides...)
		c.layout.Nodes = make([]int, 3)
		s, err := advice.New(cfg, rolestest.Registries(), tasks(), c.layout.Nodes, true)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var file, keys map[string]any
		test.OK(t, errors.Join(yaml.Unmarshal(cfg.Resolved(), &file),
			yaml.Unmarshal([]byte(s.YAML(&c.layout)), &keys)))
		for _, of := range []string{"inference", "critic"} { // they are as the actors by default
			delete(file[of].(map[string]any), "model")
		}
		paste(file, keys)
		text := test.Must(yaml.Marshal(file))(t)
		pasted, _, err := config.LoadText(rolestest.Registries(), "pasted.yaml", text, nil, false)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, s.YAML(&c.layout))
			continue
		}
		got, want := sorted(t, pasted.Resolved()), sorted(t, s.Resolve(&c.layout).Resolved())
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("%s: pasted\n%s\ngives, from line %d on\n%s\nwant\n%s", c.name, s.YAML(&c.layout), i,
					strings.Join(got[i:], "\n"), strings.Join(want[i:], "\n"))
				break
			}
		}
	}
}

// paste sets the keys of a file, and the whole of component_placement.
func paste(file, keys map[string]any) {
	for key, value := range keys {
		section, below := value.(map[string]any)
		if into, ok := file[key].(map[string]any); ok && below && key != "component_placement" {
			paste(into, section)
		} else {
			file[key] = value
		}
	}
}

// sorted returns the lines of YAML with its keys in order.
func sorted(t *testing.T, text []byte) []string {
	t.Helper()
	var all map[string]any
	test.OK(t, yaml.Unmarshal(text, &all))
	again := test.Must(yaml.Marshal(all))(t)
	return strings.Split(string(again), "\n")
}
