package algo

import (
	"errors"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// IQL is implicit Q-learning, Kostrikov et al. 2022, arXiv:2110.06169. From good and bad demonstrations, the policy
// learns to act like the better ones. IQL estimates values only for actions in demonstrations. Update makes
// update_epoch updates, each on a batch of Setup.Demos:
//
//  1. V(s) by expectile regression on min Q'(s, a): nearly the value of the best
//     action that demonstrations take in s                                            ExpectileLoss
//  2. the policy by the squared error of its most likely action, with the weight
//     exp(β (min Q'(s, a) - V(s))); this is the likelihood loss of a normal
//     distribution with a fixed deviation                                             AdvantageWeights, ActionLoss
//  3. the critics Q by their squared error against Σ γⁱ r + γᵏ V(s')                  QLoss
//  4. Q' ← Q' + τ (Q - Q') every target_update_freq updates                           follow
//
// Metrics, over all replicas and updates of an iteration: iql/value_loss, iql/actor_loss, iql/critic_loss;
// critic/q_data = mean estimate of the actions taken, critic/value = mean value of the states; actor/weight = mean
// weight; critic/lr, critic/grad_norm, actor/lr, actor/grad_norm; demo_buffer/size.
type IQL struct {
	*offPolicy
	actor         *actor
	critics       *critics  // networks of Q
	values        *critics  // network of V
	half          []float32 // for ActionLoss, see halfWidths
	least, weight []float32 // [micro]: min Q'(s, a) and AdvantageWeights
}

var _ Algorithm = (*IQL)(nil)

// Indices of IQL's means over an iteration.
const (
	iqlValueLoss = firstMean + iota
	iqlActorLoss
	iqlCriticLoss
	iqlQData
	iqlValue
	iqlWeight
	numIQLMeans
)

func fitsIQL(pol policy.Policy) error {
	if p, ok := pol.(*policy.SoftActor); !ok || p.QHeadType() != policy.QHeadDefault {
		return errors.New("a policy with add_q_head, with continuous actions, and q_head_type default")
	}
	return nil
}

// NewIQL makes IQL.
func NewIQL(s Setup) (*IQL, error) { return newChecked("iql", s, fitsIQL, newIQL) }

// iqlKeys declares the keys of NewIQL.
func iqlKeys(s *Setup, k *Keys) {
	replayKeys(k, true)
	returnKeys(k)
	criticKeys(s, k)
	k.Read("tau", "target_update_freq", "target_update_type", "expectile", "temperature")
}

func newIQL(s *Setup) (*IQL, error) {
	e, err := newOffPolicy(s, "iql", true, numIQLMeans)
	if err != nil {
		return nil, err
	}
	a := &IQL{offPolicy: e, half: halfWidths(s.Policy),
		least: make([]float32, e.micro), weight: make([]float32, e.micro)}
	if a.actor, err = newActor(s, e.batch); err != nil {
		return nil, err
	}
	pol, seeds := a.actor.policy, s.seeds()
	criticSeed, valueSeed := seeds.Uint64(), seeds.Uint64()
	if a.critics, err = newCritics(s, a.micro, pol.NewCritic, criticSeed, true); err != nil {
		return nil, err
	}
	if a.values, err = newCritics(s, a.micro, pol.NewValue, valueSeed, false); err != nil {
		return nil, err
	}
	if err := e.encode(s, pol, a.critics); err != nil {
		return nil, err
	}
	a.actor.train.save(&a.state, "actor", false)
	a.critics.train.save(&a.state, "critic", true)
	a.values.train.save(&a.state, "value", true)
	saveParams(&a.state, "target", a.critics.target.Params())
	return a, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *IQL) Update(tensor.Dict) (Metrics, error) {
	if err := a.iterate(a.update); err != nil {
		return Metrics{}, err
	}
	a.reportMean("iql/value_loss", iqlValueLoss)
	a.reportMean("iql/actor_loss", iqlActorLoss)
	a.reportMean("iql/critic_loss", iqlCriticLoss)
	a.reportMean("critic/q_data", iqlQData)
	a.reportMean("critic/value", iqlValue)
	a.reportMean("actor/weight", iqlWeight)
	a.reportCritic(a.critics.train)
	a.reportActor(a.actor.train)
	a.metrics.add("demo_buffer/size", float64(a.replay.Size()))
	return a.metrics, nil
}

// update makes one optimiser step of the values, then of the policy, then of the critics. Each step uses the results of
// the steps before it.
func (a *IQL) update() error {
	if err := a.descend(a.values.train, a.addValue); err != nil {
		return err
	}
	if err := a.descend(a.actor.train, a.addActor); err != nil {
		return err
	}
	if err := a.descend(a.critics.train, a.addCritic); err != nil {
		return err
	}
	if a.due(a.off.TargetUpdateFreq) {
		a.critics.follow(a.off.Tau)
	}
	return nil
}

// addValue adds the gradient of the loss of V on a micro-batch.
func (a *IQL) addValue(b *Transitions, ready func(lo, hi int)) error {
	v, err := a.judge(b)
	if err != nil {
		return err
	}
	loss := ExpectileLoss(a.values.dQ.F32(), v, a.least, a.off.Expectile, a.perSample)
	a.sums.add(iqlValueLoss, loss, float64(a.micro))
	a.values.net.Backward(a.values.work, a.values.dQ, nil, ready)
	return nil
}

// judge returns V(s) for the transitions b. It also sets a.least to the minimum of the target critics' Q'(s, a).
func (a *IQL) judge(b *Transitions) (v []float32, err error) {
	obs, err := a.features.ofTargetObs(b)
	if err != nil {
		return nil, err
	}
	q, err := a.critics.target.Q(a.critics.targetWork, obs, b.Action)
	if err != nil {
		return nil, err
	}
	AggregateQ(a.least, q.F32(), a.critics.heads, AggMin)
	if obs, err = a.features.ofObs(b); err != nil {
		return nil, err
	}
	return a.valuesOf(obs)
}

// valuesOf returns V(s) for the observations or features obs.
func (a *IQL) valuesOf(obs tensor.Dict) ([]float32, error) {
	v, err := a.values.net.Q(a.values.work, obs, tensor.Tensor{})
	return v.F32(), err
}

// addActor adds the gradient of the policy's loss on a micro-batch.
func (a *IQL) addActor(b *Transitions, ready func(lo, hi int)) error {
	v, err := a.judge(b)
	if err != nil {
		return err
	}
	for _, x := range v {
		a.sums.add(iqlValue, float64(x), 1)
	}
	a.sums.add(iqlWeight, AdvantageWeights(a.weight, a.least, v, a.off.Temperature), float64(a.micro))
	obs, err := a.features.ofObs(b)
	if err != nil {
		return err
	}
	act, err := a.actor.policy.Forward(a.actor.work, obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		return err
	}
	dAction := a.actor.dAction
	loss := ActionLoss(dAction.F32(), act.Action.F32(), b.Action.F32(), a.half, a.weight, a.perSample)
	a.sums.add(iqlActorLoss, loss, float64(a.micro))
	return a.actor.policy.Backward(a.actor.work, policy.Grad{Action: dAction}, ready)
}

// addCritic adds the gradient of the critics' loss on a micro-batch.
func (a *IQL) addCritic(b *Transitions, ready func(lo, hi int)) error {
	obs, err := a.features.ofNext(b)
	if err != nil {
		return err
	}
	next, err := a.valuesOf(obs)
	if err != nil {
		return err
	}
	SoftTargets(a.critics.y, b.Reward, b.Discount, next, next, 0)
	squares, estimates, err := a.critics.learn(b, a.perSample, ready)
	a.sums.add(iqlCriticLoss, squares, float64(a.micro))
	a.sums.add(iqlQData, estimates, float64(a.micro))
	return err
}
