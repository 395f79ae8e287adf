package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A recomputation computes the advantages of a rollout again, with the present critic (Config.RecomputeAdvantages;
// Andrychowicz et al. 2021, arXiv:2006.05990, §3.5).
type recomputation struct {
	of              *advantages
	policy          policy.Policy
	work            policy.Work
	sequence        int       // Config.SequenceLength
	newValues, next []float32 // values by the present critic: before each unit (see rolloutView); after each sample
}

func newRecomputation(s *Setup, of *advantages) *recomputation {
	return &recomputation{
		of: of, policy: s.Policy, work: s.Policy.NewWork(s.Envs), sequence: s.Config.SequenceLength,
		newValues: make([]float32, of.samples()*of.units), next: make([]float32, of.samples()),
	}
}

// recomputeAdvantages replaces the advantages and returns of a rollout. The value after the end of an episode stays
// that of the earlier critic, because a rollout does not hold this observation.
func (r *recomputation) recomputeAdvantages(rollout tensor.Dict) error {
	a := r.of
	tr, mask, err := a.view(rollout)
	if err != nil {
		return err
	}
	if err := r.recomputeValues(rollout); err != nil {
		return err
	}
	copy(r.next, tr.Next)
	for i := range len(r.next) - a.envs {
		var ended uint8
		for u := i * a.units; u < (i+1)*a.units; u++ {
			ended |= tr.Terminated[u] | tr.Truncated[u]
		}
		if ended == 0 {
			r.next[i] = r.newValues[(i+a.envs)*a.units]
		}
	}
	tr.Value, tr.Next = r.newValues, r.next
	tr, _ = a.actions(tr, mask)
	if a.rewards != nil {
		tr.Reward = a.scaled
	}
	x := &experience{Trajectory: tr}
	if _, ok := rollout.Get("weight"); ok {
		x.Weight = a.weight.F32()
	}
	if err := a.estimate(x); err != nil {
		return err
	}
	if err := a.standardise(x.Weight); err != nil {
		return err
	}
	a.addTo(&rollout, nil) // the weights have not changed
	return nil
}

// recomputeValues fills r.newValues with the values of the present critic.
func (r *recomputation) recomputeValues(rollout tensor.Dict) error {
	again, err := newReplayForward(r.policy, rollout, r.sequence)
	if err != nil {
		return err
	}
	action := rollout.Must(FieldAction)
	for t := range r.of.steps {
		eval := policy.Eval{}
		if obs := again.observe(t); again.recorded.IsZero() {
			eval.Value, err = r.policy.Value(r.work, obs)
		} else {
			eval, err = r.policy.Evaluate(r.work, obs, action.At(t)) // unlike Value, returns the hidden state
		}
		if err != nil {
			return err
		}
		copy(r.newValues[t*r.of.envs*r.of.units:], eval.Value.F32())
		again.keep(eval)
	}
	return nil
}
