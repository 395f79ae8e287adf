package trainer

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// A SyncCollector plays a policy in environments, in the caller's goroutine, and returns rollouts
// [T, N].
type SyncCollector struct {
	stage       *play.Stage
	spec        env.Spec // as the policy knows the environments
	rec         *play.RolloutBuilder
	rollout     tensor.Dict
	dicts       []tensor.Dict
	chunks      int
	logProbs    int
	rewards     int // of a sample: 1, or one for each action
	transitions bool
	fallible    bool // simulators may fail and leave episodes aborted
	length      int
	steps       uint64
}

// NewSyncCollector makes the environments of cfg, from reg, and collects with pol. seed determines
// the random numbers.
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

// CollectTransitions makes rollouts hold transitions for algorithms with a replay buffer:
// next_observation.<name>, and neither log-probs nor values. Call it before the first Collect, and
// let environments reset themselves.
func (c *SyncCollector) CollectTransitions() { c.transitions = true }

// CollectLabels makes rollouts hold transitions for DAgger: the expert of the environments acts in
// place of the policy in a part of the steps, as d says, and its actions are recorded in all. Call
// it before the first Collect, which returns an errors.ErrUnsupported if there is no expert. The
// policy must choose one action at a time.
func (c *SyncCollector) CollectLabels(d algo.DaggerConfig) error {
	if c.chunks > 1 {
		return fmt.Errorf("collect labels for chunks of %d actions: expected 1", c.chunks)
	}
	c.CollectTransitions()
	c.stage.Label()
	c.rec.Mixture = &play.Mixture{Schedule: d}
	return nil
}

// CollectActionRewards makes rollouts hold a reward for each action of a chunk, for algorithms with
// reward_type action_level. Call it before the first Collect. A critic must give a value for each
// action (policy.Config.ActionValues).
func (c *SyncCollector) CollectActionRewards() { c.rewards = c.chunks }

// Fields returns what a rollout of n steps holds, [n, N, ...]: algo.Setup.Rollout.
func (c *SyncCollector) Fields(n int) []tensor.Field {
	spec, envs := c.Spec(), c.stage.Vec.Len()
	if c.transitions {
		return play.TransitionFields(spec, c.chunks, n, envs, c.fallible)
	}
	return play.TrajectoryFields(spec, c.chunks, c.logProbs, c.rewards, policy.HiddenLen(c.rec.Policy),
		policy.LatentLen(c.rec.Policy), n, envs,
		!c.stage.AutoReset || c.fallible)
}

// Spec describes one environment.
func (c *SyncCollector) Spec() env.Spec { return c.spec }

// Collect takes n > 0 steps in every environment, each of as many actions as the policy chooses at
// a time. With reset, all environments start new episodes first; else they continue, unless
// cfg.AutoReset is off. The rollout is valid until the next call.
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

// Episodes returns the episodes that ended, or were aborted, since the last call.
func (c *SyncCollector) Episodes() []env.Episode { return c.stage.Episodes.Take() }
