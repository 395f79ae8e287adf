// Package trainer answers: how is a policy trained in one process, without ranks? A Trainer runs three parts in
// turn: a Collector plays the policy, an algorithm updates it, and an Evaluator measures it. A Demonstration
// records episodes of an environment's expert.
package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// A Collector makes rollouts. A SyncCollector works in the caller's goroutine, an AsyncCollector in the background.
type Collector interface {
	Collect(n int, reset bool) (tensor.Dict, error)
	Episodes() []env.Episode
}

// A Trainer trains a policy in one process: it calls its collector, algorithm and evaluator in turn.
type Trainer struct {
	Policy    policy.Policy  // the policy that is trained
	Algorithm algo.Algorithm // trains Policy
	Collector Collector      // nil if Algorithm trains on demonstrations alone
	Evaluator *Evaluator     // may be nil if Evaluate is not called
}

// A Step is the result of one round of training.
type Step struct {
	Epoch    int          // number of the round, from 0
	Episodes env.Summary  // episodes that ended during collection
	Metrics  algo.Metrics // metrics of the update: loss (see algo.Loss), then the algorithm's own
}

// Train trains for nEpochs rounds. A round collects nSteps steps in every environment, and updates the policy. If
// onStep is not nil, it is called with the result of each round.
func (t *Trainer) Train(ctx context.Context, nEpochs, nSteps int, onStep func(Step) error) error {
	for epoch := range nEpochs {
		if err := ctx.Err(); err != nil {
			return err
		}
		var rollout tensor.Dict
		var episodes []env.Episode
		if t.Collector != nil {
			var err error
			if rollout, err = t.collect(nSteps, epoch == 0); err != nil {
				return fmt.Errorf("epoch %d: collect: %w", epoch, err)
			}
			if err := t.Algorithm.Prepare(&rollout); err != nil {
				return fmt.Errorf("epoch %d: prepare: %w", epoch, err)
			}
			episodes = t.Collector.Episodes()
		}
		metrics, err := t.Algorithm.Update(rollout)
		if err != nil {
			return fmt.Errorf("epoch %d: update: %w", epoch, err)
		}
		if onStep != nil {
			if err := onStep(Step{epoch, env.Summarize(episodes), withLoss(t.Algorithm, metrics)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// withLoss returns m with the algorithm's loss as the first metric, "loss". If m lacks this loss, withLoss returns m.
func withLoss(a algo.Algorithm, m algo.Metrics) algo.Metrics {
	loss, ok := algo.Loss(a, m)
	if !ok {
		return m
	}
	return algo.Metrics{Names: slices.Concat([]string{"loss"}, m.Names),
		Values: slices.Concat([]float64{loss}, m.Values)}
}

// collect collects rollouts until the algorithm has enough. Most algorithms need one rollout.
func (t *Trainer) collect(nSteps int, reset bool) (tensor.Dict, error) {
	rollout, err := t.Collector.Collect(nSteps, reset)
	resampler, ok := t.Algorithm.(algo.Resampler)
	for n := 0; ok && err == nil; n++ {
		var more bool
		if more, err = resampler.Resample(n, &rollout); !more {
			break
		}
		rollout, err = t.Collector.Collect(nSteps, false)
	}
	return rollout, err
}

// Evaluate plays nEpisodes with the policy. If deterministic is true, the policy takes its most likely actions.
// Otherwise it samples actions. See Evaluator.
func (t *Trainer) Evaluate(nEpisodes int, deterministic bool) (env.Summary, error) {
	return t.Evaluator.Evaluate(t.Policy, nEpisodes, deterministic)
}

// An Evaluator plays episodes without training on them. All evaluations have the same initial states. Each episode has
// its own environment, so the episodes are independent.
type Evaluator struct {
	reg    *env.Registry
	cfg    env.Config
	file   string // file of the next film
	stage  *play.Stage
	player *play.EvalPlayer // plays the policy of the last evaluation; nil before the first
}

// NewEvaluator returns an Evaluator with cfg.TotalNumEnvs environments of cfg from reg. An evaluation of another number
// of episodes makes new environments. With cfg.GroupSize above 1, the episodes of a group begin in the same state.
func NewEvaluator(reg *env.Registry, cfg env.Config) (*Evaluator, error) {
	e := &Evaluator{reg: reg, cfg: cfg}
	return e, e.open(cfg.TotalNumEnvs)
}

// open makes n environments.
func (e *Evaluator) open(n int) (err error) {
	if e.stage != nil {
		if err := e.stage.Vec.Close(); err != nil {
			return err
		}
	}
	e.player = nil
	e.stage, err = play.NewStage(e.reg, e.cfg, env.Eval, 0, n, 1)
	return err
}

// Spec returns the spec of one environment.
func (e *Evaluator) Spec() env.Spec { return e.stage.Vec.Spec() }

// Film makes the next evaluation write a film to file, with the settings of the environments' VideoCfg. If SaveVideo is
// false, there is no film.
func (e *Evaluator) Film(file string) {
	e.file = file
}

// Evaluate plays nEpisodes > 0 with pol. If deterministic is true, the policy takes its most likely actions. Otherwise
// it samples actions, with random numbers from the environments' seed.
func (e *Evaluator) Evaluate(pol policy.Policy, nEpisodes int, deterministic bool) (env.Summary, error) {
	if nEpisodes <= 0 {
		return env.Summary{}, fmt.Errorf("evaluate: %d episodes: expected at least 1", nEpisodes)
	}
	if nEpisodes != e.stage.Vec.Len() {
		if err := e.open(nEpisodes); err != nil {
			return env.Summary{}, fmt.Errorf("evaluate: %d episodes of %s: %w", nEpisodes, e.cfg.ID(), err)
		}
	}
	e.stage.Record(e.file, programs.Entered{})
	e.file = ""
	if e.player == nil || e.player.Policy != pol {
		if _, _, err := e.stage.Fit(pol); err != nil {
			return env.Summary{}, fmt.Errorf("evaluate in %s: %w", e.Spec().Name, err)
		}
		e.player = play.NewEvalPlayer(pol, e.stage.Vec.Len(), e.cfg.Seed, 0)
	}
	e.player.Mode = policy.Sample
	if deterministic {
		e.player.Mode = policy.Deterministic
	}
	if err := e.player.PlayEpisodes(e.stage, 1); err != nil {
		return env.Summary{}, err
	}
	return env.Summarize(e.stage.Episodes.Take()), nil
}
