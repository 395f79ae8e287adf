package algo

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// permute fills order with the numbers 0..n-1. If shuffle is set, it shuffles them (Fisher and Yates). The random
// numbers depend only on seed, replica, iteration and epoch, so a resumed run draws the same order.
func permute(order []int32, shuffle bool, seed uint64, replica, iteration, epoch int) {
	for i := range order {
		order[i] = int32(i)
	}
	if !shuffle {
		return
	}
	s := philox.New(seed, philox.Permutation, uint64(replica), uint64(iteration)<<32|uint64(epoch))
	for i := len(order) - 1; i > 0; i-- {
		j := s.IntN(i + 1)
		order[i], order[j] = order[j], order[i]
	}
}

// A minibatch holds copies of the samples that gather selects, side by side. All calls of gather use the same memory.
type minibatch struct {
	total    int // samples of a rollout
	columns  []column
	obs      tensor.Dict // [rows, ...] for each observation, without the prefix
	input    tensor.Dict // the policy's input: obs, and the state of sequences
	action   tensor.Tensor
	logProb  []float32
	value    []float32
	adv, ret []float32
	// each of these slices is nil if the rollout lacks the tensor
	weight, refLogProb, proxLogProb, proxShare []float32
	state                                      *sequenceState // nil if samples are single steps
}

// A column is one tensor of the rollout and its copy in the minibatch.
type column struct {
	name     string
	src, dst []byte
	size     int // bytes of one sample
}

// newMinibatch returns a minibatch with the given number of rows, for rollouts like r. Rollouts have leading dimensions
// [steps, envs]. The minibatch holds the tensors that training reads. Its samples are sequences unless s is nil.
func newMinibatch(rows, steps, envs int, s *sequences, r tensor.Dict, alloc tensor.Allocator) (*minibatch, error) {
	names := []string{FieldAction, FieldLogProb, FieldAdvantage, FieldReturn}
	for i := range r.Len() {
		if name, _ := r.Entry(i); strings.HasPrefix(name, Observations+".") ||
			slices.Contains([]string{FieldValue, "weight", FieldRefLogProb, FieldProxLogProb, "prox_share"}, name) {
			names = append(names, name)
		}
	}
	var fields []tensor.Field
	for _, name := range names {
		t, ok := r.Get(name)
		if !ok {
			return nil, fmt.Errorf("no %s", name)
		}
		if t.Rank() < 2 || t.Dim(0) != steps || t.Dim(1) != envs {
			return nil, fmt.Errorf("%s is %v, expected leading dimensions [%d %d]", name, t, steps, envs)
		}
		fields = append(fields, tensor.Field{Name: name, DType: t.DType(),
			Shape: append([]int{rows}, t.Shape()[2:]...)})
	}
	layout := tensor.NewLayout(fields...)
	mem, err := alloc(layout.Size())
	if err != nil {
		return nil, fmt.Errorf("memory of a minibatch: %w", err)
	}
	samples := layout.Bind(mem)
	b := &minibatch{total: steps * envs, obs: samples.Sub(Observations), action: samples.Must(FieldAction)}
	for i, f := range fields {
		_, t := samples.Entry(i)
		b.columns = append(b.columns, column{name: f.Name, dst: t.Bytes(), size: len(t.Bytes()) / rows})
	}
	b.logProb = samples.Must(FieldLogProb).F32()
	b.adv, b.ret = samples.Must(FieldAdvantage).F32(), samples.Must(FieldReturn).F32()
	for name, column := range map[string]*[]float32{
		FieldValue: &b.value, "weight": &b.weight, FieldRefLogProb: &b.refLogProb, FieldProxLogProb: &b.proxLogProb,
		"prox_share": &b.proxShare,
	} {
		if t, ok := samples.Get(name); ok {
			*column = t.F32()
		}
	}
	if b.input = b.obs; s == nil {
		return b, nil
	}
	if b.state, err = newSequenceState(s, rows, r); err != nil {
		return nil, err
	}
	b.input = samples.Sub(Observations)
	b.state.addTo(&b.input)
	return b, nil
}

// setRollout sets the rollout that gather reads. The rollout must have the shapes of the rollout for which b was made.
func (b *minibatch) setRollout(r tensor.Dict) error {
	bind := func(c *column) error {
		t, ok := r.Get(c.name)
		if !ok || len(t.Bytes()) != b.total*c.size {
			return fmt.Errorf("%s is %v, unlike in the first rollout", c.name, t)
		}
		c.src = t.Bytes()
		return nil
	}
	for i := range b.columns {
		if err := bind(&b.columns[i]); err != nil {
			return err
		}
	}
	if b.state != nil {
		b.state.ended = [2][]uint8{r.Must(FieldTerminated).U8(), r.Must(FieldTruncated).U8()}
		return bind(&b.state.hidden)
	}
	return nil
}

// gather copies samples of the rollout to the rows of b. index holds the indices t·N + n of the samples.
func (b *minibatch) gather(index []int32) {
	for i := range b.columns {
		b.columns[i].gather(index)
	}
	if b.state != nil {
		b.state.gather(index)
	}
}

func (c *column) gather(index []int32) {
	if c.size == 4 { // most columns are one number per sample
		dst := c.dst[:4*len(index)]
		for row, k := range index {
			binary.NativeEndian.PutUint32(dst[4*row:], binary.NativeEndian.Uint32(c.src[4*int(k):]))
		}
		return
	}
	for row, k := range index {
		copy(c.dst[row*c.size:(row+1)*c.size], c.src[int(k)*c.size:(int(k)+1)*c.size])
	}
}
