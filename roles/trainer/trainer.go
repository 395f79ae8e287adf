package trainer

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/tensor"
)

// A Collector gathers experience: SyncCollector, or AsyncCollector while the Trainer learns.
type Collector interface {
	Collect(n int, reset bool) (tensor.Dict, error)
	Episodes() []env.Episode
}

// A Trainer coordinates training in one process: it collects, updates and evaluates, and does none
// of that itself.
type Trainer struct {
	Policy    policy.Policy  // what is trained
	Algorithm algo.Algorithm // what trains it
	Collector Collector      // nil: Algorithm learns from demonstrations alone
	Evaluator *Evaluator     // nil: Evaluate is not used
}

// A Step is what one round of training gave.
type Step struct {
	Epoch    int          // from 0 on
	Episodes env.Summary  // of the episodes that ended while collecting
	Metrics  algo.Metrics // of the update
}

// Train collects nSteps in every environment and updates the policy, nEpochs times, and tells each
// after every round.
func (t *Trainer) Train(ctx context.Context, nEpochs, nSteps int, each func(Step) error) error {
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
		if each != nil {
			if err := each(Step{epoch, env.Summarize(episodes), metrics}); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect collects rollouts until the algorithm has enough: as a rule, one.
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

// Evaluate plays one episode in each evaluation environment with the policy's most likely actions.
func (t *Trainer) Evaluate() (env.Summary, error) { return t.Evaluator.Evaluate(t.Policy) }

// An Evaluator plays episodes without learning from them, always from the same initial states.
type Evaluator struct {
	stage  *play.Stage
	player *play.EvalPlayer // of the policy of the last evaluation; nil before
}

// NewEvaluator makes cfg.TotalNumEnvs environments of cfg, from reg.
func NewEvaluator(reg *env.Registry, cfg env.Config) (*Evaluator, error) {
	s, err := play.NewStage(reg, cfg, env.Eval, 0, cfg.TotalNumEnvs, 1)
	if err != nil {
		return nil, err
	}
	return &Evaluator{stage: s}, nil
}

// Spec describes one environment.
func (e *Evaluator) Spec() env.Spec { return e.stage.Vec.Spec() }

// Film has the next evaluation filmed into file, as the environments' VideoCfg says; without its
// SaveVideo nothing is.
func (e *Evaluator) Film(file string) {
	e.stage.Record(file)
}

// Evaluate plays one episode in each environment with pol's most likely actions.
func (e *Evaluator) Evaluate(pol policy.Policy) (env.Summary, error) {
	if e.player == nil || e.player.Policy != pol {
		if _, _, err := e.stage.Fit(pol); err != nil {
			return env.Summary{}, fmt.Errorf("evaluate in %s: %w", e.Spec().Name, err)
		}
		e.player = play.NewEvalPlayer(pol, e.stage.Vec.Len())
	}
	if err := e.player.PlayEpisodes(e.stage); err != nil {
		return env.Summary{}, err
	}
	return env.Summarize(e.stage.Episodes.Take()), nil
}
