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

// A criticTraining is a TextCritic that learns.
type criticTraining struct {
	*TextCritic
	work   *lm.Work
	limit  MicroBatch
	train  *trainState
	values []float32 // of the targets of the last forward pass
	slopes []float32 // the loss's derivatives by them
	hidden []float32 // and by the hidden rows

	textPack // of valuesOf, and of a critic that learns apart from the policy
}

func (s *TextSetup) newCriticTraining(common *Setup) (*criticTraining, error) {
	if len(s.Critic.Model.Params.Data) == 0 {
		return nil, errors.New("the critic has nothing to train")
	}
	train, err := common.newTrainState(s.Critic.Model.Params, s.CriticOptim)
	work := s.Critic.Model.NewTraining(s.MicroBatch.Tokens)
	work.SetThreads(s.Threads)
	return &criticTraining{TextCritic: s.Critic, work: work, limit: s.MicroBatch, train: train}, err
}

// Close ends the threads.
func (c *criticTraining) Close() { c.work.SetThreads(1) }

// each calls f after the forward pass of each micro-batch, with the range of its texts.
func (c *criticTraining) each(all []Sequence, f func(lo, hi int)) error {
	for lo := 0; lo < len(all); {
		hi := lo + c.limit.Fit(all[lo:])
		c.pack(all[lo:hi])
		if err := c.forward(c.batch, c.targets); err != nil {
			return err
		}
		f(lo, hi)
		lo = hi
	}
	return nil
}

// valuesOf appends the values before all tokens to be learnt to dst.
func (c *criticTraining) valuesOf(dst []float32, all []Sequence) ([]float32, error) {
	err := c.each(all, func(int, int) { dst = append(dst, c.values...) })
	return dst, err
}

// forward computes the values before the targets of a batch.
func (c *criticTraining) forward(b lm.Batch, targets []lm.Target) error {
	if err := c.Model.Forward(c.work, b); err != nil {
		return err
	}
	p := c.Model.Params
	w, bias, hidden := p.Of(c.w), p.Of(c.b)[0], c.work.Hidden()
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

// loss sets the slopes of the values of the last forward pass, of the texts index of b. A token counts
// perToken.
func (c *criticTraining) loss(t *textTraining, b *TextBatch, perToken float32, index []int) {
	at := 0
	for _, k := range index {
		lo, hi := b.tokens(k)
		end := at + hi - lo
		v := ValueLoss(c.slopes[at:end], c.values[at:end], b.Value[lo:hi], b.Ret[lo:hi], t.weights[lo:hi],
			t.cfg.ValueClip, t.cfg.HuberDelta, t.cfg.ValueLossCoef*perToken)
		t.sums.addValues(&v)
		at = end
	}
}

// begin begins a gradient.
func (c *criticTraining) begin() { clear(c.train.params.Grad) }

// finish ends a gradient on this replica.
func (c *criticTraining) finish() { c.Model.FinishGradients(c.work) }

// step sums the gradient over the replicas and moves the parameters.
func (c *criticTraining) step(iteration int) error {
	c.train.begin()
	if err := c.train.step(iteration); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return nil
}

var textCriticMetrics = []string{"critic/value_loss", "critic/value_clip_ratio", "critic/explained_variance",
	"critic/lr", "critic/grad_norm"}

// metrics reads textCriticMetrics from the reduced sums of an update.
func (c *criticTraining) metrics(s *metricSums, iteration int) []float64 {
	lr, _ := c.train.adam.LR(iteration)
	return []float64{s.mean(valueLoss), s.mean(valueClipRatio), s.explainedVariance(), lr, c.train.meanNorm()}
}
