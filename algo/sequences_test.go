package algo

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// withHidden is a policy with a hidden state, for tests that do not run it.
type withHidden struct {
	*linear
	hidden int
}

func (r withHidden) HiddenLen() int { return r.hidden }

// Every sample comes once in an epoch. A micro-batch has the first steps of some sequences, then the second steps of
// the same sequences.
func TestSequencesStayTogether(t *testing.T) {
	const steps, envs, micro = 12, 5, 20
	for _, length := range []int{1, 2, 4} {
		s := test.Must(newSequences(withHidden{hidden: 2}, length, steps, envs, micro))(t)
		order := make([]int32, steps*envs)
		var epochs [][]int32
		for epoch := range 2 {
			s.permute(order, micro, true, 7, 0, 3, epoch)
			epochs = append(epochs, slices.Clone(order))
			for i, k := range order {
				first := order[i/micro*micro+i%(micro/length)]
				step := i % micro / (micro / length)
				if int(first)/envs%length != 0 || int(k) != int(first)+step*envs {
					t.Errorf("length %d: place %d is sample %d, want step %d of the sequence from %d on", length, i,
						k, step, first)
				}
			}
			slices.Sort(order)
			for i, k := range order {
				if int(k) != i {
					t.Fatalf("length %d: sample %d does not come once", length, i)
				}
			}
		}
		if slices.Equal(epochs[0], epochs[1]) {
			t.Errorf("length %d: both epochs have one order", length)
		}
	}
}

// A sequence has the hidden state of its first step, and begins anew after each end.
func TestSequenceState(t *testing.T) {
	const steps, envs, m = 4, 2, 3
	r := randomRollout(1, steps, 0, envs)
	hidden := tensor.New(tensor.F32, steps, envs, m)
	for i := range hidden.F32() {
		hidden.F32()[i] = float32(i)
	}
	r.Set(policy.HiddenState, hidden)
	r.Set("advantage", tensor.New(tensor.F32, steps, envs))
	r.Set("return", tensor.New(tensor.F32, steps, envs))
	term, trunc := r.Must("terminated").U8(), r.Must("truncated").U8()
	copy(term, []uint8{0, 0, 1, 0, 0, 0, 0, 0})  // environment 0 ends at time 1
	copy(trunc, []uint8{0, 1, 0, 0, 0, 1, 0, 0}) // environment 1 at 0 and at 2
	b, err := newMinibatch(4, steps, envs, &sequences{length: 2, envs: envs}, r, tensor.Heap)
	if err == nil {
		err = b.setRollout(r)
	}
	test.OK(t, err)
	b.gather([]int32{4, 1, 6, 3}) // times 2 and 3 of environment 0, 0 and 1 of environment 1
	if got, want := b.input.Must(policy.HiddenState).F32(), []float32{12, 13, 14, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("hidden state %v, want %v", got, want)
	}
	if got, want := b.input.Must(policy.Begins).U8(), []uint8{0, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("episodes begin %v, want %v", got, want)
	}
	if _, ok := b.obs.Get(policy.HiddenState); ok || b.obs.Len() != 1 {
		t.Errorf("observations %v, want the state alone", b.obs)
	}
}

// counter counts the observations of an episode in its hidden state, which is also its log-prob and its value.
type counter struct{ withHidden }

func (c counter) Evaluate(_ policy.Work, obs tensor.Dict, _ tensor.Tensor) (policy.Eval, error) {
	seen := obs.Must(policy.HiddenState).Clone()
	for i := range seen.F32() {
		seen.F32()[i]++
	}
	return policy.Eval{LogProb: seen, Value: seen, Hidden: seen}, nil
}

// Each sequence begins with the recorded hidden state of its first step. Later hidden states are computed, and are 0
// after each end.
func TestReplayForward(t *testing.T) {
	const steps, envs = 6, 2
	r := randomRollout(1, steps, 0, envs)
	hidden := tensor.New(tensor.F32, steps, envs, 1)
	for i := range hidden.F32() {
		hidden.F32()[i] = float32(10 * (i + 1))
	}
	r.Set(policy.HiddenState, hidden)
	term, trunc := r.Must("terminated").U8(), r.Must("truncated").U8()
	clear(term)
	clear(trunc)
	term[0], trunc[4*envs+1] = 1, 1
	pol := counter{withHidden{newLinear(3, 2), 1}}
	for _, c := range []struct {
		sequence int
		want     []float32 // environments 0 and 1 in turn
	}{
		{0, []float32{11, 21, 1, 22, 2, 23, 3, 24, 4, 25, 5, 1}},
		{3, []float32{11, 21, 1, 22, 2, 23, 71, 81, 72, 82, 73, 1}},
	} {
		dst := tensor.New(tensor.F32, steps, envs, 1)
		if err := LogProbs(dst, pol, nil, r, c.sequence); err != nil || !slices.Equal(dst.F32(), c.want) {
			t.Errorf("sequences of %d: log-probs %v (%v), want %v", c.sequence, dst.F32(), err, c.want)
		}
		p := mustPPO(t, setup(func(s *Setup) {
			s.Policy, s.Steps, s.Envs, s.GlobalBatch = pol, steps, envs, steps*envs
			s.Config.SequenceLength, s.Config.RecomputeAdvantages = c.sequence, true
		}))
		if err := p.recompute.recomputeValues(r); err != nil || !slices.Equal(p.recompute.newValues, c.want) {
			t.Errorf("sequences of %d: values %v (%v), want %v", c.sequence, p.recompute.newValues, err, c.want)
		}
	}
}

func TestSequenceErrors(t *testing.T) {
	for _, c := range []struct {
		hidden, length, micro int
		want                  string
	}{
		{0, 4, 32, "sequence_length 4: expected 0: this policy has no hidden state"},
		{2, 5, 32, "sequence_length 5: expected a divisor of the 16 steps of a rollout"},
		{2, 8, 4, "micro_batch_size 4: expected a multiple of the 8 steps of a sequence"},
		{2, 0, 8, "micro_batch_size 8: expected a multiple of the 16 steps of a sequence"},
	} {
		_, err := NewPPO(setup(func(s *Setup) {
			s.Policy, s.Config.SequenceLength, s.MicroBatch = withHidden{newLinear(3, 2), c.hidden}, c.length, c.micro
		}))
		test.Fails(t, err, c.want, "hidden %d, length %d, micro %d", c.hidden, c.length, c.micro)
	}
	p := mustPPO(t, setup(func(s *Setup) { s.Policy, s.Config.SequenceLength = withHidden{newLinear(3, 2), 2}, 4 }))
	r := randomRollout(1, p.advantages.steps, 0, p.advantages.envs)
	test.OK(t, p.Prepare(&r))
	test.Fails(t, test.Err(p.Update(r)), "memory is Tensor{}, expected F32[T N M]", "a rollout without hidden states")
}
