package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// CrossQ is SAC without target networks, Bhatt et al. 2024, arXiv:1902.05605. The layers of its critics normalise
// their inputs, and one batch holds the states and the next states of the transitions. So all inputs of the critics
// have one distribution, and training is stable without a target network.
//
//  1. one pass of the critics over (s, a) and (s', a')               Critic.JointQ
//  2. targets from the estimates of (s', a'), without a gradient     setTargets
//  3. squared error of the estimates of (s, a)                       QLoss
//  4. running statistics updated with the batches of all replicas    merge
//
// As in the authors' code, the actor also normalises its inputs: by the batch in training, and by its running
// statistics when it chooses actions. The actor's gradient uses the critics' running statistics. The actor's loss, the
// temperature and the metrics are those of SAC. Each replica normalises by its own micro-batches. An encoder of images
// learns from the states, not from the next states.
type CrossQ struct {
	*SAC
	jointWork   *policy.CriticWork
	q, after    []float32     // [H,micro]: estimates of (s, a) and of (s', a')
	dJoint      tensor.Tensor // [H,2·micro]
	criticStats []float64     // statistics of batches, see policy.Critic.AddStats
	actorStats  []float64
}

var _ Algorithm = (*CrossQ)(nil)

func fitsCrossQ(pol policy.Policy) error {
	if p, ok := pol.(*policy.SoftActor); !ok || p.Noisy() || p.QHeadType() != policy.QHeadCrossQ {
		return errors.New("a policy with add_q_head, with continuous actions, q_head_type crossq and no " +
			"exploration_noise")
	}
	return nil
}

// NewCrossQ makes CrossQ.
func NewCrossQ(s Setup) (*CrossQ, error) { return newChecked("crossq", s, fitsCrossQ, newCrossQ) }

// crossQKeys declares the keys of NewCrossQ: those of SAC without those of the target network.
func crossQKeys(s *Setup, k *Keys) {
	replayKeys(k, false)
	hindsightKeys(s, k)
	returnKeys(k)
	actorKeys(k)
	tuning := &s.Config.OffPolicy.EntropyTuning
	criticKeys(s, k, &tuning.Optim)
	temperatureKeys(k, tuning)
	k.Read("agg_q", "actor_agg_q", "critic_subsample_size", "backup_entropy", "actor.model.init_log_std")
}

func newCrossQ(s *Setup) (*CrossQ, error) {
	a, err := newSAC(s, "crossq", false)
	if err != nil {
		return nil, err
	}
	net := a.critics.net
	heads, micro := net.Heads(), a.micro
	return &CrossQ{
		SAC: a, jointWork: net.NewWork(2 * micro),
		q: make([]float32, heads*micro), after: make([]float32, heads*micro),
		dJoint:      tensor.New(tensor.F32, heads, 2*micro),
		criticStats: make([]float64, net.StatsLen()), actorStats: make([]float64, a.actor.policy.StatsLen()),
	}, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (c *CrossQ) Update(tensor.Dict) (Metrics, error) { return c.train(c.update) }

// update updates the critics and, when they are due, the actor and the temperature. Each step of a network is followed
// by an update of its running statistics.
func (c *CrossQ) update() error {
	c.drawSubset()
	if err := c.descend(c.critics.train, c.addCritic); err != nil {
		return err
	}
	clear(c.criticStats)
	c.critics.net.AddStats(c.criticStats, c.jointWork)
	if err := c.merge(c.criticStats, c.critics.net.MergeStats); err != nil {
		return err
	}
	if !c.actorDue() {
		return nil
	}
	if err := c.updateActor(); err != nil {
		return err
	}
	clear(c.actorStats)
	c.actor.policy.AddStats(c.actorStats, c.actor.work)
	return c.merge(c.actorStats, c.actor.policy.MergeStats)
}

// addCritic adds the gradient of the critics' loss on a micro-batch.
func (c *CrossQ) addCritic(b *Transitions, ready func(lo, hi int)) error {
	act, err := c.nextActions(b)
	if err != nil {
		return err
	}
	obs, err := c.features.ofObs(b)
	if err != nil {
		return err
	}
	next, err := c.features.ofNext(b)
	if err != nil {
		return err
	}
	both, err := c.critics.net.JointQ(c.jointWork, obs, b.Action, next, act.Action)
	if err != nil {
		return err
	}
	m := c.micro
	for h := range c.critics.net.Heads() {
		row := both.F32()[2*m*h : 2*m*(h+1)]
		copy(c.q[m*h:], row[:m])
		copy(c.after[m*h:m*(h+1)], row[m:])
	}
	c.setTargets(b, c.after, act.LogProb.F32())
	dQ := c.critics.dQ.F32()
	squares, estimates := QLoss(dQ, c.q, c.critics.y, c.perSample)
	c.sums.add(sacCriticLoss, squares, float64(m))
	c.sums.add(sacQData, estimates, float64(m))
	for h := range c.critics.net.Heads() {
		copy(c.dJoint.F32()[2*m*h:], dQ[m*h:m*(h+1)]) // the gradient of the estimates of (s', a') stays 0
	}
	c.critics.net.Backward(c.jointWork, c.dJoint, c.features.gradientOf(2*m), ready)
	return c.features.backward(b)
}

// merge sums the batch statistics over all replicas. Then it calls update with the sums, to update the running
// statistics.
func (c *CrossQ) merge(stats []float64, update func([]float64)) error {
	if err := c.replicas.Sum(stats); err != nil {
		return fmt.Errorf("statistics of batches: %w", err)
	}
	update(stats)
	return nil
}
