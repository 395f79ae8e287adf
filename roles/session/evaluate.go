package session

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/roles/trainer"
	"github.com/rlinf/rlinf/tensor"
)

// EvaluateCheckpoint plays one episode in every evaluation environment and writes the mean figures.
// The policy is that of the checkpoint dir; "" is the newest of the run's folder, or
// runner.ckpt_path.
func EvaluateCheckpoint(out io.Writer, cfg *config.Config, reg config.Registries, dir string) error {
	spec, err := job.Probe(reg, cfg.Env.Eval)
	if err != nil {
		return config.UsageError{Err: err}
	}
	pol, err := reg.Policies.New(cfg.PolicyConfig(), spec, cfg.Actor.Seed, tensor.Heap)
	if err != nil {
		return config.UsageError{Err: err}
	}
	from, weights, err := readModel(cfg, dir)
	if err != nil {
		return config.UsageError{Err: err}
	}
	if err := job.LoadModel(pol.Params(), weights); err != nil {
		return config.UsageError{Err: fmt.Errorf("%s: %w", from, err)}
	}
	test, _, err := job.EvalEnv(cfg, reg)
	if err != nil {
		return config.UsageError{Err: err}
	}
	if _, err := play.Film(reg.Envs, test); err != nil {
		return config.UsageError{Err: fmt.Errorf("env.eval.video_cfg: %w", err)}
	}
	if err := cfg.OpenVideos(); err != nil {
		return config.UsageError{Err: err}
	}
	ev, err := trainer.NewEvaluator(reg.Envs, test)
	if err != nil {
		return config.UsageError{Err: err}
	}
	film := cfg.VideoFile(strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
	ev.Film(film)
	sum, err := ev.Evaluate(pol, test.TotalNumEnvs, true)
	if err != nil {
		return err
	}
	if sum.NumTrajectories == 0 {
		return fmt.Errorf("%s: all %d episodes were lost, for their simulators failed", spec.Name, sum.NumLost)
	}
	fmt.Fprintf(out, "%s, %d episodes of %s\n  eval/return       %.4g\n  eval/episode_len  %.4g\n", from,
		sum.NumTrajectories, spec.Name, sum.Return, sum.EpisodeLen)
	if sum.NumLost > 0 {
		fmt.Fprintf(out, "  eval/num_lost     %d\n", sum.NumLost)
	}
	if spec.InfoIndex("success") >= 0 {
		fmt.Fprintf(out, "  eval/success_once %.4g\n", sum.SuccessOnce)
	}
	if spec.InfoIndex("wrong_object") >= 0 {
		fmt.Fprintf(out, "  eval/wrong_object %.4g\n", sum.WrongObject)
	}
	for i, name := range spec.Figures() {
		fmt.Fprintf(out, "  eval/info/%s %.4g\n", name, sum.Info[i])
	}
	if test.VideoCfg.SaveVideo {
		fmt.Fprintf(out, "  film              %s\n", film)
	}
	return nil
}

// readModel returns the tensors of a policy, and the folder or file that they are from.
func readModel(cfg *config.Config, dir string) (string, tensor.Dict, error) {
	if path := cfg.Runner.CkptPath; dir == "" && path != "" {
		d, err := job.ReadWeights("runner.ckpt_path", path)
		return path, d, err
	}
	if dir == "" {
		dir = filepath.Join(cfg.Folder(), "checkpoints", "latest")
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return "", tensor.Dict{}, fmt.Errorf("no checkpoint in %s: want a run that saved one "+
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
