package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A TextCritic estimates the return of an answer from the tokens so far. It is a language model whose output matrix is
// replaced by a linear function of the last hidden state:
//
//	v_t = w · h_t + b
//
// w and b begin as 0, so every value is 0 at first.
type TextCritic struct{ Model *lm.Model }

// NewTextCritic makes a critic, or one part of a sharded critic, on device d unless that is nil. It allocates the
// weights, but does not set them.
func NewTextCritic(c lm.Config, part lm.Shard, alloc tensor.Allocator, d nn.Device[float32]) (*TextCritic, error) {
	p := new(nn.Params[float32])
	p.UseDevice(d)
	p.Group("critic")
	m, err := lm.New(p, c, lm.Options{Part: part, Values: true})
	if err != nil {
		return nil, err
	}
	return &TextCritic{m}, m.Alloc(alloc)
}

// TextCriticPPO trains a critic, either as a part of a TextPPO or on its own replicas. If the critic has its own
// replicas, it sends its values to the policy in batches (TextSetup.Values). Policy and critic can then train at the
// same time. The results are those of a TextPPO with a critic, if policy and critic have the same number of replicas,
// and if replica i of both gets the same texts.
//
// Values computes the values of a batch. Prepare and Update work as in TextPPO. The metrics are the metrics of TextPPO
// whose names begin with critic/.
type TextCriticPPO struct {
	*textTraining // shared with the TextPPO, if there is one
	pass          *textPass
	train         *trainState
	batch         *TextBatch // the batch of the present update
	now           *textMinibatch
	loss          func(first, end int, o *lm.Outputs) // setLoss; set once, because each method value allocates
}

// NewTextCriticPPO makes a TextCriticPPO for s.Critic, whose weights must be set. s.Model may be nil.
func NewTextCriticPPO(s TextSetup) (*TextCriticPPO, error) {
	c, err := composeTextCritic(&s)
	if err != nil {
		return nil, fmt.Errorf("critic of texts: %w", err)
	}
	return c, nil
}

func composeTextCritic(s *TextSetup) (*TextCriticPPO, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Critic == nil {
		return nil, errors.New("expected a critic")
	}
	if ratio := s.Text.EarlyStopImpRatio; ratio != 0 {
		return nil, fmt.Errorf("algorithm.early_stop_imp_ratio: %v: expected 0: this critic knows no ratio", ratio)
	}
	common := s.common()
	return s.newCritic(common, s.newTraining(common))
}

func (s *TextSetup) newCritic(common *Setup, t *textTraining) (*TextCriticPPO, error) {
	m := s.Critic.Model
	if len(m.Params.Data) == 0 {
		return nil, errors.New("the critic has nothing to train")
	}
	work := m.NewRecomputing(s.MicroBatch.Tokens, s.Recompute)
	pass := newTextPass(m, work, s.MicroBatch, s.Threads, s.Mesh, lm.Head{Values: true})
	train, err := common.newTextTrainState(m, pass.work, s.CriticOptim)
	c := &TextCriticPPO{textTraining: t, pass: pass, train: train}
	c.loss = c.setLoss
	return c, err
}

// Values appends the critic's values to dst, one text after the other. A text has one value before each token that
// Learn marks.
func (c *TextCriticPPO) Values(dst []float32, texts []Sequence) ([]float32, error) {
	c.train.upload()
	err := c.pass.infer(texts, c.pass.head, func(_, _ int, o *lm.Outputs) { dst = append(dst, o.Value...) })
	return dst, err
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

// Update trains on the batch of the last Prepare. If it returns an error, the parameters keep the state after the last
// successful step.
func (c *TextCriticPPO) Update(b *TextBatch) (Metrics, error) {
	if err := c.take(b); err != nil {
		return Metrics{}, err
	}
	c.train.meanNorm() // discard the norms of an update that failed
	c.train.transfer((*nn.Params[float32]).Upload)
	defer c.train.transfer((*nn.Params[float32]).Download)
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
	c.train.open()
	if err := c.accumulate(b, m, c.train.readyAt(true)); err != nil {
		return err
	}
	return c.step(iteration)
}

// accumulate adds the gradient of a minibatch on this replica. If ready is not nil, the caller must have called
// trainState.begin.
func (c *TextCriticPPO) accumulate(b *TextBatch, m *textMinibatch, ready func(lo, hi int)) error {
	c.batch, c.now = b, m
	if err := c.pass.train(m.texts, m.rows, c.loss, ready); err != nil {
		return err
	}
	c.pass.model.FinishGradients(c.pass.work)
	return nil
}

// setLoss sets the derivatives of the loss of a micro-batch, whose texts are [first, end) of the minibatch.
func (c *TextCriticPPO) setLoss(first, end int, o *lm.Outputs) {
	at := 0
	for _, k := range c.now.index[first:end] {
		lo, hi := c.batch.tokens(k)
		from := at
		at += hi - lo
		v := ValueLoss(o.DValue[from:at], o.Value[from:at], c.batch.Value[lo:hi], c.batch.Ret[lo:hi], c.weights[lo:hi],
			c.cfg.ValueClip, c.cfg.HuberDelta, c.cfg.ValueLossCoef*c.now.perToken)
		c.sums.addValues(&v)
	}
}

// step sums the gradient over the replicas and updates the parameters.
func (c *TextCriticPPO) step(iteration int) error {
	if err := c.train.step(iteration); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return nil
}

// addMetrics adds the critic's metrics, from the reduced sums of an update.
func (c *TextCriticPPO) addMetrics(m *Metrics, iteration int) {
	_, lr := c.train.adam.LR(iteration)
	m.add("critic/value_loss", c.sums.mean(valueLoss))
	m.add("critic/value_clip_ratio", c.sums.mean(valueClipRatio))
	m.add("critic/explained_variance", c.sums.explainedVariance())
	m.add("critic/lr", lr)
	m.add("critic/grad_norm", c.train.meanNorm())
}

// Close ends the threads.
func (c *TextCriticPPO) Close() { c.pass.Close() }

// Save returns views of the critic and its optimiser, which are the same on all replicas. They have the names that
// TextPPO.Save gives them. To restore the critic, copy saved values into these views and into Counters.
func (c *TextCriticPPO) Save() (d tensor.Dict) {
	c.train.save(&d, "critic", true)
	return d
}

// Counters returns a view of the counters, which TextPPO.Save also returns, under the name counters.
func (c *TextCriticPPO) Counters() tensor.Tensor { return c.counters }
