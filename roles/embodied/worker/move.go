package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

var _ = []loop.Member{(*ActorWorker)(nil), (*RolloutWorker)(nil), (*EnvWorker)(nil), (*RewardWorker)(nil),
	(*InferenceWorker)(nil)}

// Part returns nil: the worker leaves nothing to its successor.
func (b *base) Part() any { return nil }

// Pack returns an empty Dict: the worker has no state.
func (b *base) Pack() (tensor.Dict, error) { return tensor.Dict{}, nil }

// Unpack does nothing: the worker has no state.
func (b *base) Unpack(tensor.Dict) error { return nil }

// Retire does nothing: the worker runs nothing that must end.
func (b *base) Retire(any) error { return nil }

// An actorPart is what an actor leaves to its successor on the same rank.
type actorPart struct {
	policy   policy.Policy
	algo     algo.Algorithm
	replicas *member.Replicas
	arrivals *Arrivals
	queues   []queue // one for each input
}

// Part returns the policy and the algorithm with its whole state. In a run that sends patches it returns nil. Then the
// successor starts with the initial weights, and Unpack loads the state.
func (a *ActorWorker) Part() any {
	if a.plan.SendsPatches() {
		return nil
	}
	part := &actorPart{policy: a.policy, algo: a.algo, replicas: a.replicas, arrivals: a.arrivals}
	for _, in := range a.inputs {
		part.queues = append(part.queues, in.queue)
	}
	return part
}

// Pack returns the model and the state of the algorithm.
func (a *ActorWorker) Pack() (d tensor.Dict, err error) {
	trainer, err := a.algo.Save()
	if err != nil {
		return d, err
	}
	merge(&d, "model.", job.ModelDict(a.policy.Params()))
	merge(&d, "trainer.", trainer)
	d.Set("iterations", tensor.FromI64([]int64{a.replicas.Iterations}, 1))
	if a.arrivals != nil {
		d.Set("arrivals", tensor.FromI64([]int64{a.arrivals.Rollouts}, 1))
		a.packQueues(&d)
	}
	return d, nil
}

// Unpack loads what Pack returned.
func (a *ActorWorker) Unpack(d tensor.Dict) error {
	a.replicas.Iterations = d.Must("iterations").I64()[0]
	if a.arrivals != nil {
		a.arrivals.Rollouts = d.Must("arrivals").I64()[0]
		a.unpackQueues(d)
	}
	if err := job.LoadModel(a.policy.Params(), d.Sub("model")); err != nil {
		return err
	}
	return a.algo.Load(d.Sub("trainer"))
}

// Pack returns the hidden states of the worker's environments, the weights if they are used for several iterations, and
// the unfinished rollouts of an asynchronous run.
func (r *RolloutWorker) Pack() (d tensor.Dict, err error) {
	for i, l := range r.routes {
		merge(&d, fmt.Sprintf("route%d.", i), l.rec.Hidden.Save())
	}
	if r.plan.SyncInterval > 1 {
		d.Set("weights", tensor.FromU8(r.state, len(r.state)))
		d.Set("version", tensor.FromI64([]int64{r.version}, 1))
	}
	for i, l := range r.running {
		merge(&d, fmt.Sprintf("rollout%d.", i), l.pack())
	}
	return d, nil
}

// Unpack loads what Pack returned.
func (r *RolloutWorker) Unpack(d tensor.Dict) error {
	for i, l := range r.routes {
		if hidden := d.Sub(fmt.Sprint("route", i)); hidden.Len() > 0 {
			if err := l.rec.Hidden.Load(hidden); err != nil {
				return err
			}
		}
	}
	if r.plan.SyncInterval > 1 {
		copy(r.state, d.Must("weights").U8())
		r.version = d.Must("version").I64()[0]
	}
	for i, l := range r.running {
		l.unpack(d.Sub(fmt.Sprint("rollout", i)))
	}
	return nil
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

// Pack returns the states of the training environments. It returns an error if the environments are external
// simulators, or cannot save their state.
func (w *EnvWorker) Pack() (d tensor.Dict, err error) {
	if w.plan.Config.Env.Train.ID() == env.ExternalID || w.plan.Config.Env.Eval.ID() == env.ExternalID {
		return d, fmt.Errorf("its external simulators stay where they run: expected env on the ranks that it has")
	}
	for i, s := range w.train {
		state, err := s.Save()
		if errors.Is(err, errors.ErrUnsupported) {
			return d, fmt.Errorf("%s cannot save its state: expected env on the ranks that it has", w.plan.Spec.Name)
		}
		if err != nil {
			return d, err
		}
		merge(&d, fmt.Sprintf("stage%d.", i), state)
		d.Set(fmt.Sprint("at", i), tensor.FromI64([]int64{int64(s.At)}, 1))
	}
	return d, nil
}

// Unpack loads what Pack returned.
func (w *EnvWorker) Unpack(d tensor.Dict) error {
	for i, s := range w.train {
		if err := s.Load(d.Sub(fmt.Sprint("stage", i))); err != nil {
			return err
		}
		s.At = int(d.Must(fmt.Sprint("at", i)).I64()[0])
	}
	return nil
}

// Pack returns the reference policy.
func (w *InferenceWorker) Pack() (d tensor.Dict, err error) {
	if w.known {
		d.Set("reference", tensor.FromU8(w.reference, len(w.reference)))
	}
	return d, nil
}

// Unpack loads what Pack returned.
func (w *InferenceWorker) Unpack(d tensor.Dict) error {
	w.loadReference(d)
	return nil
}
