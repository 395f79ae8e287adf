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
	spec        env.Spec // the spec that the policy gets
	rec         *play.RolloutBuilder
	rollout     tensor.Dict
	dicts       []tensor.Dict
	chunks      int
	logProbs    int
	rewards     int // rewards of a sample: 1, or one for each action
	transitions bool
	fallible    bool // simulators may fail, which aborts episodes
	length      int
	steps       uint64
}

// NewSyncCollector makes the environments of cfg from reg, and collects with pol. Random numbers follow from seed.
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

// CollectTransitions makes rollouts for algorithms with a replay buffer: with next_observation.<name>, without
// log-probs and values. Call it before the first Collect. The environments must reset themselves.
func (c *SyncCollector) CollectTransitions() { c.transitions = true }

// CollectLabels makes rollouts for DAgger. d decides in which steps the environments' expert acts instead of the
// policy. The rollouts have the expert's actions in all steps. Call it before the first Collect, which returns an
// errors.ErrUnsupported if there is no expert. The policy must choose one action at a time.
func (c *SyncCollector) CollectLabels(d algo.DaggerConfig) error {
	if c.chunks > 1 {
		return fmt.Errorf("collect labels for chunks of %d actions: expected 1", c.chunks)
	}
	c.CollectTransitions()
	c.stage.Label()
	c.rec.Mixture = &play.Mixture{Schedule: d}
	return nil
}

// CollectActionRewards makes rollouts with a reward for each action of a chunk, for algorithms with reward_type
// action_level. Call it before the first Collect. A critic must return a value for each action
// (policy.Config.ActionValues).
func (c *SyncCollector) CollectActionRewards() { c.rewards = c.chunks }

// Fields returns the tensors of a rollout of n steps, [n, N, ...], for algo.Setup.Rollout.
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

// Collect takes n > 0 steps in every environment. A step takes all the actions that the policy chooses at a time. With
// reset, or without cfg.AutoReset, all environments start new episodes first. The rollout is valid until the next
// call.
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
