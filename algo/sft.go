package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// SFT is supervised fine-tuning of a language model: it raises the log-probabilities of the tokens
// that are to be learnt. One update is one optimiser step:
//
//	loss = -Σ log p(token | tokens before it) / T
//
// where T is the number of tokens to be learnt of the whole batch, on all replicas. Gradients are
// summed, never averaged. The sequences of a replica are packed one after the other, in their
// order. Where a micro-batch ends changes no bit, except of the load-balancing loss of a mixture of
// experts, which is a mean over micro-batches, weighted by their tokens.
//
// Metrics, over all replicas: sft/loss; sft/tokens = tokens of the batch; sft/targets = T;
// sft/aux_loss of a mixture of experts; actor/lr, actor/grad_norm.
type SFT struct {
	*textPass
	opt      *trainState
	replicas Replicas
	counters tensor.Tensor // I64 [1]: updates made
	dlogp    []float32
	sums     []float64
}

// SFTSetup is what an SFT is made of.
type SFTSetup struct {
	Model      *lm.Model // its Params are trained
	Optim      OptimConfig
	Iterations int // length of the run, where schedules without an end of their own end
	MicroBatch MicroBatch
	Threads    int              // that compute; they change no bit. With more than 1, call Close
	Replicas   Replicas         // nil: Single
	Alloc      tensor.Allocator // memory of the optimiser; nil: tensor.Heap
	Progress   Progress         // of Update and Evaluate; nil: nobody asks
}

// NewSFT makes the fine-tuning of a model that has its weights.
func NewSFT(s SFTSetup) (*SFT, error) {
	if len(s.Model.Params.Data) == 0 {
		return nil, errors.New("sft: the model has nothing to train")
	}
	common := Setup{Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc}
	common.setDefaults()
	opt, err := common.newTrainState(s.Model.Params, s.Optim)
	if err != nil {
		return nil, fmt.Errorf("sft: %w", err)
	}
	pass := newTextPass(s.Model, s.MicroBatch, s.Threads, 1)
	pass.progress = s.Progress
	return &SFT{textPass: pass, opt: opt, replicas: common.Replicas, counters: tensor.New(tensor.I64, 1),
		sums: make([]float64, 6)}, nil
}

// Update takes one optimiser step on this replica's sequences. targets and tokens are how many the
// whole batch has, on all replicas.
func (s *SFT) Update(mine []Sequence, targets, tokens int) (Metrics, error) {
	clear(s.sums)
	s.opt.open()
	s.count(workUpdate, 0, len(mine))
	step := float32(-1 / float64(targets))
	err := s.each(mine, func(int, int) error {
		s.dlogp = sized(s.dlogp, len(s.targets))
		for i := range s.dlogp {
			s.dlogp[i] = step
		}
		share := float64(len(s.batch.IDs)) / float64(tokens)
		s.model.Backward(s.work, s.dlogp, nil, s.targets, 1, float32(share))
		for _, p := range s.logp {
			s.sums[0] -= float64(p)
		}
		s.sums[1] += share * s.work.AuxLoss()
		return nil
	})
	if err != nil {
		return Metrics{}, fmt.Errorf("sft: %w", err)
	}
	s.model.FinishGradients(s.work)
	iteration := s.counters.I64()
	if err := s.opt.step(int(iteration[0])); err != nil {
		return Metrics{}, err
	}
	lr, _ := s.opt.adam.LR(int(iteration[0]))
	iteration[0]++
	if err := s.replicas.Sum(s.sums); err != nil {
		return Metrics{}, err
	}
	m := Metrics{Names: []string{"sft/loss", "sft/tokens", "sft/targets", "actor/lr", "actor/grad_norm"},
		Values: []float64{s.sums[0] / float64(targets), float64(tokens), float64(targets), lr, s.opt.meanNorm()}}
	if s.model.Config.Experts.Count > 0 {
		m.Names, m.Values = append(m.Names, "sft/aux_loss"), append(m.Values, s.sums[1])
	}
	return m, nil
}

// Evaluate measures all replicas' sequences together, without learning from them; see
// TextSums.Metrics.
func (s *SFT) Evaluate(mine []Sequence) (Metrics, error) {
	clear(s.sums)
	sums := (*TextSums)(s.sums[:5])
	if err := s.measure(mine, func(int) *TextSums { return sums }); err != nil {
		return Metrics{}, fmt.Errorf("sft: %w", err)
	}
	if err := s.replicas.Sum(s.sums); err != nil {
		return Metrics{}, err
	}
	return sums.Metrics(), nil
}

// Permutation returns 0..n-1 in an order that belongs to the seed and an epoch alone; without
// shuffle they stay in order. It uses the memory of order.
func Permutation(order []int32, n int, shuffle bool, seed uint64, epoch int64) []int32 {
	if cap(order) < n {
		order = make([]int32, n)
	}
	permute(order[:n], shuffle, seed, 0, 0, int(epoch))
	return order[:n]
}

// Save returns views of the optimiser's state and the counter of updates, which are the same on all
// replicas.
func (s *SFT) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", s.counters)
	s.opt.save(&d, "actor", false)
	return d
}

// Load puts back what Save returned.
func (s *SFT) Load(d tensor.Dict) error {
	if err := restore(s.Save(), d); err != nil {
		return fmt.Errorf("sft: %w", err)
	}
	return nil
}
