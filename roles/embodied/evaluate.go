package embodied

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/tensor"
)

// Evaluate runs on each rank of a job that only evaluates. Each rank plays a share of the episodes, and rank 0 writes
// the metrics. The metrics are the same for any number of ranks.
func (Task) Evaluate(ctx context.Context, on *task.Evaluation) error {
	w, cfg := on.World, on.Config
	ranks := w.Ranks()
	if cfg.Env.Eval.External.Listen != "" {
		ranks = ranks[:1] // simulators connect to rank 0
	}
	alone := *cfg
	alone.Runner.OnlyEval = true
	if on.Record.File != "" {
		alone.Env.Eval.DataCollection = on.Record.DataCollection
	}
	on.Phase("starting simulators")
	cfg, err := on.Ask(ctx, &alone, ranks)
	if err != nil || cfg == nil {
		return err
	}
	on.Phase("loading the policy")
	e, err := prepare(cfg, on.Registries, on.EvaluationOptions)
	if agreed, err := on.Agree(ctx, err); !agreed {
		return err
	}
	lo, hi := e.share(slices.Index(ranks, w.Rank()), len(ranks))
	on.Phase("evaluation")
	rows, err := e.play(on.Registries, lo, hi, on.Progress.Counter())
	if err != nil {
		return err
	}
	if e.unrenderable != "" && w.Rank() == 0 {
		on.Warn(fmt.Sprintf("no film: %s draws no pictures", e.unrenderable))
	}
	if e.unfilmed != nil {
		on.Warn(fmt.Sprintf("no film: %v", e.unfilmed))
	}
	all, err := on.GatherRows(ctx, rows)
	if err != nil {
		return err
	}
	if w.Rank() == 0 {
		unrecorded := e.join(len(ranks))
		on.Progress.Done()
		if err := errors.Join(e.write(on, all), unrecorded); err != nil {
			return err
		}
	}
	return on.Leave(ctx)
}

// An evaluation is a policy and the environments in which it is evaluated.
type evaluation struct {
	policy       policy.Policy
	from         string // the policy's folder or file
	env          env.Config
	spec         env.Spec
	unit         int    // the number of environments of each rank is a multiple of this number
	film         string // file of the film
	unfilmed     error  // the error that ended the film
	unrenderable string // the simulator that cannot be rendered; "" if there is none
	record       string // file of recorded episodes; "" if none are recorded
	recorded     play.Joined
	lookAhead    bool // recorded transitions have next observations
	episodes     int  // number of environments; each epoch has as many episodes
	epochs       int  // number of episodes in each environment
}

// prepare reads the policy of cfg, and checks the environments. Its errors are mistakes of the user.
func prepare(cfg *config.Config, reg config.Registries, how task.EvaluationOptions) (*evaluation, error) {
	e := &evaluation{unit: 1, episodes: how.Episodes, epochs: 1}
	var err error
	if e.env, e.spec, err = reg.EvalEnv(cfg); err != nil {
		return nil, err
	}
	blank := cfg.PolicyConfig()
	blank.Blank = true
	seen, _ := cfg.PolicySpec(e.spec)
	if e.policy, err = reg.Policies.New(blank, seen, cfg.Actor.Seed, tensor.Heap); err != nil {
		return nil, err
	}
	from, weights, err := loop.FindModel(cfg, how.Checkpoint)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	if err := weights.Load(e.policy.Params(), e.policy.Params()); err != nil {
		return nil, loop.ExplainSpaces(fmt.Errorf("%s: %w", from, err), reg, from, e.env.External.Greeting)
	}
	e.from, e.film = from, cfg.VideoFile(strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
	if e.unrenderable, err = play.Film(reg.Envs, e.env); err != nil {
		return nil, fmt.Errorf("env.eval.video_cfg: %w", err)
	}
	if err := cfg.OpenVideos(); err != nil {
		return nil, err
	}
	if e.env.VideoCfg.SaveVideo {
		if err := loop.CheckFilms(cfg, e.film); err != nil {
			return nil, err
		}
	}
	if e.record = how.Record.File; e.record == "" {
		name := "eval_" + strings.TrimSuffix(filepath.Base(from), filepath.Ext(from))
		if e.record, err = cfg.RecordFile(env.Eval, name); err != nil {
			return nil, err
		}
		if err := loop.CheckRecords(cfg, "env.eval", e.env.DataCollection, e.record); err != nil {
			return nil, err
		}
	}
	e.lookAhead = cfg.Algorithm.LooksAhead()
	if e.episodes == 0 {
		e.episodes, e.epochs = e.env.TotalNumEnvs, e.env.RolloutEpoch
	}
	if e.env.External.Greeting != "" {
		own, err := external.EnvsPerChild(e.env.External)
		if err != nil {
			return nil, err
		}
		if e.unit = max(own, 1); e.episodes%e.unit != 0 {
			return nil, fmt.Errorf("%d episodes: expected a multiple of %d, the environments of a simulator",
				e.episodes, e.unit)
		}
	}
	return e, nil
}

// share returns the range of environments [lo, hi) in which rank i of n plays. The range is empty if i < 0.
func (e *evaluation) share(i, n int) (lo, hi int) {
	if i < 0 {
		return 0, 0
	}
	units := e.episodes / e.unit
	return units * i / n * e.unit, units * (i + 1) / n * e.unit
}

// play plays the episodes of environments [lo, hi), and returns them in the format of env.AppendRows. It calls report
// to show its progress. If the configuration asks for a film, it films the first environments.
func (e *evaluation) play(reg config.Registries, lo, hi int, report func(string, int, int)) ([]float64, error) {
	if lo == hi {
		return nil, nil
	}
	stage, err := play.NewStage(reg.Envs, e.env, env.Eval, lo, hi-lo, 1)
	if err != nil {
		return nil, err
	}
	if _, _, err := stage.Fit(e.policy); err != nil {
		return nil, errors.Join(fmt.Errorf("evaluate in %s: %w", e.spec.Name, err), stage.Vec.Close())
	}
	if e.record != "" {
		if err := stage.RecordEpisodes(e.record, e.env.DataCollection, e.lookAhead); err != nil {
			return nil, errors.Join(err, stage.Vec.Close())
		}
	}
	stage.Record(e.film, reg.Programs)
	stage.CountEpisodes(report, e.epochs)
	defer func() { e.unfilmed = stage.FilmError() }()
	player := play.NewEvalPlayer(e.policy, hi-lo, e.env.Seed, lo)
	if err := errors.Join(player.PlayEpisodes(stage, e.epochs), stage.EndTape()); err != nil {
		return nil, errors.Join(err, play.RemoveTape(e.record, lo), stage.Vec.Close())
	}
	return env.AppendRows(nil, stage.Episodes.Take()), stage.Vec.Close()
}

// join writes the recorded episodes of all ranks, if any are recorded. ranks is the number of ranks that have played.
func (e *evaluation) join(ranks int) (err error) {
	if e.record == "" {
		return nil
	}
	var los []int
	for i := range ranks {
		if lo, hi := e.share(i, ranks); lo < hi {
			los = append(los, lo)
		}
	}
	e.record, e.recorded, err = writeRecording(e.record, e.record, los, e.env.DataCollection)
	return err
}
