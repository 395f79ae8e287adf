package plan

import (
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/roles/job"
)

// checkDevice checks that actors can train the model on the configured device, and measures the memory that they need
// there.
func (d *Draft) checkDevice() {
	const key = "actor.device"
	if !d.Config.Actor.UseGPUs() {
		return
	}
	lacks := d.lacksKernel()
	if d.found.Want(lacks == "", key, d.Config.Actor.Device, "cpu: "+lacks); lacks == "" {
		d.deviceBytes = d.measureDevice()
		const launches = 40 // about, in each layer
		d.notes = append(d.notes, job.SlowDevice(d.Count, d.Limit.Tokens, "tokens", launches*d.Model.Layers)...)
	}
}

// lacksKernel returns what an actor with a device cannot compute, or "".
func (d *Draft) lacksKernel() string {
	optim, _ := d.Config.Optimisers()
	switch by := d.Mesh("actor"); {
	case d.Model.Experts.Count > 0:
		return "a mixture of experts has no device kernel"
	case by.Tensor > 1:
		return "a layer that several actors divide (tensor_model_parallel_size) has no device kernel"
	case by.Stages > 1:
		return "pipeline stages (pipeline_model_parallel_size) have no device kernel"
	case d.HasCritic():
		return "a critic of answers (algorithm.loss_type actor_critic) does not use a device"
	case optim.UseDistributedOptimizer:
		return "actor.optim.use_distributed_optimizer does not use a device"
	}
	return ""
}

// measureDevice returns the bytes that an actor takes on its device. It makes the model and its training on a device
// that only counts.
func (p *Plan) measureDevice() int64 {
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	meter := new(device.Meter)
	ops, err := device.New(meter)
	if err != nil {
		return 0
	}
	defer ops.Close()
	m, err := p.part(lm.Shard{}, ops)
	if err == nil {
		err = m.Alloc(memory.Alloc)
	}
	if err == nil {
		optim, _ := p.Config.Optimisers()
		_, err = algo.NewSFT(algo.SFTSetup{Model: m, Optim: optim, MicroBatch: p.Limit, Threads: 1,
			Recompute: p.Config.RecomputedLayers(), Alloc: memory.Alloc})
	}
	if err != nil {
		return 0 // the host has too few addresses, which CheckMemory reports
	}
	return meter.Bytes
}

// deviceOf returns the bytes that the actors on rank r take on its device.
func (p *Plan) deviceOf(r int) int64 { return p.OnDevices(r) * p.deviceBytes }
