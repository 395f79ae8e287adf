package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// An EnvWorker simulates a contiguous range of the environments, in stages.
type EnvWorker struct {
	base
	train []*envStage    // one for each stage of the pipeline
	eval  []*envStage    // one stage; empty without evaluations
	actIn *spmd.Receiver // receives the actions of an asynchronous run

	simulated int64 // nanoseconds: see TakeSimulated
}

// NewEnvWorker makes the environments of member m, for loop.Launch.
func NewEnvWorker(_ context.Context, c *loop.Cluster, m *spmd.Member) (*EnvWorker, error) {
	b, _, err := newBase(c, m)
	if err != nil {
		return nil, err
	}
	p := b.plan
	w := &EnvWorker{base: b}
	part, _ := loop.PartOf[*envPart](c, m)
	if w.train, err = newStages(c, p, p.Train, m, p.Config.Env.Train, env.Train, part); err != nil {
		return nil, err
	}
	w.TakeSimulated() // after a move the stages have an earlier time
	if p.Config.Evaluates() {
		w.eval, err = newStages(c, p, p.Eval, m, p.EvalEnv, env.Eval, part)
	}
	return w, err
}

// RecordingOf returns the name of the file for which stages record the episodes of training or of evaluations: see
// play.JoinTapes.
func RecordingOf(use env.Use) string {
	if use == env.Eval {
		return "eval"
	}
	return "train"
}

// newStages returns the stages of the worker of member m. The environments are taken from part, or made if part is nil.
func newStages(c *loop.Cluster, p *plan.Plan, r plan.Routing, m *spmd.Member, cfg env.Config, use env.Use,
	part *envPart) (stages []*envStage, err error) {
	worker := m.Index()
	record, err := p.Config.RecordFile(use, RecordingOf(use))
	if err != nil {
		return nil, err
	}
	for s := range r.Stages {
		lo, hi := r.StageOf(worker, s)
		st := &envStage{count: loop.ProgressOf(c, m), simulate: m.Span("simulate")}
		if part != nil {
			st.Stage = part.stages(use)[s]
		} else if st.Stage, err = play.NewStage(p.Registries.Envs, cfg, use, lo, hi-lo, p.Chunks); err != nil {
			return nil, err
		} else if use == env.Train {
			if err := prepare(st.Stage, p, cfg); err != nil {
				return nil, err
			}
		}
		if record != "" {
			if err := st.RecordEpisodes(record, cfg.DataCollection, p.Config.Algorithm.LooksAhead()); err != nil {
				return nil, err
			}
		}
		for _, l := range r.Routes {
			if l.Env == worker && l.Stage == s {
				st.routes = append(st.routes, &envRoute{Route: l, layout: p.StepLayout(l), row: l.Lo - lo})
				st.inline = p.RunsInline(r, l, use == env.Train)
			}
		}
		stages = append(stages, st)
	}
	return stages, nil
}

// prepare adds the judge and the expert's labels to new environments of training, if the job has them.
func prepare(s *play.Stage, p *plan.Plan, cfg env.Config) error {
	if p.Config.Standalone() {
		scorer, err := p.NewScorer(s.Vec.Len())
		if err != nil {
			return err
		}
		s.Vec = env.NewJudged(s.Vec, scorer.Judge(&p.Config.Reward, cfg.IgnoreTerminations))
	}
	if p.Labelled {
		s.Label()
	}
	return nil
}

// inlineEnvs returns the environments of route l. It returns nil unless the rollout worker steps them itself: see
// plan.Plan.RunsInline. envs are the env workers on the rank of this rollout worker.
func inlineEnvs(envs []*EnvWorker, l plan.Route, use env.Use) *play.Stage {
	for _, w := range envs {
		if w.m.Index() != l.Env {
			continue
		}
		s := w.train
		if use == env.Eval {
			s = w.eval
		}
		if s[l.Stage].inline {
			return s[l.Stage].Stage
		}
	}
	return nil
}

// Interact simulates the environments for one rollout. It sends observations and receives actions through these
// channels.
func (w *EnvWorker) Interact(ctx context.Context, obs, act *spmd.Channel) error {
	train := slices.DeleteFunc(slices.Clone(w.train), func(s *envStage) bool { return s.inline })
	if err := w.open(train, obs, act); err != nil {
		return err
	}
	for _, s := range train {
		s.CountSteps(s.count, w.plan.Epochs*w.plan.Steps)
	}
	for range w.plan.Epochs {
		for _, s := range train {
			if err := s.Begin(); err != nil {
				return err
			}
			if err := s.send(ctx, 0); err != nil {
				return err
			}
		}
		for t := range w.plan.Steps {
			for _, s := range train {
				err := s.advance(ctx)
				if err == nil {
					err = s.send(ctx, 0)
				}
				if err != nil {
					return fmt.Errorf("step %d: %w", t, err)
				}
			}
		}
	}
	return nil
}

// TakeEpisodes appends the episodes that have ended since the last call, in the format of env.AppendRows. It appends
// episodes of training to train, and episodes of evaluations to eval.
func (w *EnvWorker) TakeEpisodes(train, eval []float64) (trained, evaluated []float64) {
	for _, s := range w.train {
		train = env.AppendRows(train, s.Episodes.Take())
	}
	for _, s := range w.eval {
		eval = env.AppendRows(eval, s.Episodes.Take())
	}
	return train, eval
}

// TakeSimulated returns the seconds that the environments of training have taken since the last call.
func (w *EnvWorker) TakeSimulated() float64 {
	all := int64(0)
	for _, s := range w.train {
		all += s.Simulated()
	}
	took := all - w.simulated
	w.simulated = all
	return float64(took) / 1e9
}

// Film films the next evaluation into file, if the configuration asks for films. Only the worker of the first
// environments films.
func (w *EnvWorker) Film(file string) {
	for _, s := range w.eval {
		s.Record(file, w.plan.Registries.Programs)
	}
}

// Evaluate plays env.eval.rollout_epoch episodes in every evaluation environment. EvaluationError returns an error of
// the environments.
func (w *EnvWorker) Evaluate(ctx context.Context, obs, act *spmd.Channel) error {
	eval := slices.DeleteFunc(slices.Clone(w.eval), func(s *envStage) bool { return s.inline })
	if err := w.open(eval, obs, act); err != nil {
		return err
	}
	for _, s := range eval {
		s.CountEpisodes(s.count, w.plan.Config.Env.Eval.RolloutEpoch)
		s.Seeder.Rewind() // every evaluation has the same initial states
		for range w.plan.Config.Env.Eval.RolloutEpoch {
			if more, err := w.evaluate(ctx, s); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// evaluate plays one episode in every environment of s. more is false if the evaluation has failed. All routes have
// then been told. If an environment has failed, w.failure is its error.
func (w *EnvWorker) evaluate(ctx context.Context, s *envStage) (more bool, err error) {
	w.failure = s.Begin()
	more = w.failure == nil
	for more && !s.Over() {
		if err := s.send(ctx, 0); err != nil {
			return false, err
		}
		if more, err = s.receive(ctx); err != nil {
			return false, err
		}
		if more {
			w.failure = s.step()
			more = w.failure == nil
		}
	}
	// The last item gets no answer. With an answer, env and rollout workers would wait for each other.
	if !more {
		return false, s.send(ctx, failedEvaluation)
	}
	return true, s.send(ctx, lastOfEpisodes)
}

// Unfilmed returns the error that ended the film of the last evaluation, and forgets it. It also returns nil if there
// was no film.
func (w *EnvWorker) Unfilmed() (err error) {
	for _, s := range w.eval {
		err = errors.Join(err, s.FilmError())
	}
	return err
}

// EndTapes ends the recordings of the stages, if there are any.
func (w *EnvWorker) EndTapes() (err error) {
	for _, s := range slices.Concat(w.train, w.eval) {
		err = errors.Join(err, s.EndTape())
	}
	return err
}

// DropEvaluation forgets the ended episodes of an evaluation that has failed.
func (w *EnvWorker) DropEvaluation() {
	for _, s := range w.eval {
		s.Episodes.Take()
	}
}

// open opens the senders and receivers of the channels. Later calls do nothing.
func (w *EnvWorker) open(stages []*envStage, obs, act *spmd.Channel) (err error) {
	for _, s := range stages {
		for _, l := range s.routes {
			if l.obs != nil {
				continue
			}
			if l.obs, err = obs.Sender(w.m, spmd.Key{To: l.Rollout, Name: l.Name()}); err != nil {
				return err
			}
			if l.act, err = act.Receiver(w.m, spmd.Key{To: l.Env, Name: l.Name()}); err != nil {
				return err
			}
		}
	}
	return nil
}
