package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
)

// begin opens the run's folder on rank 0, and finds the state with which the run starts. It checks the user's settings
// before it changes anything in the folder.
func (r *rank) begin(ctx context.Context) (err error) {
	for _, note := range r.plan.Notes {
		r.warn(note)
	}
	cfg := r.plan.Config
	resume := cmp.Or(r.Resume, cfg.Runner.ResumeDir)
	if resume != "" && resume != config.ResumeAuto {
		r.from, err = loop.NamedState(&r.plan.JobPlan, r.saver.YAML, resume, r.Fork != "")
		err = r.explainSpaces(err, resume)
	} else if path := cfg.Runner.CkptPath; path != "" {
		r.from, err = loop.WeightsIn(&r.plan.JobPlan, path)
		err = r.explainSpaces(err, path)
	}
	if err == nil {
		err = cfg.OpenVideos()
	}
	if err != nil {
		return err
	}
	f, err := r.lock(ctx, cfg.Folder(), resume == config.ResumeAuto)
	if err != nil {
		return err
	}
	f.KeepAlive(cmp.Or(r.Heartbeat, runfolder.Heartbeat))
	if err := r.open(f, resume); err != nil {
		return errors.Join(err, f.Close())
	}
	r.folder.Store(f)
	return nil
}

// lock opens and locks the folder at path. A requeued job may find the lock of its killed predecessor. If nobody knows
// whether the predecessor still runs, its lock counts until a minute has passed without a heartbeat. So lock waits for
// that minute, but gives up at a heartbeat or a request to stop.
func (s *session) lock(ctx context.Context, path string, requeued bool) (*runfolder.Folder, error) {
	var last *runfolder.BusyError
	for {
		f, err := runfolder.Open(path, os.Getenv("SLURM_JOB_ID"))
		var busy *runfolder.BusyError
		if !requeued || !errors.As(err, &busy) || busy.Alive || last != nil && busy.Beat < last.Beat {
			return f, err
		}
		if last == nil {
			s.warn(fmt.Sprintf("%v; waiting for a sign that it is over", err))
		}
		last = busy
		if stop, _ := s.Asked.Vote(); stop != 0 {
			return nil, fmt.Errorf("%w; %w", err, external.ErrStopRequested)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// watchFolder ends the job if it loses the lock of the run's folder before ctx ends.
func (r *rank) watchFolder(ctx context.Context, f *runfolder.Folder) {
	r.w.Go("run folder", func() error {
		err := f.Lost(ctx)
		if err != nil {
			r.ending.Store(nil) // another job may have the folder by now
		}
		return err
	})
}

// open prepares the folder f for a run that starts with the state r.from. If resume is "auto", open first sets r.from
// to the newest usable checkpoint in f. It moves the files of an earlier run aside if resume is "", or if "auto" finds
// metrics but no checkpoint.
func (r *rank) open(f *runfolder.Folder, resume string) error {
	j := r.plan.Job
	store := func() (err error) {
		r.saver.Store, err = checkpoint.Open(f.Checkpoints(), j.Config.Runner.KeepCheckpoints)
		if err == nil && (r.Sweep || j.Config.Runner.EarlyStop.Enabled || checkpoint.Best(f.Checkpoints()) != "") {
			r.saver.Store.KeepBest()
		}
		return err
	}
	anew := resume == ""
	if resume == config.ResumeAuto {
		if err := store(); err != nil {
			return err
		}
		if err := r.findNewest(f); err != nil {
			return err
		}
		file, err := os.Stat(f.Metrics())
		anew = r.from.Step == 0 && err == nil && file.Size() > 0
	}
	if anew {
		if earlier, err := f.SetAside(); err != nil {
			return err
		} else if earlier != "" {
			fmt.Fprintf(r.Out, "an earlier run of this name is now in %s\n", earlier)
		}
	}
	if err := store(); err != nil {
		return err
	}
	step := r.from.Step
	if step > 0 {
		if _, err := r.saver.Store.Rewind(step); err != nil {
			return err
		}
	}
	lost, err := metrics.CutBack(f.Metrics(), step)
	if err != nil {
		return err
	}
	if _, err := metrics.CutBack(f.Generation(), step); err != nil {
		return err
	}
	if err := moves.CutBack(f.Path(), step); err != nil {
		return err
	}
	if own, err := filepath.EvalSymlinks(f.Checkpoints()); err == nil && own == filepath.Dir(r.from.From) {
		for _, gap := range lost {
			r.warn(fmt.Sprintf("%s lacks the metrics of %v", f.Metrics(), gap))
		}
	}
	switch {
	case step > 0:
		fmt.Fprintf(r.Out, "resuming from %s\n", printable.Line(r.from.From))
		if r.from.Rescheduled != "" {
			r.warn(r.from.Rescheduled)
		}
		if j.Async() {
			r.warn("runner.async: rollouts that were under way at the checkpoint are made anew, so its " +
				"metrics differ from those of an uninterrupted run")
		}
	case r.from.From != "":
		fmt.Fprintf(r.Out, "starting from the weights in %s\n", printable.Line(r.from.From))
	}
	if r.book, err = loop.OpenLogbook(f, &r.plan.JobPlan, r.from, r.progress, r.Asked.Deadline()); err != nil {
		return err
	}
	r.logbook.Store(r.book)
	if err := r.writePlan(f); err != nil {
		return err
	}
	return f.WriteConfig(r.saver.YAML)
}

// findNewest sets r.from to the state in the newest usable checkpoint in f, if there is one.
func (r *rank) findNewest(f *runfolder.Folder) error {
	c, rejected, err := r.saver.Store.Newest()
	if err != nil {
		return err
	}
	for _, why := range rejected {
		r.warn(fmt.Sprintf("not used: %v", why))
	}
	if c == nil {
		if file, err := os.Stat(f.Metrics()); len(rejected) > 0 || err == nil && file.Size() > 0 { // an earlier start
			r.warn("resume auto: no usable checkpoint in " + f.Checkpoints() + ": starting anew")
		}
		return nil
	}
	from, err := loop.StateIn(&r.plan.JobPlan, r.saver.YAML, c)
	if other := (*checkpoint.ConfigError)(nil); r.Sweep && errors.As(err, &other) {
		r.warn(strings.ReplaceAll(err.Error(), "\n", "") + ": starting anew")
		return nil
	}
	r.from = from
	return r.explainSpaces(err, c.Dir)
}
