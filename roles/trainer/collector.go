package trainer

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// A SyncCollector plays a policy in environments, in the caller's goroutine, and returns rollouts [T, N] of T steps
// in N environments.
type SyncCollector struct {
	stage       *play.Stage
	spec        env.Spec // the spec of one environment, as the policy sees it
	rec         *play.RolloutBuilder
	rollout     tensor.Dict
	dicts       []tensor.Dict
	chunks      int
	logProbs    int
	rewards     int // number of rewards of a sample: 1, or the number of actions
	transitions bool
	fallible    bool // simulators may fail, which aborts episodes
	length      int
	steps       uint64
}

// NewSyncCollector makes the environments of cfg from reg, and collects with pol. seed determines the random numbers.
func NewSyncCollector(reg *env.Registry, cfg env.Config, pol policy.Policy, seed uint64) (*SyncCollector, error) {
	n := cfg.TotalNumEnvs
	stage, err := play.NewStage(reg, cfg, env.Train, 0, n, 1)
	if err != nil {
		return nil, err
	}
	spec, rec := stage.Vec.Spec(), play.NewRolloutBuilder(pol, seed, 0, n, []int{0, n}, false)
	rec.Idles = !stage.AutoReset
	chunks, logProbs, err := stage.Fit(pol)
	if err != nil {
		return nil, fmt.Errorf("collect in %s: %w", spec.Name, err)
	}
	return &SyncCollector{stage: stage, spec: spec, rec: rec, chunks: chunks, logProbs: logProbs, rewards: 1,
		fallible: cfg.ID() == env.ExternalID}, nil
}

// CollectTransitions lets Collect make rollouts for a replay buffer. These rollouts have the tensors
// next_observation.<name>, but no log-probs or values. Call CollectTransitions before the first Collect. The
// environments must reset themselves.
func (c *SyncCollector) CollectTransitions() { c.transitions = true }

// CollectLabels lets Collect make rollouts for DAgger, with the expert's actions in all steps. The schedule d decides
// in which steps the expert acts instead of the policy. Call CollectLabels before the first Collect. If the
// environments have no expert, Collect returns errors.ErrUnsupported. The policy must choose one action at a time.
func (c *SyncCollector) CollectLabels(d algo.DaggerConfig) error {
	if c.chunks > 1 {
		return fmt.Errorf("collect labels for chunks of %d actions: expected 1", c.chunks)
	}
	c.CollectTransitions()
	c.stage.Label()
	c.rec.Mixture = &play.Mixture{Schedule: d}
	return nil
}

// CollectActionRewards lets Collect make rollouts with a reward for each action of a chunk, for reward_type
// action_level. Call it before the first Collect. A critic must return a value for each action
// (policy.Config.ActionValues).
func (c *SyncCollector) CollectActionRewards() { c.rewards = c.chunks }

// Fields describes the tensors of a rollout of n steps, with their shapes [n, N, ...], for algo.Setup.Rollout.
func (c *SyncCollector) Fields(n int) []tensor.Field {
	spec, envs := c.Spec(), c.stage.Vec.Len()
	if c.transitions {
		return play.TransitionFields(spec, c.chunks, n, envs, c.fallible)
	}
	return play.TrajectoryFields(spec, c.chunks, c.logProbs, c.rewards, policy.HiddenLen(c.rec.Policy),
		policy.LatentLen(c.rec.Policy), n, envs, !c.stage.AutoReset || c.fallible)
}

// Spec returns the spec of one environment.
func (c *SyncCollector) Spec() env.Spec { return c.spec }

// Collect takes n > 0 steps in every environment. A step takes one chunk of actions. If reset is true or cfg.AutoReset
// is false, all environments first start new episodes. The rollout is valid until the next call.
func (c *SyncCollector) Collect(n int, reset bool) (tensor.Dict, error) {
	if n <= 0 {
		return tensor.Dict{}, fmt.Errorf("collect %d steps: expected at least 1", n)
	}
	if n != c.length {
		layout := tensor.NewLayout(c.Fields(n)...)
		c.length, c.rollout = n, layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	}
	if reset {
		c.stage.Running = false
		c.rec.Hidden.Clear()
	}
	if err := c.stage.Begin(); err != nil {
		return c.rollout, err
	}
	c.dicts = append(c.dicts[:0], c.rollout)
	c.rec.Begin(c.dicts, c.steps)
	c.steps += uint64(n)
	return c.rollout, play.PlayEpoch(c.rec, c.stage, 0, n, nil)
}

// Episodes returns the episodes that have ended or were aborted since the last call.
func (c *SyncCollector) Episodes() []env.Episode { return c.stage.Episodes.Take() }
