package worker

import (
	"errors"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/member"
)

// Part returns nil: the worker leaves nothing to its successor.
func (b *base) Part() any { return nil }

// Retire does nothing: the worker runs nothing that must end.
func (b *base) Retire(any) error { return nil }

// An actorPart is what an actor leaves to its successor on the same rank.
type actorPart struct {
	policy   policy.Policy
	algo     algo.Algorithm
	replicas *member.ReplicaGroup
	arrivals *Arrivals
	queues   []queue     // one for each input
	device   *member.GPU // nil without a device
}

// Part returns the policy and the algorithm with its whole state. In a run that sends patches it returns nil. Then the
// successor starts with the initial weights, and loads the state.
func (a *ActorWorker) Part() any {
	if a.plan.SendsPatches() {
		return nil
	}
	part := &actorPart{policy: a.policy, algo: a.algo, replicas: a.replicas, arrivals: a.arrivals,
		device: a.weights.devices[a.Index()]}
	for _, in := range a.inputs {
		part.queues = append(part.queues, in.queue)
	}
	return part
}

// Retire closes the device, unless part passes it to a successor.
func (a *ActorWorker) Retire(part any) error {
	d := a.weights.devices[a.Index()]
	if delete(a.weights.devices, a.Index()); d == nil || part != nil {
		return nil
	}
	return d.Close()
}

// An envPart has the environments that an env worker leaves to its successor on the same rank.
type envPart struct{ train, eval []*play.Stage }

// stages returns the environments of training, or of evaluations.
func (p *envPart) stages(use env.Use) []*play.Stage {
	if use == env.Eval {
		return p.eval
	}
	return p.train
}

// Part returns the environments.
func (w *EnvWorker) Part() any {
	p := new(envPart)
	for _, s := range w.train {
		p.train = append(p.train, s.Stage)
	}
	for _, s := range w.eval {
		p.eval = append(p.eval, s.Stage)
	}
	return p
}

// Retire closes the environments, unless part passes them to a successor.
func (w *EnvWorker) Retire(part any) (err error) {
	if part == nil {
		for _, s := range slices.Concat(w.train, w.eval) {
			err = errors.Join(err, s.Vec.Close())
		}
	}
	return err
}
