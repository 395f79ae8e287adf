package plan

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/roles/job"
)

// checkDevice checks that actors can train pol on the configured device, and measures the memory that they need there.
func (d *Draft) checkDevice(pol policy.Policy) {
	c := d.Config
	const key = "actor.device"
	want := func(ok bool, expected string) bool {
		d.found.Want(ok, key, c.Actor.Device, expected)
		return ok
	}
	if !c.AnyUsesGPU("actor") || d.found.Reported(key) {
		return
	}
	m, a := &c.Actor.Model, &c.Algorithm
	soft := d.OffPolicy && a.LossType == "embodied_sac"
	op := lacksKernel(pol)
	if !want(c.Trains() && !d.Offline && (soft || !d.OffPolicy),
		"cpu: a device trains by on-policy algorithms and by embodied_sac") ||
		!want(op == "", fmt.Sprintf("cpu: %s has no device kernel", op)) ||
		!want(!soft || !m.LayerNorm, "cpu: layer_norm has no device kernel") ||
		!want(a.KLBeta == 0 && a.ReinppKLBeta == 0, "cpu: a reference policy (kl_beta) does not use a device") {
		return
	}
	if d.found.Err() != nil {
		return
	}
	var err error
	if d.deviceBytes, err = d.measureDevice(); err != nil {
		want(false, "cpu: "+err.Error())
	}
	const launches = 70 // about, with two hidden layers
	d.notes = append(d.notes, job.SlowDevice("actor", pol.Params().Len(), c.Actor.MicroBatchSize, "samples",
		launches)...)
}

// lacksKernel returns the first operation of pol that an actor with a device cannot compute, or "". Observations and
// the distributions of actions stay in the program's memory.
func lacksKernel(pol policy.Policy) (lacks graph.Op) {
	described, ok := pol.(policy.Described)
	if !ok {
		return "a policy that does not describe its layers"
	}
	root := described.Graph()
	root.Each(func(n *graph.Node, _ int) {
		switch n.Op {
		case graph.Policy, graph.Sequence, graph.Concat, graph.Actor, graph.Critic,
			graph.Input, graph.Image, graph.Dense, graph.Conv, graph.Tanh, graph.ReLU,
			graph.Observe, graph.Number, graph.Byte, graph.Frames, graph.Words, graph.Mask, graph.Normalize,
			graph.OneHot, graph.Categorical, graph.Gaussian, graph.Deviations, graph.Squashed, graph.Clip, graph.Scale,
			graph.TanhBound:
		default:
			if lacks == "" {
				lacks = n.Op
			}
		}
	})
	return lacks
}

// measureDevice returns the bytes that an actor takes on its device. It returns an error if the policy makes no use of
// the device. Above 128 samples in a micro-batch, each sample adds the same number of bytes.
func (p *Plan) measureDevice() (int64, error) {
	const few = 64
	micro := p.Config.Actor.MicroBatchSize
	if micro <= 2*few {
		return p.countDevice(micro)
	}
	one, err := p.countDevice(few)
	if err != nil {
		return 0, err
	}
	two, err := p.countDevice(2 * few)
	return one + (two-one)/few*int64(micro-few), err
}

// countDevice is measureDevice for micro-batches of the given size. It makes policy and algorithm on a device that only
// counts.
func (p *Plan) countDevice(micro int) (int64, error) {
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	meter := new(device.Meter)
	ops, err := device.New(meter)
	if err != nil {
		return 0, err
	}
	defer ops.Close()
	pol, err := p.NewActorPolicy(memory.Alloc, ops, true)
	if err != nil {
		return 0, err
	}
	if !pol.Params().OnDevice() {
		return 0, fmt.Errorf("model_type %s does not use a device", p.Config.Actor.Model.ModelType)
	}
	s := p.setup(algo.Setup{Policy: pol, Alloc: memory.Alloc})
	s.GlobalBatch, s.MicroBatch = micro, micro
	if p.OffPolicy { // without the replay buffer
		p.leastReplay(&s)
	} else {
		s.Steps = micro // so that minibatches divide the samples
	}
	p.Registries.Algorithms.New(s) // if it cannot be made, what it has taken so far counts
	return meter.Bytes, nil
}

// DeviceOf returns the bytes that the actors on rank r take on its device.
func (p *Plan) DeviceOf(r int) int64 {
	if !p.Config.Trains() {
		return 0
	}
	return p.OnDevices("actor", r) * p.deviceBytes
}
