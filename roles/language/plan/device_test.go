package plan

import (
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/tensor"
)

// onDevice is the draft of a job of a small model with device cuda.
func onDevice(t *testing.T, o *lm.LoRA) *Draft {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	cfg.Runner.TaskType, cfg.Actor.Device = config.TaskSFT, []string{config.DeviceCUDA}
	return &Draft{Plan: &Plan{Job: &job.Job{Config: cfg}, Limit: algo.MicroBatch{Tokens: 24}, Language: Language{
		LoRA: o, Model: lm.Config{Family: lm.Qwen3, Vocab: 31, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8,
			Intermediate: 24, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, QKNorm: true,
			InitRange: 0.2}}}, found: cfg.Findings()}
}

// TestDeviceIsChecked: what has no kernel is named, before work starts.
func TestDeviceIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Draft){
		"": func(*Draft) {},
		"a mixture of experts has no device kernel": func(d *Draft) { d.Model.Experts.Count = 2 },
		"a layer that several actors divide (tensor_model_parallel_size) has no device kernel": func(d *Draft) {
			d.meshes = map[string]mesh.Mesh{"actor": {Tensor: 2, Stages: 1}}
		},
		"pipeline stages (pipeline_model_parallel_size) have no device kernel": func(d *Draft) {
			d.meshes = map[string]mesh.Mesh{"actor": {Tensor: 1, Stages: 2}}
		},
		"a critic of answers (algorithm.loss_type actor_critic) does not use a device": func(d *Draft) {
			d.Config.Runner.TaskType, d.Config.Algorithm.LossType = config.TaskReasoning, "actor_critic"
		},
		"actor.optim.use_distributed_optimizer does not use a device": func(d *Draft) {
			d.Config.Actor.Optim.UseDistributedOptimizer = true
		},
	} {
		d := onDevice(t, nil)
		change(d)
		test.Equal(t, d.lacksKernel(), want)
		if want != "" {
			d.checkDevice()
			test.Fails(t, d.found.Err(), "expected cpu: "+want)
		}
	}
}

// TestDeviceMemory: the estimate of memory on a device is what an actor takes there in an update.
func TestDeviceMemory(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	for name, o := range map[string]*lm.LoRA{"all weights": nil, "adapters": {Rank: 2, Alpha: 2, Targets: lm.Targets}} {
		p := onDevice(t, o).Plan
		books := new(devicetest.Interpreter)
		ops := test.Must(device.New(books))(t)
		defer ops.Close()
		m := test.Must(p.part(lm.Shard{}, ops))(t)
		test.OK(t, m.Alloc(tensor.Heap))
		m.Init(1)
		s := test.Must(algo.NewSFT(algo.SFTSetup{Model: m, Optim: algo.DefaultOptimConfig(), MicroBatch: p.Limit}))(t)
		text := algo.Sequence{IDs: make([]int32, 24), Learn: make([]bool, 24)}
		for i := range text.IDs {
			text.IDs[i], text.Learn[i] = int32(i), i > 0
		}
		test.Must(s.Update([]algo.Sequence{text}, 23, 24))(t)
		test.Must(s.Evaluate([]algo.Sequence{text}))(t)
		test.Equal(t, p.measureDevice(), books.Bytes, "%s: bytes on the device", name)
	}
}
