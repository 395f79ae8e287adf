package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// An Evaluation says how a policy is evaluated. The zero value plays env.eval.rollout_epoch episodes in
// each environment of env.eval, with the first of these that there is: the checkpoint runner.resume_dir;
// runner.ckpt_path, where evaluations are of these weights (see config.Config.EvaluatesWeights); the
// newest checkpoint of the run's folder; runner.ckpt_path. A language model answers all questions of
// data.val_data_paths, or after fine-tuning is measured on their texts.
type Evaluation struct {
	Checkpoint string // a folder; auto: the newest of the run's folder; "": see above
	Episodes   int    // each in an environment of its own; or questions, or texts; 0: see above
	JSON       bool   // write the figures as JSON
}

// evaluates reports whether the session evaluates the policy of cfg, and does not train it.
func (s *session) evaluates(cfg *config.Config) bool { return s.Evaluation != nil || !cfg.Trains() }

// evaluate is the life of one rank of a job that only evaluates. Each rank plays a share of the
// episodes, and rank 0 writes the figures: the same on any number of ranks.
func (s *session) evaluate(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config) error {
	var err error
	if w.Rank() == s.lead {
		err = s.Profile.start(w.Rank())
	}
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	how := s.asked(cfg)
	switch {
	case cfg.Reasons():
		return s.examine(ctx, w, world, cfg, how)
	case cfg.FineTunes():
		return s.measure(ctx, w, world, cfg, how)
	}
	ranks := make([]int, w.Size())
	for r := range ranks {
		ranks[r] = r
	}
	if cfg.Env.Eval.External.Listen != "" {
		ranks = ranks[:1] // simulators come to rank 0
	}
	alone := *cfg
	alone.Runner.OnlyEval = true
	s.phase(w, "starting simulators")
	cfg, err = s.askAll(ctx, w, world, &alone, ranks)
	if err != nil || cfg == nil {
		return err
	}
	s.phase(w, "loading the policy")
	e, err := s.prepare(cfg, how)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	lo, hi := e.share(slices.Index(ranks, w.Rank()), len(ranks))
	s.phase(w, "evaluation")
	rows, err := e.play(s.reg, lo, hi, s.progress.Counter())
	if err != nil {
		return err
	}
	all, err := gatherRows(ctx, world, rows)
	if err != nil {
		return err
	}
	if w.Rank() == 0 {
		s.progress.Done()
		if err := e.finish(s.Out, all, how.JSON); err != nil {
			return err
		}
	}
	return s.disconnect(ctx, w, world)
}

// gatherRows returns the rows of all ranks, a slice of fixed-size values on each, in the order of the
// ranks and as little-endian bytes: on rank 0, and nil elsewhere.
func gatherRows(ctx context.Context, world *collectives.Group, rows any) ([]byte, error) {
	mine, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return nil, err
	}
	all, err := world.Gather(ctx, mine, 0)
	return slices.Concat(all...), err
}

// asked returns how the policy of cfg is evaluated.
func (s *session) asked(cfg *config.Config) (how Evaluation) {
	if s.Evaluation != nil {
		how = *s.Evaluation
	}
	how.Checkpoint = cmp.Or(how.Checkpoint, s.Resume, cfg.Runner.ResumeDir)
	_, none := os.Stat(latest(cfg))
	if how.Checkpoint == config.ResumeAuto || how.Checkpoint == "" && none == nil && !cfg.EvaluatesWeights() {
		how.Checkpoint = latest(cfg)
	}
	return how
}

// latest returns where the newest checkpoint of cfg's folder is, if there is one.
func latest(cfg *config.Config) string { return filepath.Join(cfg.Folder(), "checkpoints", "latest") }

// An evaluation is a policy and the environments that it is evaluated in.
type evaluation struct {
	policy   policy.Policy
	from     string     // its folder or file
	env      env.Config // of TotalNumEnvs episodes
	spec     env.Spec
	unit     int    // a share of the episodes is a multiple
	film     string // the file
	undrawn  string // the simulator that draws nothing; "": none
	episodes int    // each in an environment of its own, and so many times:
	epochs   int
}

// prepare reads the policy of cfg and checks the environments. Its errors are mistakes of the user.
func (s *session) prepare(cfg *config.Config, how Evaluation) (*evaluation, error) {
	e := &evaluation{unit: 1, episodes: how.Episodes, epochs: 1}
	var err error
	if e.env, e.spec, err = job.EvalEnv(cfg, s.reg); err != nil {
		return nil, err
	}
	if e.policy, err = s.reg.Policies.New(cfg.PolicyConfig(), e.spec, cfg.Actor.Seed, tensor.Heap); err != nil {
		return nil, err
	}
	from, weights, err := readModel(cfg, how.Checkpoint)
	if err != nil {
		return nil, err
	}
	if err := job.LoadModel(e.policy.Params(), weights); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	e.from, e.film = from, cfg.VideoFile(strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
	if e.undrawn, err = play.Film(s.reg.Envs, e.env); err != nil {
		return nil, fmt.Errorf("env.eval.video_cfg: %w", err)
	}
	if err := cfg.OpenVideos(); err != nil {
		return nil, err
	}
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
				e.episodes,
				e.unit)
		}
	}
	return e, nil
}

// share returns the episodes [lo, hi) that the i-th of n ranks plays; i < 0: none.
func (e *evaluation) share(i, n int) (lo, hi int) {
	if i < 0 {
		return 0, 0
	}
	units := e.episodes / e.unit
	return units * i / n * e.unit, units * (i + 1) / n * e.unit
}

// play plays episodes [lo, hi), each in an environment of its own, and returns them as rows of
// env.AppendRows. It counts them. The first environments are filmed, if the configuration says so.
func (e *evaluation) play(reg config.Registries, lo, hi int, count func(string, int, int)) ([]float64, error) {
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
	stage.Record(e.film, reg.Programs)
	stage.CountEpisodes(count, e.epochs)
	player := play.NewEvalPlayer(e.policy, hi-lo, e.env.Seed, lo)
	if err := player.PlayEpisodes(stage, e.epochs); err != nil {
		return nil, errors.Join(err, stage.Vec.Close())
	}
	return env.AppendRows(nil, stage.Episodes.Take()), stage.Vec.Close()
}

// readModel returns the tensors of a policy, and the folder or file that they are from.
func readModel(cfg *config.Config, dir string) (string, tensor.Dict, error) {
	if path := cfg.Runner.CkptPath; dir == "" && path != "" {
		d, err := job.ReadWeights("runner.ckpt_path", path)
		return path, d, err
	}
	newest := latest(cfg)
	if dir = cmp.Or(dir, newest); dir == newest {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return "", tensor.Dict{}, fmt.Errorf("no checkpoint in %s: expected a run that saved one "+
				"(runner.save_interval), --checkpoint DIR or "+
				"runner.ckpt_path", cfg.Folder())
		}
	}
	from, err := checkpoint.Load(dir)
	if err != nil {
		return "", tensor.Dict{}, err
	}
	d, err := runner.ReadTensors(from, runner.ModelFile)
	return from.Dir, d, err
}
