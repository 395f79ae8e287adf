package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// sequences are what a policy that remembers learns from: the steps of each environment in a
// rollout, cut into pieces of one length. Sequence q is piece q/N of environment q%N. It begins
// with the memory that the policy had there when it acted.
type sequences struct {
	length int // steps of one
	envs   int // N
	order  []int32
}

// newSequences cuts rollouts of so many steps; length 0 does not. It returns nil for a policy that
// remembers nothing.
func newSequences(pol policy.Policy, length, steps, envs, micro int) (*sequences, error) {
	if policy.MemoryLen(pol) == 0 {
		if length != 0 {
			return nil, fmt.Errorf("sequence_length %d: want 0: this policy remembers nothing", length)
		}
		return nil, nil
	}
	if length == 0 {
		length = steps
	}
	if length < 0 || steps%length != 0 {
		return nil, fmt.Errorf("sequence_length %d: want a share of the %d steps of a rollout", length, steps)
	}
	if micro%length != 0 {
		return nil, fmt.Errorf("micro_batch_size %d: want a multiple of the %d steps of a sequence", micro, length)
	}
	return &sequences{length: length, envs: envs, order: make([]int32, steps/length*envs)}, nil
}

// permute fills order with the samples of a rollout, the sequences shuffled as permute does it with
// samples. Each micro-batch has whole ones, and lists the first step of all of them, then the
// second, and so on.
func (s *sequences) permute(order []int32, micro int, shuffle bool, seed uint64, replica, iteration, epoch int) {
	permute(s.order, shuffle, seed, replica, iteration, epoch)
	n := micro / s.length // sequences of a micro-batch
	for i := range order {
		q, step := int(s.order[i/micro*n+i%n]), i%micro/n
		order[i] = int32((q/s.envs*s.length+step)*s.envs + q%s.envs)
	}
}

// A recollection is what a minibatch of sequences has beside the observations.
type recollection struct {
	length int
	memory column        // [rows/length, M] of the rollout's [T,N,M]
	begins tensor.Tensor // U8 [rows]
	ended  [2][]uint8    // terminated and truncated of the rollout
}

// newRecollection has room for rows samples of rollouts like r.
func newRecollection(s *sequences, rows int, r tensor.Dict) (*recollection, error) {
	memory, ok := r.Get(policy.Memory)
	if !ok || memory.DType() != tensor.F32 || memory.Rank() != 3 {
		return nil, fmt.Errorf("%s is %v, want F32[T N M]: what the policy remembered at each step", policy.Memory,
			memory)
	}
	m := memory.Dim(2)
	dst := tensor.New(tensor.F32, rows/s.length, m)
	return &recollection{
		length: s.length, memory: column{name: policy.Memory, dst: dst.Bytes(), size: 4 * m},
		begins: tensor.New(tensor.U8, rows),
	}, nil
}

// addTo adds what is recollected to the observations of a minibatch.
func (c *recollection) addTo(obs *tensor.Dict) {
	n := c.begins.Len() / c.length
	obs.Set(policy.Memory, tensor.Of(c.memory.dst, tensor.F32, n, c.memory.size/4))
	obs.Set(policy.Begins, c.begins)
}

// gather recollects the sequences of samples listed as sequences.permute lists them.
func (c *recollection) gather(index []int32) {
	n, begins := len(index)/c.length, c.begins.U8()
	c.memory.gather(index[:n])
	clear(begins[:n]) // an episode that begins here does so with a memory of zeros
	for row, k := range index[:len(index)-n] {
		begins[n+row] = c.ended[0][k] | c.ended[1][k]
	}
}
