package roles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

// runTrain is the root command: it trains, and returns the exit code of what it has explained
// itself.
func runTrain(c *cli.Context, reg Registries) (int, error) {
	_, launcher := mpi.Launched()
	s := &session{
		reg: reg, resume: c.String("resume"), asked: watch(),
		// Open MPI's ranks see a terminal whatever the user sees
		out: os.Stdout, live: launcher == "" && metrics.IsTerminal(os.Stdout),
		profile: profile{prefix: c.String("cpu-profile"), address: c.String("pprof")},
	}
	defer s.asked.close()
	cfg, configErr := configOf(c, &s.log)
	ranks, err := openWorld(c, cfg, configErr, &s.log)
	if err != nil {
		return 0, err
	}
	options := spmd.Options{Debug: c.Bool("debug"), ExitCode: s.failed, Log: &s.log}
	if cfg != nil {
		options.StallTimeout, options.VirtualNodes = cfg.Comm.StallTimeout, cfg.SPMD.Nodes
	}
	if s.lead = ranks[0].Rank(); s.lead == 0 {
		s.cfg, s.cfgErr = cfg, configErr
	}
	s.reg = reg.with(external.NewHub(&s.log, s.lead))
	debug.SetGCPercent(400)                    // little is allocated, and every rank has a collector
	spmd.Run(c.Context, ranks, options, s.run) // its error has been written, and is in the code
	err = s.close()
	return int(s.code.Load()), err
}

// openWorld returns the ranks of this process: an MPI process under a launcher, else as many
// goroutines as the placement needs. A stall is told on log.
func openWorld(c *cli.Context, cfg *Config, configErr error, log io.Writer) ([]spmd.Transport, error) {
	n, launcher := mpi.Launched()
	if launcher != "" && (n > 1 || mpi.Compiled) {
		if c.IsSet("np") {
			return nil, UsageError{fmt.Errorf("-np %d: %s has started the ranks already", c.Int("np"), launcher)}
		}
		options := mpi.Options{Log: log}
		if cfg != nil {
			if options.StallTimeout = cfg.Comm.StallTimeout; options.StallTimeout == 0 {
				options.StallTimeout = -1
			}
		}
		t, err := mpi.Open(options)
		if errors.Is(err, mpi.ErrMismatch) {
			return nil, UsageError{err}
		} else if err != nil {
			return nil, err
		}
		return []spmd.Transport{t}, nil
	}
	if configErr != nil {
		return nil, configErr
	}
	np, err := localRanks(c, cfg)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	return local.New(np), nil
}

// localRanks returns how many ranks a process without a launcher starts.
func localRanks(c *cli.Context, cfg *Config) (int, error) {
	if c.IsSet("np") {
		if np := c.Int("np"); np > 0 {
			return np, nil
		}
		return 0, UsageError{fmt.Errorf("-np %d: want a number of ranks > 0", c.Int("np"))}
	}
	np, whole := cfg.cluster().Extent()
	if whole {
		np = max(np, runtime.NumCPU())
	}
	return max(np, 1), nil
}

// runEval plays one episode in every evaluation environment with the policy of a checkpoint, in one
// process.
func runEval(c *cli.Context, reg Registries) error {
	cfg, err := configOf(c, c.App.ErrWriter)
	if err != nil {
		return err
	}
	return evaluateCheckpoint(c.App.Writer, cfg, reg, c.String("checkpoint"))
}

// evaluateCheckpoint writes the mean figures of one episode in every evaluation environment, with
// the policy in the checkpoint dir; "": the newest of the run's folder, or runner.ckpt_path.
func evaluateCheckpoint(out io.Writer, cfg *Config, reg Registries, dir string) error {
	spec, err := probe(reg, cfg.Env.Eval)
	if err != nil {
		return UsageError{err}
	}
	pol, err := reg.Policies.New(cfg.Actor.Model, spec, cfg.Actor.Seed, tensor.Heap)
	if err != nil {
		return UsageError{err}
	}
	from, weights, err := readModel(cfg, dir)
	if err != nil {
		return UsageError{err}
	}
	if err := loadModel(pol.Params(), weights); err != nil {
		return UsageError{fmt.Errorf("%s: %w", from, err)}
	}
	test, _, err := evaluationEnv(cfg, reg)
	if err != nil {
		return UsageError{err}
	}
	if err := drawable(reg, test); err != nil {
		return UsageError{fmt.Errorf("env.eval.video_cfg: %w", err)}
	}
	if err := cfg.openVideos(); err != nil {
		return UsageError{err}
	}
	ev, err := NewEvaluator(reg.Envs, test)
	if err != nil {
		return UsageError{err}
	}
	film := cfg.videoFile(strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
	ev.Film(film)
	sum, err := ev.Evaluate(pol)
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

// readModel returns the tensors of a policy, and where they are from.
func readModel(cfg *Config, dir string) (string, tensor.Dict, error) {
	if path := cfg.Runner.CkptPath; dir == "" && path != "" {
		d, err := readWeights("runner.ckpt_path", path)
		return path, d, err
	}
	if dir == "" {
		dir = filepath.Join(cfg.folder(), "checkpoints", "latest")
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return "", tensor.Dict{}, fmt.Errorf("no checkpoint in %s: want a run that saved one "+
				"(runner.save_interval), --checkpoint DIR or "+
				"runner.ckpt_path", cfg.folder())
		}
	}
	from, err := checkpoint.Load(dir)
	if err != nil {
		return "", tensor.Dict{}, err
	}
	d, err := readFile(from, modelFile)
	return from.Dir, d, err
}

// readWeights reads the file that key names.
func readWeights(key, path string) (tensor.Dict, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return tensor.Dict{}, fmt.Errorf("%s: %w", key, err)
	}
	d, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", key, path, err)
	}
	return d, err
}
