package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// CrossQ is SAC without target networks, Bhatt et al. 2024, arXiv:1902.05605. The layers of its
// critics normalise their inputs, and one batch holds the transitions' states and the next ones.
// Estimates of both then come from the same distribution, and need no network that lags behind.
//
//  1. one pass of the critics over (s, a) and (s', a')               Critic.JointQ
//  2. targets from the second half, which counts as given            setTargets
//  3. the critics against them in the first half, squared error      QLoss
//  4. running statistics, for the actor's gradient, a step towards
//     those of the batches of all replicas                           followBatches, followActor
//
// The actor normalises too, by the batch where it is trained and by its running statistics where it
// chooses, as that of the paper's authors does. Its loss, the temperature and the metrics are
// SAC's. Each replica normalises by its own micro-batches.
type CrossQ struct {
	*softActorCritic
	jointWork   *policy.CriticWork
	q, after    []float32     // [H,micro]: the two halves of the estimates
	dJoint      tensor.Tensor // [H,2·micro]
	criticStats []float64     // sums over batches
	actorStats  []float64
}

// fitsCrossQ says why pol cannot be trained by CrossQ.
func fitsCrossQ(pol policy.Policy) error {
	if p, ok := pol.(SoftPolicy); !ok || p.Noisy() || p.QHeadType() != policy.QHeadCrossQ {
		return errors.New("a policy with add_q_head, with continuous actions, q_head_type crossq and no " +
			"exploration_noise")
	}
	return nil
}

// NewCrossQ makes CrossQ.
func NewCrossQ(s Setup) (*CrossQ, error) {
	core, _, err := newSoftActorCritic("crossq", &s, fitsCrossQ)
	if err != nil {
		return nil, fmt.Errorf("crossq: %w", err)
	}
	heads, micro := core.critic.Heads(), core.micro
	c := &CrossQ{
		softActorCritic: core, jointWork: core.critic.NewWork(2 * micro),
		q: make([]float32, heads*micro), after: make([]float32, heads*micro),
		dJoint:      tensor.New(tensor.F32, heads, 2*micro),
		criticStats: make([]float64, core.critic.StatsLen()), actorStats: make([]float64, core.policy.StatsLen()),
	}
	c.criticStep, c.state = c.addCritic, c.views
	return c, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (c *CrossQ) Update(tensor.Dict) (Metrics, error) { return c.learn(c.update) }

// update makes one update of the critics, and where it is due of actor and temperature, each
// followed by its running statistics.
func (c *CrossQ) update(iteration, held int, number uint64) error {
	if err := c.updateCritics(iteration, number); err != nil {
		return err
	}
	if err := c.followBatches(); err != nil {
		return err
	}
	if !c.actorDue(held, number) {
		return nil
	}
	logProbs, err := c.updateActor(iteration)
	if err != nil {
		return err
	}
	if err := c.followActor(); err != nil {
		return err
	}
	return c.updateAlpha(iteration, logProbs)
}

// addCritic adds the critics' gradient on a micro-batch.
func (c *CrossQ) addCritic(b *Transitions, lo int, last bool) error {
	act, err := c.policy.Forward(c.work, b.Next, policy.Sample, c.noiseOf(lo, 2*c.number))
	if err != nil {
		return err
	}
	both, err := c.critic.JointQ(c.jointWork, b.Obs, b.Action, b.Next, act.Action)
	if err != nil {
		return err
	}
	m := c.micro
	for h := range c.critic.Heads() {
		row := both.F32()[2*m*h : 2*m*(h+1)]
		copy(c.q[m*h:], row[:m])
		copy(c.after[m*h:m*(h+1)], row[m:])
	}
	c.setTargets(b, c.after, act.LogProb.F32())
	squares, estimates := QLoss(c.dQ.F32(), c.q, c.y, c.perSample)
	c.sums[sacCriticLoss] += squares
	c.sums[sacQData] += estimates
	c.sums[sacSamples] += float64(m)
	for h := range c.critic.Heads() {
		copy(c.dJoint.F32()[2*m*h:], c.dQ.F32()[m*h:m*(h+1)]) // the second half counts as given: it stays 0
	}
	c.critic.Backward(c.jointWork, c.dJoint, c.qOpt.readyAt(last))
	return nil
}

// followBatches moves the critics' running statistics towards those of this update's batches, on
// all replicas; followActor the actor's.
func (c *CrossQ) followBatches() error {
	clear(c.criticStats)
	c.critic.AddStats(c.criticStats, c.jointWork)
	return c.merge(c.criticStats, c.critic.MergeStats)
}

func (c *CrossQ) followActor() error {
	clear(c.actorStats)
	c.policy.AddStats(c.actorStats, c.work)
	return c.merge(c.actorStats, c.policy.MergeStats)
}

func (c *CrossQ) merge(stats []float64, into func([]float64)) error {
	if err := c.replicas.Sum(stats); err != nil {
		return fmt.Errorf("statistics of batches: %w", err)
	}
	into(stats)
	return nil
}

// views returns views of counters, optimisers, critics and temperature.
func (c *CrossQ) views() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", c.counters)
	c.actorOpt.save(&d, "actor", false)
	c.qOpt.save(&d, "critic", true)
	c.temperature.train.save(&d, "alpha", true)
	return d
}
