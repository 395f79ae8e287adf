package worker

import (
	"errors"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// Save returns this actor's part of the state without a copy: the state that the algorithm keeps for each environment.
// The first actor adds the model and the rest of the algorithm's state.
func (a *ActorWorker) Save() (shares []member.Share, err error) {
	trainer, err := a.algo.Save()
	if err != nil {
		return nil, err
	}
	var own, rest tensor.Dict
	for i := range trainer.Len() {
		if name, t := trainer.Entry(i); strings.HasPrefix(name, "env.") {
			own.Set("trainer."+name, t)
		} else {
			rest.Set(name, t)
		}
	}
	if lo, hi := a.share(); own.Len() > 0 {
		shares = append(shares, member.Share{Kind: "envs", Lo: lo, Hi: hi, Dict: own})
	}
	if a.m.Index() > 0 {
		return shares, nil
	}
	if a.arrivals != nil {
		rest.Set(member.TakenRollouts, tensor.FromI64([]int64{a.arrivals.Rollouts}, 1))
	}
	return append(shares, member.Share{Kind: "model", Dict: job.ModelDict(a.policy.Params())},
		member.Share{Kind: "trainer", Dict: rest}), nil
}

// Load loads this actor's part of st. A state with only weights is enough.
func (a *ActorWorker) Load(st member.State) error {
	if err := job.LoadModel(a.policy.Params(), st.Model); err != nil {
		return err
	}
	if st.Trainer.Len() == 0 {
		if f, ok := a.algo.(algo.Follower); ok {
			f.Follow()
		}
		return nil
	}
	trainer := tensor.Dict{}
	merge(&trainer, "", st.Trainer)
	merge(&trainer, "", st.Envs.Sub("trainer").Slice(a.share()))
	if err := a.algo.Load(trainer); err != nil {
		return err
	}
	if x, ok := a.algo.(algo.Interruptible); ok && !play.HasEpisodes(st.Envs) {
		x.Interrupt()
	}
	if taken, ok := st.Trainer.Get(member.TakenRollouts); ok && a.arrivals != nil {
		a.arrivals.Rollouts = taken.I64()[0]
		for _, in := range a.inputs {
			in.received = taken.I64()[0]
		}
	}
	return nil
}

// share returns the range of environments that this actor trains on.
func (a *ActorWorker) share() (lo, hi int) {
	n := a.plan.Train.Envs / a.plan.Actors
	return a.m.Index() * n, (a.m.Index() + 1) * n
}

// Save returns this worker's part of the state without a copy: the hidden states of its environments. If model is set,
// the first worker adds the weights of its policy.
func (r *RolloutWorker) Save(model bool) (shares []member.Share) {
	if model && r.m.Index() == 0 {
		shares = append(shares, member.Share{Kind: "rollout", Dict: job.ModelDict(r.policy.Params())})
	}
	for _, l := range r.routes {
		if d := l.rec.Hidden.Save(); d.Len() > 0 {
			shares = append(shares, member.Share{Kind: "envs", Lo: l.Lo, Hi: l.Hi, Dict: d})
		}
	}
	return shares
}

// Load loads this worker's part of st. version is the version of the weights in st.Rollout, if there are any.
func (r *RolloutWorker) Load(st member.State, version int64) error {
	if taken, ok := st.Trainer.Get(member.TakenRollouts); ok {
		for _, l := range r.running {
			l.first = uint64(taken.I64()[0])
		}
	}
	if play.HasEpisodes(st.Envs) { // new episodes begin without a hidden state
		for _, l := range r.routes {
			if err := l.rec.Hidden.Load(st.Envs.Slice(l.Lo, l.Hi)); err != nil {
				return err
			}
		}
	}
	if st.Rollout.Len() == 0 {
		return nil
	}
	r.version = version
	return job.LoadModel(r.policy.Params(), st.Rollout)
}

// Save returns the state of this worker's environments without a copy. If the environments cannot save their state,
// saved is false, and the shares have only the seeds.
func (w *EnvWorker) Save() (shares []member.Share, saved bool, err error) {
	saved = true
	for i, s := range w.train {
		lo, hi := w.plan.Train.StageOf(w.m.Index(), i)
		d, err := s.Save()
		if errors.Is(err, errors.ErrUnsupported) {
			saved = false
			d, err = s.Seeder.Save() // a resumed run must not repeat the first seeds
		}
		if err != nil {
			return nil, false, err
		}
		shares = append(shares, member.Share{Kind: "envs", Lo: lo, Hi: hi, Dict: d})
	}
	return shares, saved, nil
}

// Load loads this worker's part of st. A state with only weights is enough.
func (w *EnvWorker) Load(st member.State) error {
	if _, ok := st.Envs.Get("seeder.episode"); !ok {
		return nil
	}
	for i, s := range w.train {
		lo, hi := w.plan.Train.StageOf(w.m.Index(), i)
		if err := s.Load(st.Envs.Slice(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// Load loads the reference policy, if st has it.
func (w *InferenceWorker) Load(st member.State) { w.loadReference(st.Trainer) }

func (w *InferenceWorker) loadReference(d tensor.Dict) {
	if t, ok := d.Get("reference"); ok && w.reference != nil {
		copy(w.reference, t.U8())
		w.known = true
	}
}

// merge adds the tensors of src to dst, with a prefix before their names.
func merge(dst *tensor.Dict, prefix string, src tensor.Dict) {
	for i := range src.Len() {
		name, t := src.Entry(i)
		dst.Set(prefix+name, t)
	}
}
