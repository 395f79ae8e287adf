//go:build !cuda

package plan

import (
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// TestDeviceIsChecked: a device needs a policy and an algorithm with device kernels, and a GPU.
func TestDeviceIsChecked(t *testing.T) {
	t.Parallel()
	reg := rolestest.Registries()
	for _, c := range []struct{ file, override, want string }{
		{"cartpole_one_rank", "actor.device=cpu", ""},
		{"cartpole_one_rank", "actor.device=gpu",
			"actor.device: gpu: expected cpu, or cuda for policies and language models"},
		{"cartpole_one_rank", "actor.device=cuda", "actor.device: cuda: expected cpu: this build cannot find GPUs"},
		{"cartpole_one_rank", "actor.device=[cuda,cpu]",
			"actor.device: cuda,cpu: expected one value, or as many as actors: 1"},
		{"pendulum_sac", "actor.device=cuda", "actor.device: cuda: expected cpu: this build cannot find GPUs"},
		{"cartpole_dqn", "actor.device=cuda",
			"expected cpu: a device trains by on-policy algorithms and by embodied_sac"},
		{"pendulum_crossq", "actor.device=cuda",
			"expected cpu: a device trains by on-policy algorithms and by embodied_sac"},
		{"cartpole_masked_gru_ppo", "actor.device=cuda", "expected cpu: gru has no device kernel"},
		{"pendulum_ppo", "actor.device=cuda", "expected cpu: sde has no device kernel"},
	} {
		cfg, _, err := config.Load(reg, "../../configs/"+c.file+".yaml", []string{c.override}, false)
		if err == nil {
			var p *Plan
			if p, err = newPlan(cfg, reg, []int{0}); err == nil {
				err = p.CheckMemory([]int{0}, 0, job.AvailableOn([]int{0}, 0))
			}
		}
		if c.want == "" {
			test.OK(t, err, c.file)
		} else {
			test.Fails(t, err, c.want, c.file)
		}
	}
}

// TestDeviceMemory: the estimate of memory on a device is what an actor takes there in an iteration.
func TestDeviceMemory(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	reg := rolestest.Registries()
	for _, c := range []struct {
		file      string
		overrides []string
	}{
		{"cartpole_one_rank", []string{"actor.micro_batch_size=256", "actor.global_batch_size=256",
			"env.train.max_steps_per_rollout_epoch=32", "actor.model.hidden_sizes=[24, 16]"}},
		{"pendulum_sac", []string{"algorithm.replay_buffer.min_buffer_size=1", "actor.global_batch_size=8",
			"actor.micro_batch_size=8"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			cfg, _, err := config.Load(reg, "../../configs/"+c.file+".yaml", append(c.overrides,
				"algorithm.update_epoch=1"), false)
			test.OK(t, err)
			p := test.Must(newPlan(cfg, reg, []int{0}))(t)
			estimate := test.Must(p.measureDevice())(t)

			books := new(devicetest.Interpreter)
			ops := test.Must(device.New(books))(t)
			defer ops.Close()
			pol := test.Must(p.NewActorPolicy(tensor.Heap, ops, false))(t)
			alg := test.Must(p.NewAlgorithm(algo.Setup{Policy: pol, Alloc: tensor.Heap}))(t)
			layout := p.TrajectoryLayout(p.Train.Envs)
			rollout := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
			test.OK(t, alg.Prepare(&rollout))
			test.Must(alg.Update(rollout))(t)
			test.Equal(t, estimate, books.Bytes, "bytes on the device")
		})
	}
}
