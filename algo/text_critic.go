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

// NewTextCritic declares a critic, or a part of one. It has memory, but the model has no weights yet.
func NewTextCritic(c lm.Config, part lm.Part, alloc tensor.Allocator) (*TextCritic, error) {
	t, err := declareCritic(c, part)
	if err != nil {
		return nil, err
	}
	return t, t.Model.Alloc(alloc)
}

// Whole returns the critic of which t has a part, without memory.
func (t *TextCritic) Whole() *TextCritic {
	whole, err := declareCritic(t.Model.Config, lm.Part{})
	if err != nil {
		panic(fmt.Sprintf("algo: the whole of a critic: %v", err)) // NewTextCritic has made t of the same configuration
	}
	return whole
}

func declareCritic(c lm.Config, part lm.Part) (*TextCritic, error) {
	p := new(nn.Params[float32])
	p.Group("critic")
	m, err := lm.New(p, c, lm.Options{Part: part})
	if err != nil {
		return nil, err
	}
	return &TextCritic{Model: m, w: p.Add("value_head.weight", c.Hidden), b: p.Add("value_head.bias", 1)}, nil
}

// TextCriticPPO trains a critic: that of a TextPPO, or one on replicas of its own. In the latter case the
// policy gets its values in batches (TextSetup.Values). Policy and critic compute the same returns, from
// values and rewards. So they can train at the same time. With as many replicas as the policy has, and the
// same texts on each, all numbers are those of a TextPPO that has the critic.
//
// Values computes the values of a batch. Prepare and Update work like those of TextPPO. The metrics are
// those of TextPPO whose names begin with critic/.
type TextCriticPPO struct {
	*textTraining // shared with a TextPPO that has the critic, and so is pass
	pass          *textPass
	critic        *TextCritic
	work          *lm.Work
	train         *trainState
	values        []float32 // of the targets of a micro-batch
	slopes        []float32 // derivatives of the loss by the values
	hidden        []float32 // derivatives of the loss by the hidden rows
}

// NewTextCriticPPO makes a TextCriticPPO for s.Critic, which must have its weights. It needs no
// s.Model.
func NewTextCriticPPO(s TextSetup) (*TextCriticPPO, error) {
	err := s.check()
	if err == nil && s.Critic == nil {
		err = errors.New("expected a critic")
	}
	if err == nil && s.Text.EarlyStopImpRatio != 0 {
		err = fmt.Errorf("algorithm.early_stop_imp_ratio: %v: expected 0: this critic knows no ratio",
			s.Text.EarlyStopImpRatio)
	}
	var c *TextCriticPPO
	if err == nil {
		common := s.common()
		c, err = s.newCritic(common, s.newTraining(common), &textPass{limit: s.MicroBatch})
	}
	if err != nil {
		return nil, fmt.Errorf("critic of texts: %w", err)
	}
	return c, nil
}

func (s *TextSetup) newCritic(common *Setup, t *textTraining, pass *textPass) (*TextCriticPPO, error) {
	m := s.Critic.Model
	if len(m.Params.Data) == 0 {
		return nil, errors.New("the critic has nothing to train")
	}
	work := m.NewTraining(s.MicroBatch.Tokens)
	work.Join(s.Axis)
	train, err := common.newTextTrainState(m, work, s.CriticOptim)
	c := &TextCriticPPO{textTraining: t, pass: pass, critic: s.Critic, work: work, train: train}
	c.work.SetThreads(s.Threads)
	return c, err
}

// Values appends the values before the tokens with Learn to dst, one text after the other.
func (c *TextCriticPPO) Values(dst []float32, texts []Sequence) ([]float32, error) {
	for range c.pass.microBatches(texts) {
		if err := c.forward(); err != nil {
			return dst, err
		}
		dst = append(dst, c.values...)
	}
	return dst, nil
}

// Prepare computes the returns of a batch that has Value.
func (c *TextCriticPPO) Prepare(b *TextBatch) error {
	err := c.check(b, true)
	if err == nil && b.Value == nil {
		err = errors.New("the batch has no values")
	}
	if err == nil {
		err = c.estimate(b, nil)
	}
	if err != nil {
		return fmt.Errorf("critic of texts: %w", err)
	}
	c.prepared = b
	return nil
}

// Update trains on the batch of the last Prepare. After an error the parameters are as the last good
// step left them.
func (c *TextCriticPPO) Update(b *TextBatch) (Metrics, error) {
	if err := c.take(b); err != nil {
		return Metrics{}, err
	}
	c.train.meanNorm() // of an update that failed
	iteration := c.iteration()
	for m, err := range c.minibatches(b) {
		if err != nil {
			return Metrics{}, err
		}
		if err := c.minibatch(b, m, iteration); err != nil {
			return Metrics{}, m.failed(err)
		}
	}
	if err := c.sumMetrics(); err != nil {
		return Metrics{}, err
	}
	var all Metrics
	c.addMetrics(&all, iteration)
	return all, nil
}

// minibatch makes one optimiser step.
func (c *TextCriticPPO) minibatch(b *TextBatch, m *textMinibatch, iteration int) error {
	c.begin()
	for lo, hi := range c.pass.microBatches(m.texts) {
		if err := c.accumulate(b, m, m.index[lo:hi]); err != nil {
			return err
		}
	}
	c.finish()
	return c.step(iteration)
}

// begin sets the gradient to 0, for a new minibatch.
func (c *TextCriticPPO) begin() { clear(c.train.params.Grad) }

// accumulate adds the gradient of a micro-batch of m. index has the numbers of its texts in b.
func (c *TextCriticPPO) accumulate(b *TextBatch, m *textMinibatch, index []int) error {
	if err := c.forward(); err != nil {
		return err
	}
	end := 0
	for _, k := range index {
		lo, hi := b.tokens(k)
		at := end
		end += hi - lo
		v := ValueLoss(c.slopes[at:end], c.values[at:end], b.Value[lo:hi], b.Ret[lo:hi], c.weights[lo:hi],
			c.cfg.ValueClip, c.cfg.HuberDelta, c.cfg.ValueLossCoef*m.perToken)
		c.sums.addValues(&v)
	}
	c.backward()
	return nil
}

// forward computes the values before the targets of a micro-batch.
func (c *TextCriticPPO) forward() error {
	if err := c.critic.Model.Forward(c.work, c.pass.batch); err != nil {
		return err
	}
	p, targets := c.critic.Model.Params, c.pass.targets
	w, bias, hidden := p.Of(c.critic.w), p.Of(c.critic.b)[0], c.work.Hidden()
	c.values, c.slopes = sized(c.values, len(targets)), sized(c.slopes, len(targets))
	for i, t := range targets {
		sum := float64(bias)
		for j, h := range hidden[int(t.Row)*len(w):][:len(w)] {
			sum += float64(w[j]) * float64(h)
		}
		c.values[i] = float32(sum)
	}
	return nil
}

// backward adds the gradient of the loss whose derivatives by the values are c.slopes.
func (c *TextCriticPPO) backward() {
	p := c.critic.Model.Params
	w, dw, db, hidden := p.Of(c.critic.w), p.GradOf(c.critic.w), p.GradOf(c.critic.b), c.work.Hidden()
	c.hidden = sized(c.hidden, len(hidden))
	clear(c.hidden)
	for i, t := range c.pass.targets {
		row := int(t.Row) * len(w)
		db[0] += c.slopes[i]
		kernel.Axpy(dw, c.slopes[i], hidden[row:row+len(w)])
		kernel.Axpy(c.hidden[row:row+len(w)], c.slopes[i], w)
	}
	c.critic.Model.BackwardHidden(c.work, c.hidden, 0)
}

// finish ends the gradient of a minibatch on this replica.
func (c *TextCriticPPO) finish() { c.critic.Model.FinishGradients(c.work) }

// step sums the gradient over the replicas and moves the parameters.
func (c *TextCriticPPO) step(iteration int) error {
	c.train.begin()
	if err := c.train.step(iteration); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return nil
}

// addMetrics adds the critic's metrics, from the reduced sums of an update.
func (c *TextCriticPPO) addMetrics(m *Metrics, iteration int) {
	lr, _ := c.train.adam.LR(iteration)
	m.add("critic/value_loss", c.sums.mean(valueLoss))
	m.add("critic/value_clip_ratio", c.sums.mean(valueClipRatio))
	m.add("critic/explained_variance", c.sums.explainedVariance())
	m.add("critic/lr", lr)
	m.add("critic/grad_norm", c.train.meanNorm())
}

// Close ends the threads.
func (c *TextCriticPPO) Close() { c.work.SetThreads(1) }

// Save returns views of the critic and its optimiser, which are the same on all replicas. The names are
// those of TextPPO.Save. Values copied into them and into Counters restore the critic.
func (c *TextCriticPPO) Save() (d tensor.Dict) {
	c.train.save(&d, "critic", true)
	return d
}

// Counters returns a view of the counters, which are also in TextPPO.Save under the name counters.
func (c *TextCriticPPO) Counters() tensor.Tensor { return c.counters }
