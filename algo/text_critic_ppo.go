package algo

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// TextCriticPPO is the critic's part of TextPPO, for a critic on replicas of its own. The policy gets
// its values in batches (TextSetup.Values). Policy and critic compute the same returns, from values and
// rewards. So they can train at the same time. With as many replicas as the policy has, with the same
// texts on each, all numbers are those of a TextPPO that has the critic.
//
// Values computes what batches need, Prepare and Update are as those of TextPPO. The metrics are those
// of TextPPO that begin with critic/.
type TextCriticPPO struct {
	textTraining
	*criticTraining
}

// NewTextCriticPPO makes the training of s.Critic, which has its weights. It needs no Model.
func NewTextCriticPPO(s TextSetup) (*TextCriticPPO, error) {
	err := s.check()
	if err == nil && s.Critic == nil {
		err = errors.New("expected a critic")
	}
	if err == nil && s.Text.EarlyStopImpRatio != 0 {
		err = fmt.Errorf("algorithm.early_stop_imp_ratio: %v: expected 0: this critic knows no ratio",
			s.Text.EarlyStopImpRatio)
	}
	if err != nil {
		return nil, fmt.Errorf("critic of texts: %w", err)
	}
	common := s.common()
	p := new(TextCriticPPO)
	p.textTraining, _ = s.newTraining(common, 0)
	if p.criticTraining, err = s.newCriticTraining(common); err != nil {
		return nil, fmt.Errorf("critic of texts: %w", err)
	}
	return p, nil
}

// Values appends the values before the tokens with Learn to dst, one text after the other.
func (p *TextCriticPPO) Values(dst []float32, texts []Sequence) ([]float32, error) {
	return p.valuesOf(dst, texts)
}

// Prepare computes the returns of a batch that has Value.
func (p *TextCriticPPO) Prepare(b *TextBatch) error {
	err := p.check(b, true)
	if err == nil && b.Value == nil {
		err = errors.New("the batch has no values")
	}
	if err == nil {
		x := p.describe(b)
		err = p.estimator.estimate(b.Adv, b.Ret, x)
	}
	if err != nil {
		return fmt.Errorf("critic of texts: %w", err)
	}
	p.sums.reset()
	p.addFits(b)
	p.prepared = b
	return nil
}

// Update trains on the batch of the last Prepare. After an error the parameters are as the last good
// step left them.
func (p *TextCriticPPO) Update(b *TextBatch) (Metrics, error) {
	if err := p.take(b); err != nil {
		return Metrics{}, err
	}
	p.train.meanNorm() // of an update that failed
	iteration := p.iteration()
	err := p.minibatches(b, func(plan *textPlan) (more bool, err error) {
		p.begin()
		err = p.each(p.texts, func(lo, hi int) {
			p.loss(&p.textTraining, b, p.perToken(plan), p.index[lo:hi])
			p.backward(p.targets)
		})
		if err != nil {
			return false, err
		}
		p.finish()
		return true, p.step(iteration)
	})
	if err == nil {
		err = p.sumMetrics()
	}
	if err != nil {
		return Metrics{}, err
	}
	return Metrics{Names: slices.Clone(textCriticMetrics), Values: p.metrics(p.sums, iteration)}, nil
}

// Save returns views of the critic and its optimiser, which are the same on all replicas. They have the
// names of TextPPO.Save. The counters are in the policy's.
func (p *TextCriticPPO) Save() (d tensor.Dict) {
	p.train.save(&d, "critic", true)
	return d
}

// Load puts back the critic, from what Save or TextPPO.Save returned, with the counters of the latter.
func (p *TextCriticPPO) Load(d tensor.Dict) error {
	state := p.Save()
	state.Set("counters", p.counters)
	if err := restore(state, d); err != nil {
		return fmt.Errorf("critic of texts: %w", err)
	}
	return nil
}
