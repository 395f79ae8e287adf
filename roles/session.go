package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/spmd"
)

// A session is one start of a job: what the ranks of this process share.
type session struct {
	reg    Registries
	resume string  // "", auto, or a checkpoint's folder
	cfg    *Config // of rank 0, and with goroutine ranks everyone's; nil elsewhere
	cfgErr error   // what was wrong with it
	asked  *requests
	out    io.Writer
	code   atomic.Int64                     // the exit code, where nothing failed
	folder atomic.Pointer[runfolder.Folder] // of rank 0, while it is open
}

// mayChange are the keys that a resumed run may have changed.
var mayChange = [...]string{
	"runner.max_steps", "runner.max_epochs", "runner.max_time", "runner.val_check_interval", "runner.save_interval",
	"runner.keep_checkpoints", "runner.resume_dir", "runner.logger", "cluster", "spmd", "comm", "env.eval",
}

// run is the life of one rank of a training job.
func (s *session) run(ctx context.Context, w *spmd.World) error {
	all := make([]int, w.Size())
	for r := range all {
		all[r] = r
	}
	ends, err := w.NewComm(all, "state")
	if err != nil {
		return err
	}
	world := collectives.New(ends[0], w.Alloc)
	cfg, err := s.configure(ctx, w, world)
	if err != nil || cfg == nil {
		return err
	}
	j, err := newJob(cfg, s.reg, w.Nodes())
	if err != nil {
		s.refuse(w, err)
		return nil // every rank found the same
	}
	sv := &saver{group: world, ranks: w.Size(), saved: -1, yaml: cfg.Resolved(), warn: s.warn}
	book, from, err := s.openFolder(w, j, sv)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed || err != nil {
		return err
	}
	r, err := launch(ctx, w, j, sv)
	if err != nil {
		return err
	}
	r.log = book
	if err := s.restore(ctx, r, from); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f := s.folder.Load(); f != nil && w.Rank() == 0 {
		w.Go("run folder", func() error { return f.KeepAlive(ctx) })
		if err := f.SetStatus(runfolder.Running); err != nil {
			return err
		}
	}
	r.requests = s.asked
	s.asked.expire(cfg.Runner.MaxTime)
	if err := r.Run(ctx); err != nil {
		return err
	}
	if err := r.saveTrace(ctx, world, s.traceFile(cfg)); err != nil {
		return err
	}
	return s.finish(w, r, book)
}

// configure returns the configuration that rank 0 has read.
func (s *session) configure(ctx context.Context, w *spmd.World, world *collectives.Group) (*Config, error) {
	if agreed, err := s.agreeTo(ctx, w, world, s.cfgErr); !agreed {
		return nil, err
	}
	var text []byte
	if w.Rank() == 0 {
		text = s.cfg.Resolved()
	}
	text, err := broadcastBytes(ctx, world, text)
	if err != nil || w.Rank() == 0 {
		return s.cfg, err
	}
	return ParseConfig(text)
}

// agreeTo tells all ranks whether rank 0 has err. If so rank 0 writes it, and nobody goes on: it is the user's to mend.
func (s *session) agreeTo(ctx context.Context, w *spmd.World, world *collectives.Group, err error) (bool, error) {
	flag := []byte{0}
	if err != nil {
		flag[0] = 1
	}
	if err := world.Broadcast(ctx, flag, 0); err != nil {
		return false, err
	}
	if flag[0] != 0 {
		s.refuse(w, err)
		return false, nil
	}
	return true, nil
}

// refuse ends the session before it has begun, with one message from rank 0.
func (s *session) refuse(w *spmd.World, err error) {
	s.code.Store(ExitConfig)
	if w.Rank() == 0 {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (s *session) warn(text string) { fmt.Fprintln(os.Stderr, "warning:", text) }

// openFolder opens the run's folder on rank 0, finds the checkpoint to go on from, and starts the log.
func (s *session) openFolder(w *spmd.World, j *job, sv *saver) (*logbook, *checkpoint.Checkpoint, error) {
	if w.Rank() != 0 {
		return nil, nil, nil
	}
	logger := j.cfg.Runner.Logger
	f, err := runfolder.Open(filepath.Join(logger.LogPath, logger.ExperimentName), os.Getenv("SLURM_JOB_ID"))
	if err != nil {
		return nil, nil, err
	}
	s.folder.Store(f)
	from, err := s.findCheckpoint(f, j, sv)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	book, err := openLogbook(f, j, from, s.out)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return book, from, f.WriteConfig(sv.yaml)
}

// findCheckpoint opens the store of f and returns the checkpoint that this session goes on from, nil for a new run. A new run moves what
// an earlier one left aside.
func (s *session) findCheckpoint(f *runfolder.Folder, j *job, sv *saver) (from *checkpoint.Checkpoint, err error) {
	resume := s.resume
	if resume == "" {
		resume = j.cfg.Runner.ResumeDir
	}
	if resume != "" && resume != "auto" {
		if from, err = checkpoint.Load(resume); err != nil {
			return nil, err
		}
	}
	if resume == "" {
		if earlier, err := f.SetAside(); err != nil {
			return nil, err
		} else if earlier != "" {
			fmt.Fprintf(s.out, "an earlier run of this name is now in %s\n", earlier)
		}
	}
	if sv.store, err = checkpoint.Open(f.Checkpoints(), j.cfg.Runner.KeepCheckpoints); err != nil {
		return nil, err
	}
	if resume == "auto" {
		var rejected []error
		if from, rejected, err = sv.store.Newest(); err != nil {
			return nil, err
		}
		for _, r := range rejected {
			s.warn(fmt.Sprintf("not used: %v", r))
		}
		if from == nil {
			s.warn("resume auto: no usable checkpoint in " + f.Checkpoints() + ": starting anew")
		}
	}
	if from == nil {
		_, err = metrics.CutBack(f.Metrics(), 0)
		return nil, err
	}
	if err := from.CheckConfig(sv.yaml, mayChange[:]...); err != nil {
		return nil, err
	}
	if _, err := sv.store.Rewind(from.Step); err != nil {
		return nil, err
	}
	if _, err := metrics.CutBack(f.Metrics(), from.Step); err != nil {
		return nil, err
	}
	fmt.Fprintf(s.out, "resuming from %s\n", from.Dir)
	return from, nil
}

// openLogbook opens the files that metrics go to.
func openLogbook(f *runfolder.Folder, j *job, from *checkpoint.Checkpoint, out io.Writer) (*logbook, error) {
	b := &logbook{job: j}
	b.state = metrics.State{MaxStep: j.maxSteps, Return: math.NaN(), Eval: math.NaN()}
	if j.maxSteps == math.MaxInt64 {
		b.state.MaxStep = 0
	}
	if from != nil {
		b.state.Step, b.state.EnvSteps = from.Step, from.Step*j.envSteps()
	}
	var err error
	if b.log, err = metrics.OpenLog(f.Metrics()); err != nil {
		return nil, err
	}
	for _, backend := range j.cfg.Runner.Logger.LoggerBackends {
		if backend == "tensorboard" {
			host, _ := os.Hostname()
			if b.events, err = metrics.CreateEvents(f.TensorBoard(), host, time.Now(), b.state.Step+1); err != nil {
				return nil, err
			}
		}
	}
	file, isFile := out.(*os.File)
	b.progress = metrics.NewProgress(out, isFile && metrics.IsTerminal(file), b.state, time.Now)
	return b, nil
}

// restore hands out the state of the checkpoint from, or the weights of runner.ckpt_path; nothing where there is neither.
func (s *session) restore(ctx context.Context, r *EmbodiedRunner, from *checkpoint.Checkpoint) error {
	return r.saver.restore(ctx, r, from)
}

// traceFile returns where the trace goes.
func (s *session) traceFile(cfg *Config) string {
	if file := cfg.Cluster.Tracer.OutputFile; file != "" {
		return file
	}
	return filepath.Join(cfg.Runner.Logger.LogPath, cfg.Runner.Logger.ExperimentName, "trace.json")
}

// finish leaves the run's folder in order.
func (s *session) finish(w *spmd.World, r *EmbodiedRunner, book *logbook) error {
	status := runfolder.Done
	if r.stopped != 0 {
		s.code.Store(int64(r.stopped - 1))
		status = runfolder.Interrupted
		if r.stopped-1 == ExitRequeue {
			status = runfolder.Checkpointed
		}
	}
	if w.Rank() != 0 {
		return nil
	}
	err := book.close()
	if err == nil {
		err = s.folder.Load().SetStatus(status)
	}
	return errors.Join(err, s.folder.Load().Close())
}
