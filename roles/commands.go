package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof" // its handlers, for --pprof
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

// runTrain is the root command: it trains, and returns the exit code of a run in which nothing failed.
func runTrain(c *cli.Context, reg Registries) (int, error) {
	s := &session{reg: reg, out: os.Stdout, asked: watch(), resume: c.String("resume")}
	defer s.asked.close()
	cfg, configErr := configOf(c)
	ranks, err := openWorld(c, cfg, configErr)
	if err != nil {
		return 0, err
	}
	options := spmd.Options{Debug: c.Bool("debug"), ExitCode: s.failed}
	if cfg != nil {
		options.StallTimeout, options.VirtualNodes = cfg.Comm.StallTimeout, cfg.SPMD.Nodes
	}
	if ranks[0].Rank() == 0 {
		s.cfg, s.cfgErr = cfg, configErr
	}
	stop, err := profile(c, ranks[0].Rank())
	if err != nil {
		return 0, UsageError{err}
	}
	defer stop()
	debug.SetGCPercent(400) // little is allocated, and every rank has a collector
	err = spmd.Run(c.Context, ranks, options, s.run)
	if err != nil {
		return ExitFailed, errReported
	}
	return int(s.code.Load()), nil
}

// errReported stands for an error that has been written where it happened.
var errReported = errors.New("")

// openWorld returns the ranks of this process: an MPI process under a launcher, else as many goroutines as the placement needs.
func openWorld(c *cli.Context, cfg *Config, configErr error) ([]spmd.Transport, error) {
	n, launcher := mpi.Launched()
	if launcher != "" && (n > 1 || mpi.Compiled) {
		if c.IsSet("np") {
			return nil, UsageError{fmt.Errorf("-np %d: %s has started the ranks already", c.Int("np"), launcher)}
		}
		options := mpi.Options{}
		if cfg != nil {
			if options.StallTimeout = cfg.Comm.StallTimeout; options.StallTimeout == 0 {
				options.StallTimeout = -1
			}
		}
		t, err := mpi.Open(options)
		if err != nil {
			return nil, UsageError{err}
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
	if np > 1 {
		fmt.Fprintf(os.Stderr, "no launcher: %d ranks as goroutines of this process\n", np)
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

// profile starts what --cpu-profile and --pprof ask for, and returns what ends it.
func profile(c *cli.Context, rank int) (stop func(), err error) {
	stop = func() {}
	if prefix := c.String("cpu-profile"); prefix != "" {
		f, err := os.Create(fmt.Sprintf("%s-rank-%d.pprof", prefix, rank))
		if err != nil {
			return nil, fmt.Errorf("--cpu-profile: %w", err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		stop = func() { pprof.StopCPUProfile(); f.Close() }
	}
	if addr := c.String("pprof"); addr != "" {
		host, port, ok := strings.Cut(addr, ":")
		n, err := strconv.Atoi(port)
		if !ok || err != nil {
			return nil, fmt.Errorf("--pprof %q: want HOST:PORT", addr)
		}
		go http.ListenAndServe(fmt.Sprintf("%s:%d", host, n+rank), nil)
	}
	return stop, nil
}

// failed is called with the job's first error: it marks the run's folder, and returns the exit code.
func (s *session) failed(error) int {
	if f := s.folder.Load(); f != nil {
		f.SetStatus(runfolder.Failed)
	}
	return ExitFailed
}

// runEval plays one episode in every evaluation environment with the policy of a checkpoint, in this process alone.
func runEval(c *cli.Context, reg Registries) error {
	if n, launcher := mpi.Launched(); n > 1 {
		return UsageError{fmt.Errorf("rlinf eval runs in one process, and %s started %d: start it alone", launcher, n)}
	}
	cfg, err := configOf(c)
	if err != nil {
		return err
	}
	return evaluateCheckpoint(c.Context, c.App.Writer, cfg, reg, c.String("checkpoint"))
}

// evaluateCheckpoint writes the mean figures of one episode in every evaluation environment, with the policy in the checkpoint dir; "":
// the newest of the run's folder, or runner.ckpt_path.
func evaluateCheckpoint(ctx context.Context, out io.Writer, cfg *Config, reg Registries, dir string) error {
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
	test, err := evaluationEnv(cfg, reg)
	if err != nil {
		return UsageError{err}
	}
	ev, err := NewEvaluator(reg.Envs, test)
	if err != nil {
		return UsageError{err}
	}
	sum, err := ev.Evaluate(pol)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %d episodes of %s\n  eval/return       %.4g\n  eval/episode_len  %.4g\n", from, sum.NumTrajectories, spec.Name, sum.Return, sum.EpisodeLen)
	if spec.InfoIndex("success") >= 0 {
		fmt.Fprintf(out, "  eval/success_once %.4g\n", sum.SuccessOnce)
	}
	return nil
}

// readModel returns the tensors of a policy, and where they are from.
func readModel(cfg *Config, dir string) (string, tensor.Dict, error) {
	if path := cfg.Runner.CkptPath; dir == "" && path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", tensor.Dict{}, fmt.Errorf("runner.ckpt_path: %w", err)
		}
		d, _, err := tensor.ReadSafetensors(b)
		if err != nil {
			err = fmt.Errorf("runner.ckpt_path: %s: %w", path, err)
		}
		return path, d, err
	}
	if dir == "" {
		dir = filepath.Join(cfg.Runner.Logger.LogPath, cfg.Runner.Logger.ExperimentName, "checkpoints", "latest")
	}
	from, err := checkpoint.Load(dir)
	if err != nil {
		return "", tensor.Dict{}, err
	}
	d, err := readFile(from, modelFile)
	return from.Dir, d, err
}
