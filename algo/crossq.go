package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A joint is what CrossQ, Bhatt et al. 2024, arXiv:1902.05605, has in place of SAC's target
// networks: critics whose layers normalise their inputs, and see what was done and what follows in
// one batch. Estimates of both then come from the same distribution, and need no network that lags
// behind.
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
type joint struct {
	work    *policy.CriticWork
	q, next []float32     // [H,micro]: the two halves of the estimates
	dQ      tensor.Tensor // [H,2·micro]
	stats   []float64     // sums over batches: of the critics
	actor   []float64     // of the actor
}

func newJoint(p SoftPolicy, c *policy.Critic, micro int) *joint {
	n := c.Heads() * micro
	return &joint{
		work: c.NewWork(2 * micro), q: make([]float32, n), next: make([]float32, n),
		dQ:    tensor.New(tensor.F32, c.Heads(), 2*micro),
		stats: make([]float64, c.StatsLen()), actor: make([]float64, p.StatsLen()),
	}
}

// fitsCrossQ says why pol cannot be trained by CrossQ.
func fitsCrossQ(pol policy.Policy) error {
	if p, ok := pol.(SoftPolicy); !ok || p.Noisy() || p.QHeadType() != policy.QHeadCrossQ {
		return errors.New("a policy with add_q_head, whose actions are in a box, q_head_type crossq and no " +
			"exploration_noise")
	}
	return nil
}

// NewCrossQ makes SAC with normalised critics and without target networks.
func NewCrossQ(s Setup) (*SAC, error) {
	a, err := newSAC(&s, fitsCrossQ)
	if err != nil {
		return nil, fmt.Errorf("crossq: %w", err)
	}
	return a, nil
}

// addJointCritic is addCritic for CrossQ.
func (a *SAC) addJointCritic(b *Transitions, lo int, last bool) error {
	act, err := a.policy.Forward(a.work, b.Next, policy.Sample, a.noiseOf(lo, 2*a.number))
	if err != nil {
		return err
	}
	j := a.joint
	both, err := a.critic.JointQ(j.work, b.Obs, b.Action, b.Next, act.Action)
	if err != nil {
		return err
	}
	m := a.micro
	for h := range a.critic.Heads() {
		row := both.F32()[2*m*h : 2*m*(h+1)]
		copy(j.q[m*h:], row[:m])
		copy(j.next[m*h:m*(h+1)], row[m:])
	}
	a.setTargets(b, j.next, act.LogProb.F32())
	squares, estimates := QLoss(a.dQ.F32(), j.q, a.y, a.perSample)
	a.sums[sacCriticLoss] += squares
	a.sums[sacQData] += estimates
	a.sums[sacSamples] += float64(m)
	for h := range a.critic.Heads() {
		copy(j.dQ.F32()[2*m*h:], a.dQ.F32()[m*h:m*(h+1)]) // what follows counts as given: its half stays 0
	}
	a.critic.Backward(j.work, j.dQ, a.qOpt.readyAt(last))
	return nil
}

// followBatches moves the critics' running statistics towards those of this update's batches, on
// all replicas; followActor the actor's.
func (a *SAC) followBatches() error {
	clear(a.joint.stats)
	a.critic.AddStats(a.joint.stats, a.joint.work)
	return a.merge(a.joint.stats, a.critic.MergeStats)
}

func (a *SAC) followActor() error {
	clear(a.joint.actor)
	a.policy.AddStats(a.joint.actor, a.work)
	return a.merge(a.joint.actor, a.policy.MergeStats)
}

func (a *SAC) merge(stats []float64, into func([]float64)) error {
	if err := a.replicas.Sum(stats); err != nil {
		return fmt.Errorf("statistics of batches: %w", err)
	}
	into(stats)
	return nil
}
