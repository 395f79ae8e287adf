package algo

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// SFT is supervised fine-tuning of a language model: it raises the log-probs of the tokens to be learnt. One update is
// one optimiser step:
//
//	loss = -Σ log p(token | tokens before it) / T
//
// where T is the number of tokens to be learnt in the whole batch, on all replicas. Gradients are summed, never
// averaged. The sequences of a replica are packed one after the other, in their order. The results do not depend on the
// micro-batch size, bit for bit. A mixture of experts is an exception: its load-balancing loss is a mean over
// micro-batches, weighted by their tokens.
//
// Metrics, over all replicas: sft/loss; sft/tokens = tokens of the batch; sft/targets = T; sft/aux_loss, with a mixture
// of experts; actor/lr, actor/grad_norm.
type SFT struct {
	policy   *textPass
	train    *trainState
	replicas Replicas
	counters tensor.Tensor // I64 [1]: updates made
	progress Progress
}

// SFTSetup has all inputs for making an SFT.
type SFTSetup struct {
	Model      *lm.Model // its Params are trained
	Optim      OptimConfig
	Iterations int // length of the run, for schedules that end with it
	MicroBatch MicroBatch
	Mesh       lm.Mesh          // the ranks over which the model is sharded
	Recompute  int              // number of layers to recompute, see lm.Model.NewRecomputing; does not change results
	Threads    int              // number of threads, which does not change results; with more than 1, call Close
	Replicas   Replicas         // nil means Single
	Alloc      tensor.Allocator // memory of the optimiser; nil means tensor.Heap
	Progress   Progress         // of Update and Evaluate; may be nil
	Witness    Witness          // of Update; may be nil
}

// NewSFT makes an SFT of a model that has its weights already.
func NewSFT(s SFTSetup) (*SFT, error) {
	if len(s.Model.Params.Data) == 0 {
		return nil, errors.New("sft: the model has nothing to train")
	}
	common := Setup{Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc, Witness: s.Witness}
	common.setDefaults()
	policy := newTextPass(s.Model, s.Model.NewRecomputing(s.MicroBatch.Tokens, s.Recompute), s.MicroBatch, s.Threads,
		s.Mesh, lm.Head{Temperature: 1})
	train, err := common.newTextTrainState(s.Model, policy.work, s.Optim)
	if err != nil {
		return nil, fmt.Errorf("sft: %w", err)
	}
	return &SFT{policy: policy, train: train,
		replicas: common.Replicas, counters: tensor.New(tensor.I64, 1), progress: s.Progress}, nil
}

// SFTKeys declares the keys of an SFT; see Keys. s needs only the configuration.
func SFTKeys(s *Setup, k *Keys) { k.ReadOptim("actor.optim", &s.Optim) }

// Close ends the threads.
func (s *SFT) Close() { s.policy.Close() }

// Update makes one optimiser step. texts has the sequences of this replica. targets is the number of tokens to be
// learnt, and tokens the number of all tokens, both in the whole batch on all replicas.
func (s *SFT) Update(texts []Sequence, targets, tokens int) (m Metrics, err error) {
	p := s.policy
	s.train.transfer((*nn.Params[float32]).Upload)
	defer s.train.transfer((*nn.Params[float32]).Download)
	s.train.open()
	s.progress.Report(workUpdate, 0, len(texts))
	slope := float32(-1 / float64(targets))
	var loss float64
	err = p.train(texts, float64(tokens), func(lo, _ int, o *lm.Outputs) {
		s.progress.Report(workUpdate, lo, len(texts))
		for i, logp := range o.LogProb {
			o.DLogProb[i] = slope
			loss -= float64(logp)
		}
	}, s.train.readyAt(true))
	if err != nil {
		return m, fmt.Errorf("sft: %w", err)
	}
	s.progress.Report(workUpdate, len(texts), len(texts))
	p.model.FinishGradients(p.work)
	iteration := int(s.counters.I64()[0])
	if err := s.train.step(iteration); err != nil {
		return m, err
	}
	s.counters.I64()[0]++
	sums := []float64{loss, p.aux}
	if err := s.replicas.Sum(sums); err != nil {
		return m, err
	}
	lr, _ := s.train.adam.LR(iteration)
	m.add("sft/loss", sums[0]/float64(targets))
	m.add("sft/tokens", float64(tokens))
	m.add("sft/targets", float64(targets))
	m.add("actor/lr", lr)
	m.add("actor/grad_norm", s.train.meanNorm())
	if p.model.Config.Experts.Count > 0 {
		m.add("sft/aux_loss", sums[1])
	}
	return m, nil
}

// Evaluate returns the metrics of the sequences of all replicas, without a training step; see TextSums.Metrics. texts
// has the sequences of this replica. After an error on one replica, the others still return, but with wrong metrics.
func (s *SFT) Evaluate(texts []Sequence) (Metrics, error) {
	var sums TextSums
	s.train.upload()
	err := s.policy.measure(texts, func(int) *TextSums { return &sums }, s.progress)
	if err != nil {
		err = fmt.Errorf("sft: %w", err)
	}
	err = cmp.Or(err, sums.reduce(s.replicas))
	return sums.Metrics(), err
}

// Permutation returns the numbers 0..n-1 in an order that depends only on seed and epoch. Without shuffle the order is
// ascending. The result reuses the memory of order.
func Permutation(order []int32, n int, shuffle bool, seed uint64, epoch int64) []int32 {
	order = sized(order, n)
	permute(order, shuffle, seed, 0, 0, int(epoch))
	return order
}

// Save returns views of the optimiser's state and the counter of updates, which are the same on all replicas. To
// restore the state, copy saved values into these views.
func (s *SFT) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", s.counters)
	s.train.save(&d, "actor", false)
	return d
}
