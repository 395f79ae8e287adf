package session

import (
	"fmt"
	"os"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// showProgress shows, in the process of rank 0, where the job stands and what it is at, until stop is
// called. An evaluation shows it beside its errors, since its figures may be read by a program.
func (s *session) showProgress() (stop func()) {
	if s.lead != 0 {
		return func() {}
	}
	errs := s.log.to
	if errs == nil {
		errs = os.Stderr
	}
	out := s.Out
	if s.Evaluation != nil {
		out = errs
	}
	s.progress = metrics.NewProgress(out, metrics.On(s.Terminal))
	s.Out, s.log.to = s.progress.Above(s.Out), s.progress.Above(errs)
	end := s.progress.Watch()
	return func() {
		end()
		s.progress.Done()
	}
}

// phase names, on rank 0, the work of the job that begins now.
func (s *session) phase(w *spmd.World, name string) {
	if w.Rank() == 0 {
		s.progress.Phase(name)
	}
}

// counters returns loop.Services.Count of a rank. Actors update in step: the first of this process speaks for
// all. Workers that share their work count it together.
func (s *session) counters(w *spmd.World, j *job.Job) func(string, int) func(string, int, int) {
	if s.progress == nil {
		return nil
	}
	first := j.MembersOn("actor", w.Rank())
	if w.Describe().Transport != "mpi" {
		first = []int{0}
	}
	return func(component string, member int) func(string, int, int) {
		if component == "actor" && member != first[0] {
			return nil
		}
		return s.progress.Counter()
	}
}

// acknowledge answers a request to stop. It is called with false at any, and with true at a signal that
// stops at once when it comes again. late says that ranks take a step to agree.
func (s *session) acknowledge(late, atOnce bool) {
	stop, _ := s.Asked.Vote()
	if !atOnce && stop != loop.ExitRequeue {
		return // the other call follows
	}
	text := "stopping before the first step"
	if step := s.progress.Finishing(late); step > 0 {
		text = fmt.Sprintf("finishing step %d, then saving a checkpoint", step)
	}
	if atOnce {
		text += "; again to stop now"
	}
	s.progress.Print(text + "\n")
}
