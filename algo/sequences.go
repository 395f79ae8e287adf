package algo

import (
	"cmp"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// sequences are the training samples of a recurrent policy: the steps of each environment in a rollout, cut into pieces
// of equal length. Sequence q is piece q/N of environment q%N. A sequence begins with the hidden state that the rollout
// recorded at the first step of the sequence.
type sequences struct {
	length int // steps of a sequence
	envs   int // N
	order  []int32
}

// newSequences cuts rollouts of the given number of steps into sequences of the given length. A length of 0 means the
// whole rollout. It returns nil for a policy without a hidden state.
func newSequences(pol policy.Policy, length, steps, envs, micro int) (*sequences, error) {
	if policy.HiddenLen(pol) == 0 {
		if length != 0 {
			return nil, fmt.Errorf("sequence_length %d: expected 0: this policy has no hidden state", length)
		}
		return nil, nil
	}
	length = cmp.Or(length, steps)
	if length < 0 || steps%length != 0 {
		return nil, fmt.Errorf("sequence_length %d: expected a divisor of the %d steps of a rollout", length, steps)
	}
	if micro%length != 0 {
		return nil, fmt.Errorf("micro_batch_size %d: expected a multiple of the %d steps of a sequence", micro, length)
	}
	return &sequences{length: length, envs: envs, order: make([]int32, steps/length*envs)}, nil
}

// permute fills order with the samples of shuffled sequences. A micro-batch has whole sequences. It holds the first
// steps of all of them, then the second steps, and so on. If s is nil, permute shuffles single samples.
func (s *sequences) permute(order []int32, micro int, shuffle bool, seed uint64, replica, iteration, epoch int) {
	if s == nil {
		permute(order, shuffle, seed, replica, iteration, epoch)
		return
	}
	permute(s.order, shuffle, seed, replica, iteration, epoch)
	n := micro / s.length // sequences of a micro-batch
	for i := range order {
		q, step := int(s.order[i/micro*n+i%n]), i%micro/n
		order[i] = int32((q/s.envs*s.length+step)*s.envs + q%s.envs)
	}
}

// A sequenceState is the additional input of a recurrent policy for a minibatch of sequences. It has the hidden state
// at the first step of each sequence, and marks the steps at which episodes begin.
type sequenceState struct {
	length int
	hidden column        // [rows/length, M], from the rollout's [T,N,M]
	begins tensor.Tensor // U8 [rows]: not 0 if an episode begins with the step
	ended  [2][]uint8    // terminated and truncated of the rollout
}

// newSequenceState returns a sequenceState with the given number of rows, for rollouts like r.
func newSequenceState(s *sequences, rows int, r tensor.Dict) (*sequenceState, error) {
	hidden, ok := r.Get(policy.HiddenState)
	if !ok || hidden.DType() != tensor.F32 || hidden.Rank() != 3 {
		return nil, fmt.Errorf("%s is %v, expected F32[T N M]: the hidden state at each step", policy.HiddenState,
			hidden)
	}
	m := hidden.Dim(2)
	dst := tensor.New(tensor.F32, rows/s.length, m)
	return &sequenceState{
		length: s.length, hidden: column{name: policy.HiddenState, dst: dst.Bytes(), size: 4 * m},
		begins: tensor.New(tensor.U8, rows),
	}, nil
}

// addTo adds the state to the observations of a minibatch.
func (c *sequenceState) addTo(obs *tensor.Dict) {
	n := c.begins.Len() / c.length
	obs.Set(policy.HiddenState, tensor.Of(c.hidden.dst, tensor.F32, n, c.hidden.size/4))
	obs.Set(policy.Begins, c.begins)
}

// gather copies the state of the samples with the given indices, which are in the order of sequences.permute.
func (c *sequenceState) gather(index []int32) {
	n, begins := len(index)/c.length, c.begins.U8()
	c.hidden.gather(index[:n])
	clear(begins[:n]) // an episode that begins here has a hidden state of zeros
	for row, k := range index[:len(index)-n] {
		begins[n+row] = c.ended[0][k] | c.ended[1][k]
	}
}
