package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Recurrent is a Policy that may remember: what it says of an observation depends on those before
// it in the episode. What it remembers of a row, its memory, is kept by whoever uses the policy,
// and comes with the observations under names of their own:
//
//	Memory   F32 [N,M]: zeros where an episode begins, else Act.Memory of the row's last Forward
//	Begins   U8 [T·N], where T > 1: not 0 where an episode begins, whatever the memory; without it none does
//
// Observations have T·N rows then: row t·N + n is step t of sequence n, whose memory at step 0 is
// row n of Memory. To act T is 1. To learn, Evaluate takes sequences, and Backward goes through
// their steps; Eval.Memory is what is remembered after them. Value takes either. The final
// observation of an episode is valued with the memory after its last step.
type Recurrent interface {
	Policy
	// MemoryLen returns M; 0: it remembers nothing, and takes neither Memory nor Begins.
	MemoryLen() int
}

// Names beside the observations of a Recurrent.
const (
	Memory = "memory"
	Begins = "begins"
)

// MemoryLen returns how many numbers p remembers of a row; 0 for none.
func MemoryLen(p Policy) int {
	if r, ok := p.(Recurrent); ok {
		return r.MemoryLen()
	}
	return 0
}

const rnnPolicy = "rnn_policy" // Config.ModelType

// NewRNN is the Builder of rnn_policy, for observations of numbers and choices: an ActorCritic that
// remembers.
func NewRNN(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	cfg.ModelType = rnnPolicy
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return newActorCritic(cfg, spec, nil, seed, alloc)
}

// core is what a recurrent ActorCritic computes before its heads:
//
//	x → trunk → GRU or LSTM → heads
type core[T nn.Float] struct {
	trunk *nn.MLP[T]
	layer *nn.Recurrent[T]
}

// newCore declares the parameters, of the group shared, for rows of obs elements.
func newCore[T nn.Float](cfg Config, params *nn.Params[T], obs int) *core[T] {
	f, _ := cfg.activation()
	params.Group("shared")
	c := &core[T]{trunk: nn.NewMLP(params, "shared", obs, cfg.HiddenSizes, f)}
	if cfg.RNNType == "lstm" {
		c.layer = nn.NewLSTM(params, "shared.rnn", c.trunk.Out, cfg.RNNHiddenSize)
	} else {
		c.layer = nn.NewGRU(params, "shared.rnn", c.trunk.Out, cfg.RNNHiddenSize)
	}
	return c
}

// init draws the initial parameters, all weights orthogonal.
func (c *core[T]) init(seed uint64) {
	c.trunk.Init(seed, math.Sqrt2)
	c.layer.Init(seed)
}

// coreWork is the state of one user of a core.
type coreWork[T nn.Float] struct {
	trunk *nn.MLPWork[T]
	layer *nn.RecurrentWork[T]
	x     []T // of the last forward
	rows  int
}

func (c *core[T]) newWork(maxRows int) *coreWork[T] {
	return &coreWork[T]{trunk: c.trunk.NewWork(maxRows), layer: c.layer.NewWork(maxRows)}
}

// forward returns what the heads get for rows of x, n sequences, and sets next to the memory after
// them; see nn.Recurrent.
func (c *core[T]) forward(w *coreWork[T], next, x, memory []T, begins []byte, rows, n int) []T {
	w.x, w.rows = x, rows
	return c.layer.Forward(w.layer, next, c.trunk.Forward(w.trunk, x, rows), memory, begins, rows, n)
}

// backward adds the gradients of the last forward, given the derivative by the layer's output in
// its OutGrad.
func (c *core[T]) backward(w *coreWork[T], ready func(lo, hi int)) {
	c.layer.Backward(w.layer, c.trunk.OutGrad(w.trunk, w.rows))
	if ready != nil {
		ready(c.layer.Range())
	}
	c.trunk.Backward(w.trunk, nil, w.x, w.rows, ready)
}

// remembered returns what stands beside the observations, of so many rows, for a memory of m
// numbers.
func remembered(obs tensor.Dict, rows, m int) (memory tensor.Tensor, begins []byte, err error) {
	memory, _ = obs.Get(Memory)
	if memory.DType() != tensor.F32 || memory.Rank() != 2 || memory.Dim(1) != m || memory.Dim(0) == 0 ||
		rows%memory.Dim(0) != 0 {
		return memory, nil, fmt.Errorf("%s %v beside %d rows of observations: want F32[N %d], and rows for each of N "+
			"sequences", Memory, memory, rows, m)
	}
	if b, ok := obs.Get(Begins); ok {
		if b.DType() != tensor.U8 || b.Len() != rows {
			return memory, nil, fmt.Errorf("%s %v: want U8[%d]", Begins, b, rows)
		}
		begins = b.U8()
	}
	return memory, begins, nil
}
