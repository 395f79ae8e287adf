package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// IQL is implicit Q-learning, Kostrikov et al. 2022, arXiv:2110.06169: from demonstrations of any
// quality it learns to do what the better of them did, and never asks what an action is worth that
// none of them took. Update makes update_epoch updates, each on a batch of Setup.Demos:
//
//  1. the values V(s) by expectile regression on the least of Q'(s, a): nearly the
//     best that was done there                                                        ExpectileLoss
//  2. the policy by the error of its most likely action, weighted by how much better
//     than V the action was; that is their likelihood under a normal distribution of
//     fixed deviation                                                                 AdvantageWeights, ActionLoss
//  3. the critics Q against Σ γⁱ r + γᵏ V(s'), squared error                          QLoss
//  4. every target_update_freq updates Q' ← Q' + τ (Q - Q')                           follow
//
// Metrics, over all replicas and updates of an iteration: iql/value_loss, iql/actor_loss,
// iql/critic_loss; critic/q_data = mean estimate of what was done, critic/value = of where;
// actor/weight = mean weight; critic/lr, critic/grad_norm, actor/lr, actor/grad_norm;
// demo_buffer/size.
type IQL struct {
	*offPolicy
	policy                     SoftPolicy
	critic, target, value      *policy.Critic
	actorOpt, qOpt, vOpt       *trainState
	work                       policy.Work
	qWork, targetWork, vWork   *policy.CriticWork
	heads                      []int
	half                       []float32 // widths of the actions' box
	least, y, weight           []float32 // [micro]
	dQ, dV, dAction            tensor.Tensor
	sums, values               []float64
	valueStep, actorStep, step func(b *Transitions, lo int, last bool) error
}

var _ Algorithm = (*IQL)(nil)

// What IQL sums over an iteration.
const (
	iqlValueLoss = iota
	iqlActorLoss
	iqlCriticLoss
	iqlQData
	iqlValue
	iqlWeight
	iqlSamples
	numIQLSums
)

var iqlMetrics = []string{
	"iql/value_loss", "iql/actor_loss", "iql/critic_loss", "critic/q_data", "critic/value", "actor/weight", "critic/lr",
	"critic/grad_norm", "actor/lr",
	"actor/grad_norm", "demo_buffer/size",
}

// fitsIQL says why pol cannot be trained by IQL.
func fitsIQL(pol policy.Policy) error {
	if p, ok := pol.(SoftPolicy); !ok || p.QHeadType() != policy.QHeadDefault {
		return errors.New("a policy with add_q_head, with continuous actions, and q_head_type default")
	}
	return nil
}

// NewIQL makes IQL.
func NewIQL(s Setup) (*IQL, error) {
	a, err := newIQL(&s)
	if err != nil {
		return nil, fmt.Errorf("iql: %w", err)
	}
	return a, nil
}

func newIQL(s *Setup) (*IQL, error) {
	if err := fitsIQL(s.Policy); err != nil {
		return nil, fmt.Errorf("policy %T: expected %w", s.Policy, err)
	}
	pol := s.Policy.(SoftPolicy)
	r, err := newOffline("iql", s, s.Demos)
	if err != nil {
		return nil, err
	}
	a := &IQL{offPolicy: r, policy: pol, sums: make([]float64, numIQLSums), values: make([]float64, len(iqlMetrics))}
	seeds := s.seeds()
	criticSeed, valueSeed := seeds.Uint64(), seeds.Uint64()
	for _, c := range []**policy.Critic{&a.critic, &a.target} {
		if *c, err = pol.NewCritic(criticSeed, s.Alloc); err != nil {
			return nil, err
		}
	}
	if a.value, err = pol.NewValue(valueSeed, s.Alloc); err != nil {
		return nil, err
	}
	if a.actorOpt, err = s.newTrainState(pol.Params(), s.Optim); err != nil {
		return nil, err
	}
	if a.qOpt, err = s.newTrainState(a.critic.Params(), s.CriticOptim); err != nil {
		return nil, err
	}
	if a.vOpt, err = s.newTrainState(a.value.Params(), s.CriticOptim); err != nil {
		return nil, err
	}
	a.work = pol.NewWork(a.micro)
	a.qWork, a.targetWork, a.vWork = a.critic.NewWork(a.micro), a.target.NewWork(a.micro), a.value.NewWork(a.micro)
	for h := range a.critic.Heads() {
		a.heads = append(a.heads, h)
	}
	_, space := pol.Spaces()
	a.half = halfWidths(space.Low, space.High)
	a.least, a.y, a.weight = make([]float32, a.micro), make([]float32, a.micro), make([]float32, a.micro)
	a.dQ, a.dV, a.dAction = tensor.New(tensor.F32, len(a.heads), a.micro), tensor.New(tensor.F32, 1, a.micro),
		tensor.New(tensor.F32, a.batch.Action.Shape()...)
	a.valueStep, a.actorStep, a.step, a.state = a.addValue, a.addActor, a.addCritic, a.views
	return a, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *IQL) Update(tensor.Dict) (Metrics, error) {
	clear(a.sums)
	iteration, err := a.iterate(a.sums, a.update)
	if err != nil {
		return Metrics{}, err
	}
	for i := range iqlSamples {
		a.values[i] = a.sums[i] / a.sums[iqlSamples]
	}
	_, qLR := a.qOpt.adam.LR(iteration)
	lr, _ := a.actorOpt.adam.LR(iteration)
	copy(a.values[iqlSamples:], []float64{qLR, a.qOpt.meanNorm(), lr, a.actorOpt.meanNorm(), float64(a.Size())})
	return Metrics{Names: iqlMetrics, Values: a.values}, nil
}

// update makes one update of values, policy and critics, each with what the one before has become.
func (a *IQL) update(iteration, _ int, number uint64) error {
	if err := a.descend(a.vOpt, iteration, a.valueStep); err != nil {
		return err
	}
	if err := a.descend(a.actorOpt, iteration, a.actorStep); err != nil {
		return err
	}
	if err := a.descend(a.qOpt, iteration, a.step); err != nil {
		return err
	}
	if number%uint64(a.off.TargetUpdateFreq) == 0 {
		follow(a.target.Params().Data, a.critic.Params().Data, a.off.Tau)
	}
	return nil
}

// judge returns V(s), and sets least to the least of Q'(s, a).
func (a *IQL) judge(b *Transitions) (v []float32, err error) {
	q, err := a.target.Q(a.targetWork, b.Obs, b.Action)
	if err != nil {
		return nil, err
	}
	AggregateQ(a.least, q.F32(), a.heads, AggMin)
	values, err := a.value.Q(a.vWork, b.Obs, tensor.Tensor{})
	return values.F32(), err
}

// addValue adds the values' gradient on a micro-batch.
func (a *IQL) addValue(b *Transitions, _ int, last bool) error {
	v, err := a.judge(b)
	if err != nil {
		return err
	}
	a.sums[iqlValueLoss] += ExpectileLoss(a.dV.F32(), v, a.least, a.off.Expectile, a.perSample)
	a.sums[iqlSamples] += float64(a.micro)
	a.value.Backward(a.vWork, a.dV, a.vOpt.readyAt(last))
	return nil
}

// addActor adds the policy's gradient on a micro-batch.
func (a *IQL) addActor(b *Transitions, _ int, last bool) error {
	v, err := a.judge(b)
	if err != nil {
		return err
	}
	a.sums[iqlWeight] += AdvantageWeights(a.weight, a.least, v, a.off.Temperature)
	act, err := a.policy.Forward(a.work, b.Obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		return err
	}
	a.sums[iqlActorLoss] += ActionLoss(a.dAction.F32(), act.Action.F32(), b.Action.F32(), a.half, a.weight, a.perSample)
	return a.policy.Backward(a.work, policy.Grad{Action: a.dAction}, a.actorOpt.readyAt(last))
}

// addCritic adds the critics' gradient on a micro-batch.
func (a *IQL) addCritic(b *Transitions, _ int, last bool) error {
	next, err := a.value.Q(a.vWork, b.Next, tensor.Tensor{})
	if err != nil {
		return err
	}
	SoftTargets(a.y, b.Reward, b.Discount, next.F32(), next.F32(), 0)
	for _, v := range next.F32() {
		a.sums[iqlValue] += float64(v)
	}
	q, err := a.critic.Q(a.qWork, b.Obs, b.Action)
	if err != nil {
		return err
	}
	squares, estimates := QLoss(a.dQ.F32(), q.F32(), a.y, a.perSample)
	a.sums[iqlCriticLoss] += squares
	a.sums[iqlQData] += estimates
	a.critic.Backward(a.qWork, a.dQ, a.qOpt.readyAt(last))
	return nil
}

// views returns views of counters, optimisers, critics and targets.
func (a *IQL) views() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", a.counters)
	a.actorOpt.save(&d, "actor", false)
	a.qOpt.save(&d, "critic", true)
	a.vOpt.save(&d, "value", true)
	saveParams(&d, "target", a.target.Params())
	return d
}
