package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// BC is behaviour cloning: the policy learns to act as in demonstrations (Pomerleau 1991,
// doi:10.1162/neco.1991.3.1.88). NewBC sets the policy's observation statistics. Update makes update_epoch
// updates, each on a batch of demonstrations, and then validates the policy:
//
//  1. the loss -log π(a|s), or with add_q_head the squared error of the policy's
//     most likely action, because a squashed distribution gives no likelihood to
//     actions at the bounds of the box                                              LikelihoodLoss, ActionLoss
//  2. the loss of predictions of later observations, in the same update             policy.Foreseer
//  3. the loss of the episodes that demo_buffer.validation_share sets aside         validate
//
// The policy's critic does not learn. An algorithm that explores can begin with the weights of BC (runner.ckpt_path).
// With actor.model.learn_std false, that algorithm keeps the standard deviations of the policy.
//
// Metrics, over all replicas and updates of an iteration: bc/loss; bc/val_loss, None if nothing was set aside;
// actor/lr, actor/grad_norm; demo_buffer/size = transitions learnt from.
type BC struct {
	*offPolicy
	policy    policy.Policy
	work      policy.Work
	train     *trainState
	half      []float32        // for ActionLoss, see halfWidths; nil with LikelihoodLoss
	dAction   tensor.Tensor    // [micro,C,A], for ActionLoss
	dLogProb  tensor.Tensor    // [micro,L], for LikelihoodLoss; made for the first batch
	augmenter policy.Augmenter // nil if the policy always sees whole images
	noise     policy.Noise     // of a micro-batch, for augmenter
	aside     *Replay          // demonstrations set aside for validation; nil if there are none
}

var _ Algorithm = (*BC)(nil)

// Indices of BC's means over an iteration.
const (
	bcLoss = firstMean + iota
	numBCMeans
)

func fitsBC(pol policy.Policy) error {
	if _, ok := pol.(*policy.Greedy); ok {
		return errors.New("a policy with add_q_head false (for discrete actions)")
	}
	if p, ok := pol.(interface{ Squashes() bool }); ok && p.Squashes() {
		return errors.New("action_bound clip (demonstrations hold what environments took)")
	}
	if policy.HiddenLen(pol) > 0 {
		return errors.New("a policy without a hidden state (demonstrations are single steps)")
	}
	return nil
}

// NewBC makes a BC that learns from Setup.Demos. It sets the policy's observation statistics to the statistics of the
// demonstrations.
func NewBC(s Setup) (*BC, error) { return newChecked("bc", s, fitsBC, newBC) }

// bcKeys declares the keys of NewBC.
func bcKeys(s *Setup, k *Keys) {
	clonerKeys(s, k, true)
	k.Read("demo_buffer.validation_share")
}

func newBC(s *Setup) (*BC, error) {
	if s.Demos.Len() == 0 {
		return nil, errors.New("no demonstrations: expected some")
	}
	s.Rollout = withoutNext(s.Rollout)
	if f, ok := s.Policy.(policy.Foreseer); ok && len(f.Foresees()) > 0 {
		goal := goals(s.Demos, f.Foresees())
		s.Demos = s.Demos.Slice(0, goal.Dim(0)) // makes a new Dict, so that the caller's Dict gets no goals
		s.Demos.Set(goalName, goal)
		s.Rollout = append(s.Rollout, tensor.Field{Name: goalName, DType: tensor.F32, Shape: []int{1, 1, goal.Dim(1)}})
	}
	learnt, aside := SplitDemos(s.Demos, s.Config.OffPolicy.Demos.ValidationShare)
	s.Demos = learnt
	b, err := newCloner(s, "bc", true)
	if err != nil {
		return nil, err
	}
	if aside.Len() > 0 {
		if b.aside, err = newDemos(s.Rollout, aside, s.Pictures, s.Alloc); err != nil {
			return nil, err
		}
	}
	if o := observationStats(s.Policy); o != nil {
		sums := make([]float64, o.StatsLen())
		if err := b.addStats(sums, o, learnt.Sub(Observations), len(s.Pictures) > 0); err != nil {
			return nil, err
		}
		o.MergeStats(sums)
	}
	if f, ok := s.Policy.(policy.Fitter); ok {
		if err := f.Fit(learnt.Sub(Observations), learnt.Must(FieldAction)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// addStats adds the statistics of observations to sums. Encoded images are decoded, one micro-batch at a time.
func (b *BC) addStats(sums []float64, o ObservationStats, obs tensor.Dict, encoded bool) error {
	if !encoded {
		return o.AddStats(sums, obs)
	}
	return b.eachBatch(b.replay, func(batch *Transitions, _ int) error { return o.AddStats(sums, batch.Obs) })
}

// eachBatch calls handle for each micro-batch of a Replay's transitions, in order. end is the number of transitions up
// to the end of the micro-batch.
func (b *BC) eachBatch(r *Replay, handle func(batch *Transitions, end int) error) error {
	n := r.Size()
	for lo := 0; lo < n; lo += b.micro {
		hi := min(lo+b.micro, n)
		batch, numbers := b.batch.slice(0, hi-lo), b.rows[:hi-lo]
		for i := range numbers {
			numbers[i] = int32(lo + i)
		}
		if err := r.Gather(batch, numbers, 1, 1, false); err != nil {
			return err
		}
		if err := handle(batch, hi); err != nil {
			return err
		}
	}
	return nil
}

// newCloner makes a BC with the given name. The BC learns from demonstrations if offline is set, and otherwise from a
// replay buffer.
func newCloner(s *Setup, name string, offline bool) (*BC, error) {
	e, err := newOffPolicy(s, name, offline, numBCMeans)
	if err != nil {
		return nil, err
	}
	b := &BC{offPolicy: e, policy: s.Policy, work: s.Policy.NewWork(e.micro)}
	if _, ok := s.Policy.(*policy.SoftActor); ok {
		b.half, b.dAction = halfWidths(s.Policy), tensor.New(tensor.F32, e.batch.Action.Shape()...)
	}
	groups := s.Policy.Params().Groups
	for i := range groups {
		groups[i].Trainable = groups[i].Trainable && groups[i].Name != "critic"
	}
	if a, ok := s.Policy.(policy.Augmenter); ok {
		b.augmenter = a
		b.noise = policy.Noise{Seed: s.Seed, Env: make([]uint64, e.micro), Step: make([]uint64, e.micro)}
	}
	if b.train, err = s.newTrainState(s.Policy.Params(), s.Optim); err != nil {
		return nil, err
	}
	b.train.save(&b.state, "actor", false)
	return b, nil
}

// clonerKeys declares the keys of newCloner.
func clonerKeys(s *Setup, k *Keys, offline bool) {
	replayKeys(k, offline)
	k.ReadOptim("actor.optim", &s.Optim)
	k.Read("logprob_type", "actor.model.init_log_std")
	imageKeys(k)
}

// Update makes the updates of an iteration; see Algorithm.
func (b *BC) Update(tensor.Dict) (Metrics, error) {
	if err := b.iterate(b.update); err != nil {
		return Metrics{}, err
	}
	aside, err := b.validate()
	if err != nil {
		return Metrics{}, fmt.Errorf("bc: validation: %w", err)
	}
	b.reportMean("bc/loss", bcLoss)
	b.metrics.add("bc/val_loss", aside)
	b.reportActor(b.train)
	b.metrics.add("demo_buffer/size", float64(b.replay.Size()))
	return b.metrics, nil
}

// update makes one update of the policy.
func (b *BC) update() error { return b.descend(b.train, b.add) }

// add adds the gradient of the loss on a micro-batch.
func (b *BC) add(t *Transitions, ready func(lo, hi int)) error {
	if b.augmenter != nil {
		for i := range b.noise.Env {
			b.noise.Env[i], b.noise.Step[i] = uint64(b.replica), b.number*uint64(b.local)+uint64(b.first+i)
		}
		b.augmenter.Augment(b.work, b.noise)
	}
	g, loss, err := b.loss(t)
	if err != nil {
		return err
	}
	b.sums.add(bcLoss, loss, float64(b.micro))
	return b.policy.Backward(b.work, g, ready)
}

// loss returns the sum of the losses of the transitions t, and the gradient of this sum times b.perSample.
func (b *BC) loss(t *Transitions) (policy.Grad, float64, error) {
	if b.half != nil {
		act, err := b.policy.Forward(b.work, t.Obs, policy.Deterministic, policy.Noise{})
		if err != nil {
			return policy.Grad{}, 0, err
		}
		dAction := b.dAction.Slice(0, t.Action.Dim(0))
		return policy.Grad{Action: dAction}, ActionLoss(dAction.F32(), act.Action.F32(), t.Action.F32(), b.half, nil,
			b.perSample), nil
	}
	eval, err := b.policy.Evaluate(b.work, t.Obs, t.Action)
	if err != nil {
		return policy.Grad{}, 0, err
	}
	if b.dLogProb.IsZero() {
		b.dLogProb = tensor.New(tensor.F32, b.micro, eval.LogProb.Dim(1))
	}
	dLogProb := b.dLogProb.Slice(0, t.Action.Dim(0))
	return policy.Grad{LogProb: dLogProb}, LikelihoodLoss(dLogProb.F32(), eval.LogProb.F32(), b.perSample), nil
}

// validate returns the mean loss of the demonstrations in b.aside, or None if b.aside is nil. Every replica evaluates
// all of these demonstrations.
func (b *BC) validate() (float64, error) {
	if b.aside == nil {
		return None(), nil
	}
	var sum float64
	n := b.aside.Size()
	err := b.eachBatch(b.aside, func(batch *Transitions, end int) error {
		_, loss, err := b.loss(batch)
		sum += loss
		b.progress.Report(workValidation, end, n)
		return err
	})
	return sum / float64(n), err
}
