package roles

import (
	"errors"
	"strings"

	"github.com/rlinf/rlinf/tensor"
)

// state is all of a run that a checkpoint holds.
type state struct{ model, trainer, rollout, envs tensor.Dict }

// A share is one member's part of the state.
type share struct {
	kind   string // "model", "trainer", "rollout", "envs"
	lo, hi int    // for envs: the environments
	dict   tensor.Dict
}

// takenRollouts is the name of arrivals.rollouts in the trainer's state.
const takenRollouts = "rollouts"

// rollouts returns how many rollouts of each environment the actors have taken in a run at this
// step.
func (st state) rollouts(step int64) int64 {
	if t, ok := st.trainer.Get(takenRollouts); ok {
		return t.I64()[0]
	}
	return step
}

// save returns this actor's part of the state, where it lies: what its algorithm keeps for each
// environment, and of the first actor the model and all else that the algorithm keeps.
func (a *ActorWorker) save() (shares []share, err error) {
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
		shares = append(shares, share{"envs", lo, hi, own})
	}
	if a.m.Index() > 0 {
		return shares, nil
	}
	if a.arrivals != nil {
		rest.Set(takenRollouts, tensor.FromI64([]int64{a.arrivals.rollouts}, 1))
	}
	return append(shares, share{kind: "model", dict: modelDict(a.policy.Params())},
		share{kind: "trainer", dict: rest}), nil
}

// load takes this actor's part of st, which may be weights alone.
func (a *ActorWorker) load(st state) error {
	if err := loadModel(a.policy.Params(), st.model); err != nil || st.trainer.Len() == 0 {
		return err
	}
	trainer := tensor.Dict{}
	merge(&trainer, st.trainer)
	merge(&trainer, st.envs.Sub("trainer").Slice(a.share()))
	if err := a.algo.Load(trainer); err != nil {
		return err
	}
	if taken, ok := st.trainer.Get(takenRollouts); ok && a.arrivals != nil {
		a.arrivals.rollouts = taken.I64()[0]
	}
	return nil
}

// share returns the environments that this actor trains on.
func (a *ActorWorker) share() (lo, hi int) {
	n := a.job.train.envs / a.job.actors
	return a.m.Index() * n, (a.m.Index() + 1) * n
}

// save returns this worker's part of the state, where it lies: what the policy remembers of each
// environment. With model, the first worker adds the weights that it uses.
func (r *RolloutWorker) save(model bool) (shares []share) {
	if model && r.m.Index() == 0 {
		shares = append(shares, share{kind: "rollout", dict: modelDict(r.policy.Params())})
	}
	for _, l := range r.lanes {
		if d := l.rec.memory.save(); d.Len() > 0 {
			shares = append(shares, share{"envs", l.lo, l.hi, d})
		}
	}
	return shares
}

// load takes this worker's part of st. Weights of the rollouts' own are of that version.
func (r *RolloutWorker) load(st state, version int64) error {
	if taken, ok := st.trainer.Get(takenRollouts); ok {
		for _, l := range r.running {
			l.first = uint64(taken.I64()[0])
		}
	}
	if hasEpisodes(st.envs) { // new ones begin with nothing remembered
		for _, l := range r.lanes {
			if err := l.rec.memory.load(st.envs.Slice(l.lo, l.hi)); err != nil {
				return err
			}
		}
	}
	if st.rollout.Len() == 0 {
		return nil
	}
	r.version = version
	return loadModel(r.policy.Params(), st.rollout)
}

// save returns the state of this worker's environments, where it lies. whole is false where they
// cannot save it: then it is that of their seeds alone.
func (w *EnvWorker) save() (shares []share, whole bool, err error) {
	whole = true
	for i, s := range w.train {
		lo, hi := w.job.train.shardOf(w.m.Index(), i)
		d, err := s.save()
		if errors.Is(err, errors.ErrUnsupported) {
			whole = false
			d, err = s.seeder.Save() // which are not those of its beginning again
		}
		if err != nil {
			return nil, false, err
		}
		shares = append(shares, share{"envs", lo, hi, d})
	}
	return shares, whole, nil
}

// load takes this worker's part of st, which may be weights alone.
func (w *EnvWorker) load(st state) error {
	if _, ok := st.envs.Get("seeder.episode"); !ok {
		return nil
	}
	for i, s := range w.train {
		lo, hi := w.job.train.shardOf(w.m.Index(), i)
		if err := s.load(st.envs.Slice(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// load takes the reference policy from st, if it is there.
func (w *InferenceWorker) load(st state) {
	if t, ok := st.trainer.Get("reference"); ok && w.reference != nil {
		copy(w.reference, t.U8())
		w.known = true
	}
}

// merge adds the tensors of src to dst.
func merge(dst *tensor.Dict, src tensor.Dict) {
	for i := range src.Len() {
		dst.Set(src.Entry(i))
	}
}
