package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
)

// begin opens the run's folder on rank 0, and returns the run's logbook and the state with which it starts. It
// finds mistakes of the user before it changes anything in the folder.
func (s *session) begin(ctx context.Context, p task.Plan, sv *loop.Saver) (*loop.Logbook, loop.StartState, error) {
	for _, note := range p.Notes() {
		s.warn(note)
	}
	j := p.Common()
	resume := cmp.Or(s.Resume, j.Config.Runner.ResumeDir)
	var b loop.StartState
	var err error
	if resume != "" && resume != config.ResumeAuto {
		b, err = loop.NamedState(p, sv.YAML, resume)
	} else if path := j.Config.Runner.CkptPath; path != "" {
		b, err = loop.WeightsIn(p, path)
	}
	if err == nil {
		err = j.Config.OpenVideos()
	}
	if err != nil {
		return nil, b, err
	}
	f, err := s.lock(ctx, j.Config.Folder(), resume == config.ResumeAuto)
	if err != nil {
		return nil, b, err
	}
	book, b, err := s.open(f, p, sv, resume, b)
	if err != nil {
		return nil, b, errors.Join(err, f.Close())
	}
	s.folder.Store(f)
	return book, b, nil
}

// lock opens the folder path. If wait is set, which is for a requeued job, it waits for the lock of a job that was
// killed on another host. Such a lock looks alive until it has had no heartbeat for a minute. lock stops waiting
// after a heartbeat, or when the job is asked to stop.
func (s *session) lock(ctx context.Context, path string, wait bool) (*runfolder.Folder, error) {
	var last *runfolder.BusyError
	for {
		f, err := runfolder.Open(path, os.Getenv("SLURM_JOB_ID"))
		var busy *runfolder.BusyError
		if host, _ := os.Hostname(); !wait || !errors.As(err, &busy) || busy.Owner.Host == host ||
			last != nil && busy.Beat < last.Beat {
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

// open prepares the folder f for a run that starts with b, or, if resume is auto, with the newest usable checkpoint
// in f. A run that does not resume moves the files of an earlier run aside. With auto, a run also does so if the
// earlier run has metrics but no checkpoint.
func (s *session) open(f *runfolder.Folder, p task.Plan, sv *loop.Saver, resume string,
	b loop.StartState) (*loop.Logbook, loop.StartState,
	error) {
	j := p.Common()
	store := func() (err error) {
		sv.Store, err = checkpoint.Open(f.Checkpoints(), j.Config.Runner.KeepCheckpoints)
		if err == nil && s.KeepBest {
			sv.Store.KeepBest()
		}
		return err
	}
	anew := resume == ""
	var err error
	if resume == config.ResumeAuto {
		if err = store(); err == nil {
			b, err = s.newest(f, p, sv, b)
		}
		if err != nil {
			return nil, b, err
		}
		file, err := os.Stat(f.Metrics())
		anew = b.Step == 0 && err == nil && file.Size() > 0
	}
	if anew {
		if earlier, err := f.SetAside(); err != nil {
			return nil, b, err
		} else if earlier != "" {
			fmt.Fprintf(s.Out, "an earlier run of this name is now in %s\n", earlier)
		}
	}
	if err := store(); err != nil {
		return nil, b, err
	}
	if b.Step > 0 {
		if _, err := sv.Store.Rewind(b.Step); err != nil {
			return nil, b, err
		}
	}
	lost, err := metrics.CutBack(f.Metrics(), b.Step)
	if err != nil {
		return nil, b, err
	}
	if _, err := metrics.CutBack(f.Generation(), b.Step); err != nil {
		return nil, b, err
	}
	if err := moves.CutBack(f.Path(), b.Step); err != nil {
		return nil, b, err
	}
	if own, err := filepath.EvalSymlinks(f.Checkpoints()); err == nil && own == filepath.Dir(b.From) {
		for _, gap := range lost {
			s.warn(fmt.Sprintf("%s lacks the metrics of %v", f.Metrics(), gap))
		}
	}
	switch {
	case b.Step > 0:
		fmt.Fprintf(s.Out, "resuming from %s\n", b.From)
		if b.Rescheduled != "" {
			s.warn(b.Rescheduled)
		}
		if j.Async() {
			s.warn("runner.async: rollouts that were under way at the checkpoint are made anew, so its " +
				"metrics differ from those of an uninterrupted run")
		}
	case b.From != "":
		fmt.Fprintf(s.Out, "starting from the weights in %s\n", b.From)
	}
	book, err := loop.OpenLogbook(f, p, b, s.progress, s.Asked.Deadline())
	if err != nil {
		return nil, b, err
	}
	if err := s.writePlan(f); err != nil {
		return nil, b, err
	}
	return book, b, f.WriteConfig(sv.YAML)
}

// newest loads the newest usable checkpoint in f; if there is none, it returns b.
func (s *session) newest(f *runfolder.Folder, p task.Plan, sv *loop.Saver, b loop.StartState) (loop.StartState,
	error) {
	c, rejected, err := sv.Store.Newest()
	if err != nil {
		return b, err
	}
	for _, r := range rejected {
		s.warn(fmt.Sprintf("not used: %v", r))
	}
	if c == nil {
		s.warn("resume auto: no usable checkpoint in " + f.Checkpoints() + ": starting anew")
		return b, nil
	}
	return loop.StateIn(p, sv.YAML, c)
}
