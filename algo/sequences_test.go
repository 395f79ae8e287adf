package algo_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// withHidden is a policy with a hidden state of the given length, for tests that do not run it.
type withHidden struct {
	*linear
	hidden int
}

func (r withHidden) HiddenLen() int { return r.hidden }

// counter counts the observations of an episode in its hidden state, which is also its log-prob and its value. It keeps
// its inputs and the observations of its statistics, and does not learn.
type counter struct {
	withHidden
	seen, counted []tensor.Dict
}

func newCounter(hidden int) *counter {
	return &counter{withHidden: withHidden{newLinear(3, 2), hidden}}
}

func (c *counter) Evaluate(_ policy.Work, obs tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	c.seen = append(c.seen, obs.Clone())
	hidden, counts := obs.Must(policy.HiddenState).Clone(), tensor.New(tensor.F32, action.Dim(0), 1)
	begins, ok := obs.Get(policy.Begins) // of sequences; without it each row is one step
	for row := range counts.F32() {
		h := hidden.At(row % hidden.Dim(0)).F32()
		if ok && begins.U8()[row] != 0 {
			clear(h)
		}
		h[0]++
		counts.F32()[row] = h[0]
	}
	return policy.Eval{LogProb: counts, Entropy: counts, Value: counts, Hidden: hidden}, nil
}

func (c *counter) AddStats(_ []float64, obs tensor.Dict) error {
	c.counted = append(c.counted, obs.Clone())
	return nil
}

func (*counter) Backward(policy.Work, policy.Grad, func(lo, hi int)) error { return nil }

// remembered is a rollout with hidden states of m numbers: 0, 1, 2, ….
func remembered(steps, envs, m int) tensor.Dict {
	r := algo.RandomRollout(1, steps, 0, envs)
	hidden := tensor.New(tensor.F32, steps, envs, m)
	for i := range hidden.F32() {
		hidden.F32()[i] = float32(i)
	}
	r.Set(policy.HiddenState, hidden)
	r.Must("terminated").Zero()
	r.Must("truncated").Zero()
	return r
}

// Every sample comes once in an epoch. A micro-batch has the first steps of some sequences, then the second steps of
// the same sequences.
func TestSequencesStayTogether(t *testing.T) {
	const steps, envs, micro = 12, 5, 20
	for _, length := range []int{1, 2, 4} {
		pol := newCounter(2)
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.MicroBatch = pol, steps, envs, steps*envs, micro
			s.Config.SequenceLength = length
		}))
		r := remembered(steps, envs, 2)
		for i := range steps * envs {
			r.Must("observation.state").F32()[3*i] = float32(i)
		}
		p.learn(t, &r)
		var order []int
		for _, obs := range pol.seen {
			for i := range micro {
				order = append(order, int(obs.Must("state").F32()[3*i]))
			}
		}
		epochs := slices.Collect(slices.Chunk(order, steps*envs))
		if len(epochs) != 2 || slices.Equal(epochs[0], epochs[1]) {
			t.Errorf("length %d: %d epochs, or both have one order", length, len(epochs))
		}
		for _, order := range epochs {
			for i, k := range order {
				first := order[i/micro*micro+i%(micro/length)]
				step := i % micro / (micro / length)
				if first/envs%length != 0 || k != first+step*envs {
					t.Errorf("length %d: place %d is sample %d, want step %d of the sequence from %d on", length, i,
						k, step, first)
				}
			}
			slices.Sort(order)
			for i, k := range order {
				if k != i {
					t.Fatalf("length %d: sample %d does not come once", length, i)
				}
			}
		}
	}
}

// A sequence has the hidden state of its first step, and begins anew after each end within it. In order, the sequences
// of two steps are those of environments 0 and 1 from time 0 on, then from time 2 on.
func TestSequenceState(t *testing.T) {
	pol := newCounter(3)
	pol.stats = make([]float64, 4)
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.MicroBatch = pol, 4, 2, 8, 4
		s.Config.SequenceLength, s.Config.ShuffleRollout, s.Config.UpdateEpoch = 2, false, 1
	}))
	r := remembered(4, 2, 3)
	copy(r.Must("terminated").U8(), []uint8{0, 0, 1, 0, 1, 0, 0, 0}) // environment 0 ends at times 1 and 2
	copy(r.Must("truncated").U8(), []uint8{0, 1, 0, 0, 0, 0, 0, 0})  // environment 1 at time 0
	p.learn(t, &r)
	test.Equal(t, len(pol.seen), 2, "micro-batches")
	for i, want := range []struct {
		hidden []float32
		begins []uint8
	}{
		{[]float32{0, 1, 2, 3, 4, 5}, []uint8{0, 0, 0, 1}},
		{[]float32{12, 13, 14, 15, 16, 17}, []uint8{0, 0, 1, 0}},
	} {
		test.EqualSlices(t, pol.seen[i].Must(policy.HiddenState).F32(), want.hidden, "hidden state %d", i)
		test.EqualSlices(t, pol.seen[i].Must(policy.Begins).U8(), want.begins, "beginnings %d", i)
	}
	for _, obs := range pol.counted {
		if name, _ := obs.Entry(0); name != "state" || obs.Len() != 1 {
			t.Errorf("statistics of observations %v, want the state alone", obs)
		}
	}
	if len(pol.counted) == 0 {
		t.Error("no statistics of observations")
	}
}

// Each sequence begins with the recorded hidden state of its first step. Later hidden states are computed, and are 0
// after each end. With rewards of 0 and γ = 0, an advantage is minus the recomputed value.
func TestReplayForward(t *testing.T) {
	const steps, envs = 6, 2
	r := remembered(steps, envs, 1)
	for i := range r.Must(policy.HiddenState).F32() {
		r.Must(policy.HiddenState).F32()[i] = float32(10 * (i + 1))
	}
	r.Must("terminated").U8()[0], r.Must("truncated").U8()[4*envs+1] = 1, 1
	r.Must("reward").Zero()
	for _, c := range []struct {
		sequence int
		want     []float32 // environments 0 and 1 in turn
	}{
		{0, []float32{11, 21, 1, 22, 2, 23, 3, 24, 4, 25, 5, 1}},
		{3, []float32{11, 21, 1, 22, 2, 23, 71, 81, 72, 82, 73, 1}},
	} {
		dst := tensor.New(tensor.F32, steps, envs, 1)
		test.OK(t, algo.LogProbs(dst, newCounter(1), nil, r, c.sequence))
		test.EqualSlices(t, dst.F32(), c.want, "log-probs in sequences of %d", c.sequence)
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Policy, s.Steps, s.Envs, s.GlobalBatch = newCounter(1), steps, envs, steps*envs
			s.Config.SequenceLength, s.Config.RecomputeAdvantages = c.sequence, true
			s.Config.Gamma, s.Config.NormalizeAdvantages = 0, algo.NormalizeNone
		}))
		p.learn(t, &r)
		for i, a := range r.Must("advantage").F32() {
			test.Equal(t, -a, c.want[i], "value %d in sequences of %d", i, c.sequence)
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
		_, err := algo.NewPPO(ppoSetup(func(s *algo.Setup) {
			s.Policy, s.Config.SequenceLength, s.MicroBatch = withHidden{newLinear(3, 2), c.hidden}, c.length, c.micro
		}))
		test.Fails(t, err, c.want, "hidden %d, length %d, micro %d", c.hidden, c.length, c.micro)
	}
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Config.SequenceLength = withHidden{newLinear(3, 2), 2}, 4
	}))
	r := algo.RandomRollout(1, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	test.Fails(t, test.Err(p.Update(r)), "memory is Tensor{}, expected F32[T N M]", "a rollout without hidden states")
}
