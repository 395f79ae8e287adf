package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A recipe holds what differs between the algorithms that share PPO's training.
type recipe struct {
	name      string
	estimator estimator
	normalize Normalization // of advantages
}

// NewPPO makes PPO. With loss_type actor_critic or decoupled_actor_critic, the loss includes the critic's loss; with
// actor, it does not. With a2c, NewPPO makes A2C.
func NewPPO(s Setup) (*PPO, error) {
	r := recipe{"ppo", generalised(s.Config.Gamma, s.Config.GAELambda), s.Config.NormalizeAdvantages}
	if s.Config.LossType == "a2c" {
		r.name = "a2c"
	}
	return newPPO(s, r)
}

// ppoKeys declares the keys of NewPPO.
func ppoKeys(s *Setup, k *Keys) {
	gaeKeys(s, k)
	updateKeys(s, k)
}

// updateKeys declares the keys that all recipes read.
func updateKeys(s *Setup, k *Keys) {
	c := &s.Config
	rewardKeys(s, k)
	k.Read("update_epoch", "shuffle_rollout", "sequence_length", "logprob_type", "entropy_type", "entropy_bonus",
		"reward_type", "kl_beta", "loss_agg_func", "recompute_logprobs", "behave_weight_threshold",
		"actor.model.init_log_std")
	k.ReadIf(c.UpdateEpoch > 1, severalEpochs, "target_kl")
	k.ReadIf(c.KLBeta > 0 || c.ReinppKLBeta > 0, "kl_beta > 0", "kl_penalty_type")
	c.clipKeys(k)
	critic := c.LossType != "actor"
	k.ReadIf(critic, learnsCritic, "huber_delta", "value_loss_coef", "actor.optim.value_lr")
	k.ReadIf(critic && c.LossType != "a2c", "a critic that makes several steps on a rollout", "value_clip")
	k.ReadOptim("actor.optim", &s.Optim)
	k.Read("actor.optim.critic_warmup_steps")
}

// Values of the argument setting of Keys.ReadIf.
const (
	learnsCritic  = "a loss_type with a critic"
	clipsRatio    = "a loss_type that clips the ratio"
	severalEpochs = "update_epoch > 1"
)

// newPPO makes the algorithm of a recipe.
func newPPO(s Setup, r recipe) (*PPO, error) {
	p, err := composePPO(&s, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return p, nil
}

func composePPO(s *Setup, r recipe) (*PPO, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.setDefaults()
	s.Config.KLPenaltyType = klName(s.Config.KLPenaltyType)
	count, replica := s.Replicas.Count()
	sizes, err := s.minibatches(count)
	if err != nil {
		return nil, err
	}
	p := &PPO{
		name: r.name, cfg: s.Config, optim: s.Optim, seed: s.Seed, batchSizes: sizes,
		replicas: s.Replicas, replica: replica, alloc: s.Alloc, progress: s.Progress,
		policy: s.Policy, counters: tensor.New(tensor.I64, 2),
		surrogate: s.Config.surrogate(), critic: s.Config.LossType != "actor",
		advantages: newAdvantages(s, r.estimator, r.normalize), obsStats: observationStats(s.Policy),
	}
	a := p.advantages
	if p.sequences, err = newSequences(s.Policy, s.Config.SequenceLength, s.Steps, s.Envs, p.micro); err != nil {
		return nil, err
	}
	if p.sequences != nil && a.units > 1 {
		return nil, fmt.Errorf("reward_type %s: expected %s: this policy has a hidden state from chunk to chunk",
			s.Config.RewardType, ChunkLevel)
	}
	if p.train, err = s.newTrainState(s.Policy.Params(), s.Optim); err != nil {
		return nil, err
	}
	p.work = s.Policy.NewWork(p.micro)
	if s.Config.KLBeta > 0 || s.Config.ReinppKLBeta > 0 {
		if p.reference, err = newReference(s, a.samples()*a.units); err != nil {
			return nil, err
		}
	}
	if p.surrogate.Kind == Decoupled || s.Config.RecomputeLogprobs {
		p.proximal = newProximal(s)
	}
	if s.Config.RecomputeAdvantages {
		p.recompute = newRecomputation(s, a)
	}
	p.order = make([]int32, a.samples())
	p.plans = make([]batchPlan, a.samples()/p.local)
	p.planSums = make([]float64, 2+3*len(p.plans))
	observed := 0
	if p.obsStats != nil {
		observed = p.obsStats.StatsLen()
	}
	p.sums = newMetricSums(count, observed)
	return p, nil
}

// surrogate returns the policy's objective. Its Clip is not set.
func (c *Config) surrogate() Surrogate {
	s := Surrogate{MaxWeight: c.BehaveWeightThreshold}
	switch c.LossType {
	case "a2c", lossPolicyGradient:
		s.Kind = PolicyGradient
	case decoupledActorCritic:
		s.Kind = Decoupled
	}
	return s
}

// clip returns the Clip of the surrogate in an iteration. horizon is the length of the schedule in iterations.
func (c *Config) clip(iteration, horizon int) Clip {
	s := Schedule{Kind: c.ClipRatioSchedule, Total: horizon}
	return Clip{
		Low:    float32(s.At(iteration, float64(c.ClipRatioLow), 0)),
		High:   float32(s.At(iteration, float64(c.ClipRatioHigh), 0)),
		Dual:   c.ClipRatioC,
		LogMin: c.ClipLogRatioMin, LogMax: c.ClipLogRatioMax,
	}
}

// clipKeys declares the keys of clip, if the surrogate clips the ratio.
func (c *Config) clipKeys(k *Keys) {
	clips := c.surrogate().Kind != PolicyGradient
	k.ReadIf(clips, clipsRatio, "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "clip_ratio_schedule",
		"clip_log_ratio_min", "clip_log_ratio_max")
	if clips && c.ClipRatioSchedule != ScheduleConstant {
		k.Read("actor.optim.total_training_steps") // the schedule ends there
	}
}

// begin prepares the buffers for a rollout.
func (p *PPO) begin(rollout tensor.Dict) error {
	p.train.meanNorm() // discard the norms of an update that failed
	p.planSums[0], p.planSums[1] = 0, 0
	if p.batch != nil {
		return p.batch.setRollout(rollout)
	}
	a := p.advantages
	var err error
	if p.batch, err = newMinibatch(p.micro, a.steps, a.envs, p.sequences, rollout, p.alloc); err != nil {
		return err
	}
	logProbs := len(p.batch.logProb) / p.micro
	p.grad = policy.Grad{
		LogProb: tensor.New(tensor.F32, p.micro, logProbs), Entropy: tensor.New(tensor.F32, p.micro, logProbs),
		Value: tensor.New(tensor.F32, p.micro, a.units),
	}
	return p.batch.setRollout(rollout)
}

// Save returns views of the optimiser, the counters and the reward statistics; see Algorithm.
func (p *PPO) Save() (tensor.Dict, error) {
	var d tensor.Dict
	d.Set("counters", p.counters)
	p.train.adam.Save(&d)
	if p.reference != nil {
		d.Set("reference", p.reference.state)
	}
	if p.advantages.rewards != nil {
		p.advantages.rewards.save(&d)
	}
	return d, nil
}

// Interrupt sets the running discounted returns to 0; see Interruptible.
func (p *PPO) Interrupt() {
	if s := p.advantages.rewards; s != nil {
		s.running.Zero()
	}
}

// Load restores the state that Save returned. The model and configuration must be the same.
func (p *PPO) Load(from tensor.Dict) error {
	state, err := p.Save()
	if err == nil {
		err = restore(state, from)
	}
	if err != nil {
		return fmt.Errorf("%s: load: %w", p.name, err)
	}
	return nil
}
