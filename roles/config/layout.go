package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/roles/mesh"
)

// InferenceConfig is the section inference.
type InferenceConfig struct {
	// Model is the layout of the model on the ranks of inference. Default: the actor's layout. If the section is given,
	// the default of its keys is 1.
	Model LayoutConfig `yaml:"model"`
	// Device is where inference workers of a language model compute log-probabilities; see actor.device. Without
	// inference workers the actors compute them, on their device. Default cpu. (+)
	Device config.Words `yaml:"device"`
}

// LayoutConfig is the parallel layout of a language model on the workers of a component. The workers of a replica are
// consecutive: the outermost axis is the replica, and the innermost is tensor. A layout changes no result.
type LayoutConfig struct {
	// TensorModelParallelSize is the number of workers that divide every layer of one model.
	TensorModelParallelSize int `yaml:"tensor_model_parallel_size"`
	// PipelineModelParallelSize is the number of stages that divide the layers of one model.
	PipelineModelParallelSize int `yaml:"pipeline_model_parallel_size"`
	// PipelineLayers has the number of layers of each stage. Empty, the default, divides the layers by their cost. (+)
	PipelineLayers []int `yaml:"pipeline_layers"`
}

// wholeModel is the layout of a model on one rank.
var wholeModel = LayoutConfig{TensorModelParallelSize: 1, PipelineModelParallelSize: 1}

// MeshOf returns the mesh of a replica with the layout l.
func MeshOf(l LayoutConfig) mesh.Mesh {
	return mesh.Mesh{Stages: l.PipelineModelParallelSize, Tensor: l.TensorModelParallelSize}
}

// Size returns the number of workers that share one model.
func (l LayoutConfig) Size() int {
	return Product(l.TensorModelParallelSize, l.PipelineModelParallelSize)
}

func (l LayoutConfig) equal(o LayoutConfig) bool {
	return MeshOf(l) == MeshOf(o) && slices.Equal(l.PipelineLayers, o.PipelineLayers)
}

// check validates each value by itself. It calls report with the result of each rule.
func (l LayoutConfig) check(report func(ok bool, key string, value any, expected string)) {
	t, p := l.TensorModelParallelSize, l.PipelineModelParallelSize
	report(t >= 1 && t <= MaxRanks, "tensor_model_parallel_size", t, fmt.Sprintf("a number from 1 to %d", MaxRanks))
	report(p >= 1 && p <= MaxRanks, "pipeline_model_parallel_size", p, fmt.Sprintf("a number from 1 to %d", MaxRanks))
	if n := len(l.PipelineLayers); n > 0 {
		report(n == p && slices.Min(l.PipelineLayers) > 0, "pipeline_layers", l.PipelineLayers,
			fmt.Sprintf("a number > 0 for each stage of pipeline_model_parallel_size %d", p))
	}
}

// FSDPConfig is the section actor.fsdp_config: how a language model saves memory. Its keys are named as in PyTorch's
// FSDP, and change no result.
type FSDPConfig struct {
	// ShardingStrategy is no_shard (default), shard_grad_op, full_shard or hybrid_shard. All but no_shard have the same
	// effect: the state of the optimiser is sharded over replicas, as with actor.optim.use_distributed_optimizer. This
	// includes the optimiser of a critic of answers. Weights and gradients are never sharded.
	ShardingStrategy string `yaml:"sharding_strategy"`
	// GradientCheckpointing has the effect of actor.model.recompute_granularity full. Default false.
	GradientCheckpointing bool `yaml:"gradient_checkpointing"`
}

// Values of FSDPConfig.ShardingStrategy and LanguageModel.Recompute.
const (
	NoShard     = "no_shard"
	ShardGradOp = "shard_grad_op"
	FullShard   = "full_shard"
	HybridShard = "hybrid_shard"

	RecomputeFull      = "full"
	RecomputeSelective = "selective"

	// Values of LanguageModel.RecomputeMethod.
	RecomputeUniform = "uniform"
	RecomputeBlock   = "block"
)

// Layout returns the layout of a component's model. For components without a layout it returns wholeModel.
func (c *Config) Layout(component string) LayoutConfig {
	switch component {
	case "actor":
		if c.FineTunes() && isLanguageModel(c.Actor.Model.ModelType) {
			return c.LanguageModel().layout()
		}
	case "rollout":
		return LayoutConfig{TensorModelParallelSize: c.Rollout.TensorParallelSize,
			PipelineModelParallelSize: c.Rollout.PipelineParallelSize}
	case "inference":
		return c.Inference.Model
	case "critic":
		return c.Critic.Model
	}
	return wholeModel
}

// LayoutKeys returns the keys of a component's mesh.
func LayoutKeys(component string) (tensor, stages string) {
	if component == "rollout" {
		return "rollout.tensor_parallel_size", "rollout.pipeline_parallel_size"
	}
	return component + ".model.tensor_model_parallel_size", component + ".model.pipeline_model_parallel_size"
}

// SetLayout sets the mesh of a component's language model. If the number of stages changes, layers will be assigned
// to stages by their cost. SetLayout changes only c, and not a configuration from which c was copied.
func SetLayout(c *Config, component string, by mesh.Mesh) {
	by = by.Full()
	l := LayoutConfig{TensorModelParallelSize: by.Tensor, PipelineModelParallelSize: by.Stages}
	if now := c.Layout(component); now.PipelineModelParallelSize == by.Stages {
		l.PipelineLayers = now.PipelineLayers
	}
	switch component {
	case "actor":
		m := c.LanguageModel()
		m.TensorSize, m.PipelineSize, m.PipelineLayers = by.Tensor, by.Stages, l.PipelineLayers
		c.Actor.Model.Own = params.New(m)
	case "rollout":
		c.Rollout.TensorParallelSize, c.Rollout.PipelineParallelSize = by.Tensor, by.Stages
	case "inference":
		c.Inference.Model = l
	case "critic":
		c.Critic.Model = l
	}
}

// Unit returns the least common multiple of the components' layout sizes. If all components are on all ranks, the size
// of the world must be a multiple of Unit.
func (c *Config) Unit() int {
	unit := 1
	for _, of := range []string{"actor", "rollout", "inference", "critic"} {
		placed := c.Places(of) || of == "rollout" && c.Reasons() // rollout workers are with the actors otherwise
		if n := c.Layout(of).Size(); placed && n >= 1 && n <= MaxRanks && unit <= MaxRanks {
			unit = LCM(unit, n)
		}
	}
	return unit
}

func (m LanguageModel) layout() LayoutConfig {
	return LayoutConfig{m.TensorSize, m.PipelineSize, m.PipelineLayers}
}

// RecomputedLayers returns n if the backward pass recomputes the first n layers of each stage. It returns math.MaxInt32
// if the backward pass recomputes all layers.
func (c *Config) RecomputedLayers() int {
	m := c.LanguageModel()
	switch {
	case m.Recompute == RecomputeFull && m.RecomputeMethod == RecomputeBlock:
		return m.RecomputeLayers
	case m.Recompute == RecomputeFull || c.Actor.FSDPConfig.GradientCheckpointing:
		return math.MaxInt32
	}
	return 0
}

// Optimisers returns the optimisers of a language model and of its critic. Any sharding strategy but no_shard sets
// UseDistributedOptimizer in both.
func (c *Config) Optimisers() (model, critic algo.OptimConfig) {
	model, critic = c.Actor.Optim, c.Actor.CriticOptim
	if c.Actor.FSDPConfig.ShardingStrategy != NoShard {
		model.UseDistributedOptimizer, critic.UseDistributedOptimizer = true, true
	}
	return model, critic
}

// layouts sets the layout of inference and of critic. If a layout is not given, it is the actor's.
func (c *Config) layouts() {
	if !c.FineTunes() {
		return
	}
	actor := c.Layout("actor")
	if !c.found.Has("inference.model") {
		c.Inference.Model = actor
	}
	if !c.found.Has("critic.model") {
		c.Critic.Model = actor
	}
}

// checkLayouts checks the layouts of all components. Only language models can be partitioned.
func (c *validation) checkLayouts() {
	want, r := c.found.Want, &c.Rollout
	want(r.PipelineParallelSize == 1, "rollout.pipeline_parallel_size", r.PipelineParallelSize,
		"1 (rollout workers do not divide a model into stages)")
	if !c.FineTunes() {
		want(r.TensorParallelSize == 1, "rollout.tensor_parallel_size", r.TensorParallelSize, "1 ("+undivided+")")
	} else {
		want(r.TensorParallelSize >= 1, "rollout.tensor_parallel_size", r.TensorParallelSize, "a number > 0")
	}
	for _, of := range []string{"inference", "critic"} {
		l, key := c.Layout(of), of+".model"
		if c.FineTunes() {
			if c.found.Has(key) { // else it is the layout of the actor
				l.check(c.found.At(key).Want)
			}
		} else {
			want(l.Size() == 1, key, l.Size(), "ranks for 1 model ("+undivided+")")
		}
	}
	s := c.Actor.FSDPConfig.ShardingStrategy
	c.checkName("actor.fsdp_config.sharding_strategy", s, []string{NoShard, ShardGradOp, FullShard, HybridShard})
	c.idleLayouts()
}

// idleLayouts reports the given keys of layouts and memory that have no effect.
func (c *validation) idleLayouts() {
	keys := []string{"algorithm.entropy_tuning.optim.use_distributed_optimizer"}
	if !c.FineTunes() {
		keys = append(keys, "actor.fsdp_config.sharding_strategy", "actor.fsdp_config.gradient_checkpointing",
			"actor.optim.use_distributed_optimizer", "actor.critic_optim.use_distributed_optimizer")
	}
	if m := c.LanguageModel(); c.FineTunes() {
		// The value selective would repeat the probabilities of attention, which are never kept here. The value uniform
		// keeps the input of each layer, so the number of layers has no effect.
		idle := func(name string, set bool, value any) {
			key := "actor.model.recompute_" + name
			c.idleKey(key, set, value, "")
		}
		full := m.Recompute == RecomputeFull
		idle("granularity", m.Recompute == RecomputeSelective, m.Recompute)
		idle("method", m.RecomputeMethod != "" && !full, m.RecomputeMethod)
		idle("num_layers", m.RecomputeLayers > 0 && !(full && m.RecomputeMethod == RecomputeBlock), m.RecomputeLayers)
	}
	if c.FineTunes() && !c.Reasons() {
		keys = append(keys, "rollout.tensor_parallel_size")
	}
	c.idleKeys("", keys...)
	for _, of := range []string{"inference", "critic"} {
		if l := c.Layout(of); c.FineTunes() && !c.Places(of) && !l.equal(c.Layout("actor")) {
			c.found.Idle(of+".model", l.Size())
		}
		c.idleKey(of+".device", !c.Places(of) && c.AnyUsesGPU(of), c.Device(of), "")
	}
}
