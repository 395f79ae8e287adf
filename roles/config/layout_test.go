package config_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// answering writes the file of a job of the task reasoning.
func answering(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.yaml")
	text := "cluster: {component_placement: {actor: 0-3, inference: 0-3}}\n" +
		"runner: {task_type: reasoning, max_steps: 1, seq_length: 9}\n" +
		"data: {train_data_paths: x, rollout_batch_size: 2, max_prompt_length: 2}\n" +
		"algorithm: {adv_type: grpo, loss_type: actor, group_size: 2}\n" +
		"actor: {micro_batch_size: 1, optim: {lr: 1}, model: {model_type: llama, model_path: x}}\n"
	test.OK(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// TestLayouts: a component has its own layout, or the actor's if its section is not given. A recorded configuration
// gives the same layouts, without a word.
func TestLayouts(t *testing.T) {
	file := answering(t)
	actor := []string{"+actor.model.tensor_model_parallel_size=2", "+actor.model.pipeline_model_parallel_size=2",
		"+actor.model.pipeline_layers=[5,3]", "+rollout.tensor_parallel_size=4"}
	two := config.LayoutConfig{TensorModelParallelSize: 2, PipelineModelParallelSize: 2, PipelineLayers: []int{5, 3}}
	plain := config.LayoutConfig{TensorModelParallelSize: 1, PipelineModelParallelSize: 1}
	wide := func(t int) config.LayoutConfig {
		return config.LayoutConfig{TensorModelParallelSize: t, PipelineModelParallelSize: 1}
	}
	own := append(slices.Clone(actor), "+inference.model.tensor_model_parallel_size=8")
	for _, tc := range []struct {
		overrides                                 []string
		actor, rollout, inference, critic, reward config.LayoutConfig
	}{
		{nil, plain, plain, plain, plain, plain},
		{actor, two, wide(4), two, two, plain},
		{own, two, wide(4), wide(8), two, plain},
		{append(slices.Clone(actor), "+inference.load_from_actor=false"), two, wide(4), two, two, plain},
	} {
		c, _, err := config.Load(rolestest.Registries(), file, tc.overrides, false)
		test.OK(t, err)
		got := fmt.Sprint(c.Layout("actor"), c.Layout("rollout"), c.Layout("inference"), c.Layout("critic"),
			c.Layout("reward"))
		want := fmt.Sprint(tc.actor, tc.rollout, tc.inference, tc.critic, tc.reward)
		test.Equal(t, got, want, "%q", tc.overrides)
		record := filepath.Join(t.TempDir(), "config.yaml")
		test.OK(t, os.WriteFile(record, c.Record(), 0o666))
		again, warnings, err := config.Load(rolestest.Registries(), record, nil, true)
		if err != nil || len(warnings) > 0 || string(again.Resolved()) != string(c.Resolved()) {
			t.Errorf("%q: the record: %v, %q", tc.overrides, err, warnings)
		}
	}
}

// TestExtentOfLayouts: a number of ranks that the world decides is a multiple of the ranks that divide a model.
func TestExtentOfLayouts(t *testing.T) {
	const apart, answer4 = "~cluster.component_placement.inference", "++rollout.tensor_parallel_size=4"
	for _, tc := range []struct {
		overrides []string
		ranks     int
		whole     bool
		unit      int
	}{
		{nil, 4, false, 1},
		{[]string{"cluster.component_placement={actor: all}", apart}, 0, true, 1},
		{[]string{"cluster.component_placement={actor: all}", apart, "++actor.model.tensor_model_parallel_size=2",
			"++actor.model.pipeline_model_parallel_size=3"}, 0, true, 6},
		// rollout workers without a place are with the actors
		{[]string{"cluster.component_placement={actor: all}", apart, answer4}, 0, true, 4},
		{[]string{"cluster.component_placement={actor: 0-2, rollout: all}", apart, answer4}, 4, true, 4},
		{[]string{"cluster.component_placement={actor: all, rollout: all}", apart, answer4,
			"++actor.model.pipeline_model_parallel_size=6"}, 0, true, 12},
		{[]string{"++actor.model.tensor_model_parallel_size=8"}, 4, false, 8},
	} {
		c, _, err := config.Load(rolestest.Registries(), answering(t), tc.overrides, false)
		test.OK(t, err)
		if ranks, whole := c.Extent(); ranks != tc.ranks || whole != tc.whole || c.Unit() != tc.unit {
			t.Errorf("%q: %d ranks, whole %v, unit %d, want %v", tc.overrides, ranks, whole, c.Unit(), tc)
		}
	}
}

// TestSequenceParallel: the key changes no number, and is reported as one that changes speed and memory.
func TestSequenceParallel(t *testing.T) {
	for _, section := range []string{"actor", "inference", "critic"} {
		key := section + ".model.sequence_parallel"
		for _, file := range []string{answering(t), rolestest.Cartpole} {
			_, warnings := rolestest.MustLoad(t, file, "++"+key+"=true")
			text := strings.Join(warnings, "\n")
			if _, text, _ = strings.Cut(text, "these change speed, memory"); !strings.Contains(text, key+" ") {
				t.Errorf("%s of %s: %q", key, filepath.Base(file), warnings)
			}
		}
	}
}

// TestLayoutsThatAreRefused: a layout that no job can have is a mistake, in every kind of job.
func TestLayoutsThatAreRefused(t *testing.T) {
	for _, tc := range []struct{ override, texts, envs string }{ // what is expected; "": fine
		{"actor.model.tensor_model_parallel_size=2", "", "1 (only a language model"},
		{"actor.model.pipeline_model_parallel_size=2", "", "1 (only a language model"},
		{"inference.model.tensor_model_parallel_size=2", "", "ranks for 1 model (only a language model"},
		{"critic.model.pipeline_model_parallel_size=2", "", "ranks for 1 model (only a language model"},
		{"rollout.tensor_parallel_size=2", "", "1 (only a language model"},
		{"rollout.pipeline_parallel_size=2", "1 (rollout workers", "1 (rollout workers"},
		{"actor.model.tensor_model_parallel_size=0", "a number from 1 to", ""},
		{"actor.model.pipeline_layers=[3,3]", "each stage of pipeline_model_parallel_size 1", "unknown key"},
		{"inference.model.pipeline_layers=[0]", "a number > 0 for each stage", ""},
		{"actor.model.context_parallel_size=2", "1 (ranks divide", "1 (ranks divide"},
		{"inference.model.expert_model_parallel_size=2", "1 (ranks divide", "1 (ranks divide"},
		{"critic.model.expert_tensor_parallel_size=2", "1 (ranks divide", "1 (ranks divide"},
		{"actor.model.virtual_pipeline_model_parallel_size=2", "1 (ranks divide", "1 (ranks divide"},
		{"actor.model.pipeline_model_parallel_split_rank=2", "0 (a decoder", "0 (a decoder"},
		{"actor.model.sequence_parallel=false", "", ""},
		{"actor.model.context_parallel_size=1", "", ""},
		{"actor.model.pipeline_model_parallel_size=0", "a number from 1 to", ""},
		{"actor.model.recompute_granularity=some", "full or selective", ""},
		{"actor.model.recompute_num_layers=-1", "a number ≥ 0", ""},
		{"actor.fsdp_config.sharding_strategy=half", "one of no_shard", "one of no_shard"},
		{"cluster.component_placement.actor=auto", "", ""},
	} {
		for file, want := range map[string]string{answering(t): tc.texts, rolestest.Cartpole: tc.envs} {
			_, _, err := config.Load(rolestest.Registries(), file, []string{"++" + tc.override}, false)
			if text := fmt.Sprint(err); err != nil != (want != "") || !strings.Contains(text, want) {
				t.Errorf("%s of %s: %v, want %q", tc.override, filepath.Base(file), err, want)
			} else if strings.Count(text, "expected") > 1 {
				t.Errorf("%s of %s: %v: want one message", tc.override, filepath.Base(file), err)
			}
		}
	}
	_, _, err := config.Load(rolestest.Registries(), answering(t), []string{"cluster.component_placement.actor=auto",
		"++actor.model.tensor_model_parallel_size=2"}, false)
	test.Check(t, err, "auto with a layout")
	_, _, err = config.Load(rolestest.Registries(), answering(t), []string{"++actor.model.recompute_granularity=full",
		"++actor.model.recompute_method=block"}, false)
	if !strings.Contains(fmt.Sprint(err), "recompute_num_layers: not set: expected a number > 0 with") {
		t.Errorf("blocks of no layers: %v", err)
	}
}

// TestMemoryKeys: keys that save memory are accepted, and those without effect are reported.
func TestMemoryKeys(t *testing.T) {
	const all = math.MaxInt32
	for _, tc := range []struct {
		overrides string
		layers    int    // whose forward pass is repeated
		shards    string // whose optimiser
		idle      bool   // in a language model's job; in other jobs all that asks for something is
	}{
		{"++actor.fsdp_config.sharding_strategy=no_shard", 0, "", false},
		{"++actor.fsdp_config.sharding_strategy=full_shard", 0, "model and critic", false},
		{"++actor.optim.use_distributed_optimizer=true", 0, "model and critic", false},
		{"++actor.critic_optim.use_distributed_optimizer=true", 0, "critic", false},
		{"++actor.fsdp_config.gradient_checkpointing=true", all, "", false},
		{"++actor.model.recompute_granularity=full", all, "", false},
		{"++actor.model.recompute_granularity=full ++actor.model.recompute_method=block " +
			"++actor.model.recompute_num_layers=2", 2, "", false},
		{"++actor.model.recompute_granularity=full ++actor.model.recompute_num_layers=2", all, "", true},
		{"++actor.model.recompute_granularity=selective", 0, "", true},
		{"++actor.model.recompute_granularity=null", 0, "", false},
	} {
		for _, file := range []string{answering(t), rolestest.Cartpole} {
			c, warnings, err := config.Load(rolestest.Registries(), file, strings.Fields(tc.overrides), false)
			test.OK(t, err)
			idle := tc.idle
			if !c.FineTunes() {
				idle = tc.layers > 0 || tc.shards != "" || tc.idle
			}
			if (len(warnings) > 0) != idle {
				t.Errorf("%s of %s: warnings %q", tc.overrides, filepath.Base(file), warnings)
			}
			model, critic := c.Optimisers()
			shards := map[[2]bool]string{{true, true}: "model and critic", {true, false}: "model",
				{false, true}: "critic"}[[2]bool{model.UseDistributedOptimizer, critic.UseDistributedOptimizer}]
			if c.FineTunes() && (c.RecomputedLayers() != tc.layers || shards != tc.shards) {
				t.Errorf("%s: %d layers, shards %q", tc.overrides, c.RecomputedLayers(), shards)
			}
		}
	}
}

// TestDeviceKeys: components of language models compute on devices, and the key of a component without workers is
// reported.
func TestDeviceKeys(t *testing.T) {
	for _, tc := range []struct {
		file, override, err string
		idle                bool
	}{
		{answering(t), "++critic.device=cpu,cuda", "", true},
		{answering(t), "++critic.device=cpu", "", false},
		{answering(t), "++inference.device=cuda", "", false},
		{answering(t), "++critic.device=gpu", "critic.device: gpu: expected cpu, or cuda for language models", false},
		{rolestest.Cartpole, "++inference.device=cuda",
			"inference.device: cuda: expected cpu, or cuda for language models", false},
	} {
		_, warnings, err := config.Load(rolestest.Registries(), tc.file, []string{tc.override}, false)
		if tc.err != "" {
			test.Fails(t, err, tc.err, tc.override)
			continue
		}
		test.OK(t, err, tc.override)
		test.Equal(t, len(warnings) > 0, tc.idle, "%s: warnings %q", tc.override, warnings)
	}
}
