package plan

import (
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// checkDevice checks that components can compute on the configured devices, and measures the memory that they need
// there.
func (d *Draft) checkDevice() {
	d.deviceBytes = map[string]int64{}
	for _, of := range config.DeviceComponents {
		if d.Workers(of) == 0 || !d.Config.AnyUsesGPU(of) {
			continue
		}
		lacks := d.lacksKernel(of)
		if lacks == "" {
			var err error
			if d.deviceBytes[of], err = d.measureDevice(of); err != nil {
				lacks = err.Error()
			}
		}
		if d.found.Want(lacks == "", of+".device", d.Config.Device(of), "cpu: "+lacks); lacks == "" {
			const launches = 40 // about, in each layer
			d.notes = append(d.notes, job.SlowDevice(of, d.Count, d.Limit.Tokens, "tokens",
				launches*d.Model.Layers)...)
		}
	}
}

// lacksKernel returns what a member of a component cannot compute on a device, or "".
func (d *Draft) lacksKernel(component string) string {
	model, critic := d.Config.Optimisers()
	switch by := d.Mesh(component); {
	case d.Model.Experts.Count > 0:
		return "a mixture of experts has no device kernel"
	case by.Tensor > 1:
		return "a layer that several workers divide (tensor_model_parallel_size) has no device kernel"
	case by.Stages > 1:
		return "pipeline stages (pipeline_model_parallel_size) have no device kernel"
	case component == "actor" && model.UseDistributedOptimizer:
		return "actor.optim.use_distributed_optimizer does not use a device"
	case d.trainsCritic(component) && critic.UseDistributedOptimizer:
		return "actor.critic_optim.use_distributed_optimizer does not use a device"
	}
	return ""
}

// trainsCritic reports whether members of a component train the critic of answers.
func (p *Plan) trainsCritic(component string) bool {
	return p.HasCritic() && (component == "critic" || component == "actor" && p.Replicas("critic") == 0)
}

// refers reports whether members of a component compute log-probabilities of the reference.
func (p *Plan) refers(component string) bool {
	return p.NeedsReference() && (component == "inference" || component == "actor" && p.Replicas("inference") == 0)
}

// measureDevice returns the bytes that a member of a component takes on its device. It makes the models and their work
// on a device that only counts.
func (p *Plan) measureDevice(component string) (int64, error) {
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	meter := new(device.Meter)
	ops, err := device.New(meter)
	if err != nil {
		return 0, err
	}
	defer ops.Close()
	_, err = p.workOn(component, ops, memory.Alloc)
	return meter.Bytes, err
}

// workOn returns what a member of a component computes with on device d.
func (p *Plan) workOn(component string, d nn.Device[float32], alloc tensor.Allocator) (made []any, err error) {
	s := p.TextSetup()
	s.Alloc, s.Threads = alloc, 1
	if p.trainsCritic(component) {
		if s.Critic, err = algo.NewTextCritic(p.Model, lm.Shard{}, alloc, d); err != nil {
			return nil, err
		}
	}
	if component == "critic" {
		c, err := algo.NewTextCriticPPO(s)
		return []any{c}, err
	}
	params := &nn.Params[float32]{Untrained: component == "inference"}
	params.UseDevice(d)
	if s.Model, err = p.part(lm.Shard{}, params); err == nil {
		err = s.Model.Alloc(alloc)
	}
	if err == nil && p.refers(component) {
		s.Reference, err = s.Model.Reference(alloc)
	}
	if err != nil {
		return nil, err
	}
	var a any
	switch {
	case component == "inference":
		if p.Config.Algorithm.RecomputeLogprobs {
			made = append(made, algo.NewTextLogProbs(s.Model, p.Limit, 1, lm.Mesh{}, 1))
		}
		if s.Reference != nil {
			made = append(made, algo.NewTextLogProbs(s.Reference, p.Limit, 1, lm.Mesh{}, 1))
		}
		return made, nil
	case p.Config.Reasons():
		s.Values = p.Replicas("critic") > 0
		a, err = algo.NewTextPPO(s)
	default:
		a, err = algo.NewSFT(algo.SFTSetup{Model: s.Model, Optim: s.Optim, MicroBatch: s.MicroBatch, Threads: 1,
			Recompute: s.Recompute, Alloc: alloc})
	}
	return []any{a}, err
}

// deviceOf returns the bytes that the workers on rank r take on its device.
func (p *Plan) deviceOf(r int) (n int64) {
	for of, bytes := range p.deviceBytes {
		n += p.OnDevices(of, r) * bytes
	}
	return n
}
