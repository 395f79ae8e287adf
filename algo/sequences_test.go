package algo

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// remembering is a policy of which nothing else is asked.
type remembering struct {
	*linear
	memory int
}

func (r remembering) MemoryLen() int { return r.memory }

// Every sample comes once in an epoch. A micro-batch has the first step of some sequences, then the next of the same ones.
func TestSequencesStayTogether(t *testing.T) {
	const steps, envs, micro = 12, 5, 20
	for _, length := range []int{1, 2, 4} {
		s, err := newSequences(remembering{memory: 2}, length, steps, envs, micro)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int32, steps*envs)
		var epochs [][]int32
		for epoch := range 2 {
			s.permute(order, micro, true, 7, 0, 3, epoch)
			epochs = append(epochs, slices.Clone(order))
			for i, k := range order {
				first := order[i/micro*micro+i%(micro/length)]
				step := i % micro / (micro / length)
				if int(first)/envs%length != 0 || int(k) != int(first)+step*envs {
					t.Errorf("length %d: place %d is sample %d, want step %d of the sequence from %d on", length, i, k, step, first)
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

// A sequence has the memory of its first step, and begins anew behind each end.
func TestRecollection(t *testing.T) {
	const steps, envs, m = 4, 2, 3
	r := randomRollout(1, steps, 0, envs)
	memory := tensor.New(tensor.F32, steps, envs, m)
	for i := range memory.F32() {
		memory.F32()[i] = float32(i)
	}
	r.Set(policy.Memory, memory)
	r.Set("advantage", tensor.New(tensor.F32, steps, envs))
	r.Set("return", tensor.New(tensor.F32, steps, envs))
	term, trunc := r.Must("terminated").U8(), r.Must("truncated").U8()
	copy(term, []uint8{0, 0, 1, 0, 0, 0, 0, 0})  // environment 0 ends at time 1
	copy(trunc, []uint8{0, 1, 0, 0, 0, 1, 0, 0}) // environment 1 at 0 and at 2
	b, err := newMinibatch(4, steps, envs, &sequences{length: 2, envs: envs}, r, tensor.Heap)
	if err == nil {
		err = b.from(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.gather([]int32{4, 1, 6, 3}) // times 2 and 3 of environment 0, 0 and 1 of environment 1
	if got, want := b.input.Must(policy.Memory).F32(), []float32{12, 13, 14, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("memory %v, want %v", got, want)
	}
	if got, want := b.input.Must(policy.Begins).U8(), []uint8{0, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("episodes begin %v, want %v", got, want)
	}
	if _, ok := b.obs.Get(policy.Memory); ok || b.obs.Len() != 1 {
		t.Errorf("observations %v, want the state alone", b.obs)
	}
}

// counter remembers how many observations it has seen in an episode, which it gives as log-prob and as value.
type counter struct{ remembering }

func (c counter) Evaluate(_ policy.Work, obs tensor.Dict, _ tensor.Tensor) (policy.Eval, error) {
	seen := obs.Must(policy.Memory).Clone()
	for i := range seen.F32() {
		seen.F32()[i]++
	}
	return policy.Eval{LogProb: seen, Value: seen, Memory: seen}, nil
}

// What a rollout is retold with: in each sequence what was remembered at its first step, then what is remembered now, from zero behind each end.
func TestRetelling(t *testing.T) {
	const steps, envs = 6, 2
	r := randomRollout(1, steps, 0, envs)
	memory := tensor.New(tensor.F32, steps, envs, 1)
	for i := range memory.F32() {
		memory.F32()[i] = float32(10 * (i + 1))
	}
	r.Set(policy.Memory, memory)
	term, trunc := r.Must("terminated").U8(), r.Must("truncated").U8()
	clear(term)
	clear(trunc)
	term[0], trunc[4*envs+1] = 1, 1
	pol := counter{remembering{newLinear(3, 2), 1}}
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
		if err := p.revalue(r); err != nil || !slices.Equal(p.present, c.want) {
			t.Errorf("sequences of %d: values %v (%v), want %v", c.sequence, p.present, err, c.want)
		}
	}
}

func TestSequenceErrors(t *testing.T) {
	for _, c := range []struct {
		memory, length, micro int
		want                  string
	}{
		{0, 4, 32, "sequence_length 4: want 0: this policy remembers nothing"},
		{2, 5, 32, "sequence_length 5: want a share of the 16 steps of a rollout"},
		{2, 8, 4, "micro_batch_size 4: want a multiple of the 8 steps of a sequence"},
		{2, 0, 8, "micro_batch_size 8: want a multiple of the 16 steps of a sequence"},
	} {
		_, err := NewPPO(setup(func(s *Setup) {
			s.Policy, s.Config.SequenceLength, s.MicroBatch = remembering{newLinear(3, 2), c.memory}, c.length, c.micro
		}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("memory %d, length %d, micro %d: %v, want … %s …", c.memory, c.length, c.micro, err, c.want)
		}
	}
	p := mustPPO(t, setup(func(s *Setup) { s.Policy, s.Config.SequenceLength = remembering{newLinear(3, 2), 2}, 4 }))
	r := randomRollout(1, p.steps, 0, p.envs)
	if err := p.Prepare(&r); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Update(r); err == nil || !strings.Contains(err.Error(), "memory is Tensor{}, want F32[T N M]") {
		t.Errorf("a rollout without memory: %v", err)
	}
}
