package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// A TextCritic estimates what an answer will be worth from the tokens so far: a language model with
// a linear function of its last hidden state in place of the output matrix,
//
//	v_t = w · h_t + b
//
// w and b begin at 0, and so does every value.
type TextCritic struct {
	Model *lm.Model // its Params have value_head.weight and value_head.bias, too
	w, b  int       // fields of the parameters
}

// NewTextCritic declares a critic. It has memory, but the model has no weights yet.
func NewTextCritic(c lm.Config, alloc tensor.Allocator) (*TextCritic, error) {
	p := new(nn.Params[float32])
	p.Group("critic")
	m, err := lm.New(p, c, lm.Options{})
	if err != nil {
		return nil, err
	}
	t := &TextCritic{Model: m, w: p.Add("value_head.weight", c.Hidden), b: p.Add("value_head.bias", 1)}
	return t, m.Alloc(alloc)
}

// TextCriticPPO is the critic's part of TextPPO, for a critic on replicas of its own. The policy gets
// its values in batches (TextSetup.Values). Policy and critic compute the same returns, from values and
// rewards. So they can train at the same time. With as many replicas as the policy has, and the same
// texts on each, all numbers are those of a TextPPO that has the critic.
//
// Values computes the values of a batch. Prepare and Update are as those of TextPPO. The metrics are those
// of TextPPO that begin with critic/.
type TextCriticPPO struct {
	textTraining
	pass   textPass
	critic *criticTraining
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
	p := &TextCriticPPO{textTraining: s.newTraining(common), pass: textPass{limit: s.MicroBatch}}
	if p.critic, err = s.newCriticTraining(common); err != nil {
		return nil, fmt.Errorf("critic of texts: %w", err)
	}
	return p, nil
}

// Values appends the values before the tokens with Learn to dst, one text after the other.
func (p *TextCriticPPO) Values(dst []float32, texts []Sequence) ([]float32, error) {
	return p.critic.appendValues(dst, &p.pass, texts)
}

// Prepare computes the returns of a batch that has Value.
func (p *TextCriticPPO) Prepare(b *TextBatch) error {
	err := p.check(b, true)
	if err == nil && b.Value == nil {
		err = errors.New("the batch has no values")
	}
	if err == nil {
		err = p.estimate(b, nil)
	}
	if err != nil {
		return fmt.Errorf("critic of texts: %w", err)
	}
	p.prepared = b
	return nil
}

// Update trains on the batch of the last Prepare. After an error the parameters are as the last good
// step left them.
func (p *TextCriticPPO) Update(b *TextBatch) (Metrics, error) {
	if err := p.take(b); err != nil {
		return Metrics{}, err
	}
	p.critic.train.meanNorm() // of an update that failed
	iteration := p.iteration()
	for m, err := range p.minibatches(b) {
		if err != nil {
			return Metrics{}, err
		}
		if err := p.minibatch(b, m, iteration); err != nil {
			return Metrics{}, m.failed(err)
		}
	}
	if err := p.sumMetrics(); err != nil {
		return Metrics{}, err
	}
	var all Metrics
	p.critic.addMetrics(&all, p.sums, iteration)
	return all, nil
}

// minibatch makes one optimiser step.
func (p *TextCriticPPO) minibatch(b *TextBatch, m *textMinibatch, iteration int) error {
	clear(p.critic.train.params.Grad)
	for lo, hi := range p.pass.microBatches(m.texts) {
		if err := p.critic.accumulate(&p.pass, &p.textTraining, b, m, m.index[lo:hi]); err != nil {
			return err
		}
	}
	p.critic.Model.FinishGradients(p.critic.work)
	return p.critic.step(iteration)
}

// Close ends the threads.
func (p *TextCriticPPO) Close() { p.critic.close() }

// Save returns views of the critic and its optimiser, which are the same on all replicas. They have the
// names of TextPPO.Save. The counters are in the policy's.
func (p *TextCriticPPO) Save() (d tensor.Dict) {
	p.critic.train.save(&d, "critic", true)
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

// A criticTraining is a TextCritic that learns.
type criticTraining struct {
	*TextCritic
	work   *lm.Work
	train  *trainState
	values []float32 // of the targets of a micro-batch
	slopes []float32 // derivatives of the loss by the values
	hidden []float32 // derivatives of the loss by the hidden rows
}

func (s *TextSetup) newCriticTraining(common *Setup) (*criticTraining, error) {
	if len(s.Critic.Model.Params.Data) == 0 {
		return nil, errors.New("the critic has nothing to train")
	}
	train, err := common.newTrainState(s.Critic.Model.Params, s.CriticOptim)
	work := s.Critic.Model.NewTraining(s.MicroBatch.Tokens)
	work.SetThreads(s.Threads)
	return &criticTraining{TextCritic: s.Critic, work: work, train: train}, err
}

func (c *criticTraining) close() { c.work.SetThreads(1) }

// appendValues appends the values before all tokens to be learnt to dst.
func (c *criticTraining) appendValues(dst []float32, pass *textPass, texts []Sequence) ([]float32, error) {
	for range pass.microBatches(texts) {
		if err := c.forward(pass); err != nil {
			return dst, err
		}
		dst = append(dst, c.values...)
	}
	return dst, nil
}

// accumulate adds the gradient of a micro-batch of m. index are its texts in b.
func (c *criticTraining) accumulate(pass *textPass, t *textTraining, b *TextBatch, m *textMinibatch,
	index []int) error {
	if err := c.forward(pass); err != nil {
		return err
	}
	end := 0
	for _, k := range index {
		lo, hi := b.tokens(k)
		at := end
		end += hi - lo
		v := ValueLoss(c.slopes[at:end], c.values[at:end], b.Value[lo:hi], b.Ret[lo:hi], t.weights[lo:hi],
			t.cfg.ValueClip, t.cfg.HuberDelta, t.cfg.ValueLossCoef*m.perToken)
		t.sums.addValues(&v)
	}
	c.backward(pass.targets)
	return nil
}

// forward computes the values before the targets of a micro-batch.
func (c *criticTraining) forward(pass *textPass) error {
	if err := c.Model.Forward(c.work, pass.batch); err != nil {
		return err
	}
	p := c.Model.Params
	w, bias, hidden := p.Of(c.w), p.Of(c.b)[0], c.work.Hidden()
	c.values, c.slopes = sized(c.values, len(pass.targets)), sized(c.slopes, len(pass.targets))
	for i, t := range pass.targets {
		sum := float64(bias)
		for j, h := range hidden[int(t.Row)*len(w):][:len(w)] {
			sum += float64(w[j]) * float64(h)
		}
		c.values[i] = float32(sum)
	}
	return nil
}

// backward adds the gradient of the slopes.
func (c *criticTraining) backward(targets []lm.Target) {
	p := c.Model.Params
	w, dw, db, hidden := p.Of(c.w), p.GradOf(c.w), p.GradOf(c.b), c.work.Hidden()
	c.hidden = sized(c.hidden, len(hidden))
	clear(c.hidden)
	for i, t := range targets {
		row := int(t.Row) * len(w)
		db[0] += c.slopes[i]
		kernel.Axpy(dw, c.slopes[i], hidden[row:row+len(w)])
		kernel.Axpy(c.hidden[row:row+len(w)], c.slopes[i], w)
	}
	c.Model.BackwardHidden(c.work, c.hidden, 0)
}

// step sums the gradient over the replicas and moves the parameters.
func (c *criticTraining) step(iteration int) error {
	c.train.begin()
	if err := c.train.step(iteration); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return nil
}

// addMetrics adds the critic's metrics, from the reduced sums of an update.
func (c *criticTraining) addMetrics(m *Metrics, s *metricSums, iteration int) {
	lr, _ := c.train.adam.LR(iteration)
	m.add("critic/value_loss", s.mean(valueLoss))
	m.add("critic/value_clip_ratio", s.mean(valueClipRatio))
	m.add("critic/explained_variance", s.explainedVariance())
	m.add("critic/lr", lr)
	m.add("critic/grad_norm", c.train.meanNorm())
}
