package plan

import (
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// onDevice is the draft of a job of a small model with device cuda.
func onDevice(t *testing.T, o *lm.LoRA) *Draft {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	cfg.Runner.TaskType, cfg.Actor.Device = config.TaskSFT, []string{config.DeviceCUDA}
	cfg.Inference.Device, cfg.Critic.Device = cfg.Actor.Device, cfg.Actor.Device
	placed := new(spmd.Placement)
	placed.Add("actor", []int{0})
	return &Draft{Plan: &Plan{Job: &job.Job{Config: cfg, Placement: placed}, Limit: algo.MicroBatch{Tokens: 24},
		Language: Language{LoRA: o, Model: lm.Config{Family: lm.Qwen3, Vocab: 31, Hidden: 16, Layers: 2, Heads: 2,
			KVHeads: 1, HeadDim: 8, Intermediate: 24, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4,
				Type: lm.RopeDefault}, Tied: true, QKNorm: true, InitRange: 0.2}}}, found: cfg.Findings()}
}

// TestDeviceIsChecked: what has no kernel is named, before work starts.
func TestDeviceIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Draft){
		"": func(*Draft) {},
		"a mixture of experts has no device kernel": func(d *Draft) { d.Model.Experts.Count = 2 },
		"a layer that several workers divide (tensor_model_parallel_size) has no device kernel": func(d *Draft) {
			d.meshes = map[string]mesh.Mesh{"actor": {Tensor: 2, Stages: 1}}
		},
		"pipeline stages (pipeline_model_parallel_size) have no device kernel": func(d *Draft) {
			d.meshes = map[string]mesh.Mesh{"actor": {Tensor: 1, Stages: 2}}
		},
		"actor.critic_optim.use_distributed_optimizer does not use a device": func(d *Draft) {
			d.Config.Runner.TaskType, d.Config.Algorithm.LossType = config.TaskReasoning, "actor_critic"
			d.Config.Actor.CriticOptim.UseDistributedOptimizer = true
		},
		"actor.optim.use_distributed_optimizer does not use a device": func(d *Draft) {
			d.Config.Actor.Optim.UseDistributedOptimizer = true
		},
	} {
		d := onDevice(t, nil)
		change(d)
		test.Equal(t, d.lacksKernel("actor"), want)
		if want != "" {
			d.checkDevice()
			test.Fails(t, d.found.Err(), "expected cpu: "+want)
		}
	}
}

// TestDeviceMemory: the estimate of memory on a device is what a worker takes there in an iteration.
func TestDeviceMemory(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	text := algo.Sequence{IDs: make([]int32, 24), Learn: make([]bool, 24)}
	for i := range text.IDs {
		text.IDs[i], text.Learn[i] = int32(i), i > 0
	}
	texts := []algo.Sequence{text}
	answers := func() *algo.TextBatch {
		return &algo.TextBatch{Texts: texts, Reward: []float32{1}, Group: []int64{1}, Ended: []bool{true},
			LogProb: make([]float32, 23)}
	}
	for _, c := range []struct {
		component, others string
		lora              *lm.LoRA
	}{
		{"actor", "", nil}, // fine-tuning
		{"actor", "", &lm.LoRA{Rank: 2, Alpha: 2, Targets: lm.Targets}},
		{"actor", "rollout", nil},
		{"actor", "inference critic", nil},
		{"inference", "inference critic", nil},
		{"critic", "inference critic", nil},
	} {
		d := onDevice(t, c.lora)
		p, cfg := d.Plan, d.Config
		if c.others != "" {
			cfg.Runner.TaskType = config.TaskReasoning
			p.Sampling = engine.Sampling{MaxTokens: 23, Temperature: 1, TopP: 1, RepetitionPenalty: 1}
			cfg.Algorithm.AdvType, cfg.Algorithm.LossType = "gae", "actor_critic"
			cfg.Algorithm.RecomputeLogprobs, cfg.Algorithm.KLBeta = true, 0.1
			for i, of := range strings.Fields(c.others) {
				p.Placement.Add(of, []int{i})
			}
		}
		books := new(devicetest.Interpreter)
		ops := test.Must(device.New(books))(t)
		defer ops.Close()
		for _, made := range test.Must(p.workOn(c.component, ops, tensor.Heap))(t) {
			b := answers()
			switch x := made.(type) {
			case *algo.TextLogProbs:
				test.Must(x.Append(nil, texts))(t)
			case *algo.SFT:
				test.Must(x.Update(texts, 23, 24))(t)
				test.Must(x.Evaluate(texts))(t)
			case *algo.TextPPO:
				if c.others != "rollout" {
					b.Ref, b.Value, b.Recomputed = b.LogProb, b.LogProb, b.LogProb
				}
				test.OK(t, x.Prepare(b))
				test.Must(x.Update(b))(t)
			case *algo.TextCriticPPO:
				b.Value = test.Must(x.Values(nil, texts))(t)
				test.OK(t, x.Prepare(b))
				test.Must(x.Update(b))(t)
			}
		}
		test.Equal(t, test.Must(p.measureDevice(c.component))(t), books.Bytes, "%v: bytes on the device", c)
	}
}
