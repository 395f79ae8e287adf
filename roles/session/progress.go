package session

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/job"
)

// showProgress shows the progress of the job and its present phase until stop is called. Only the process of rank 0
// shows them. An evaluation uses the error output, because a program may read its standard output.
func (s *session) showProgress() (stop func()) {
	if s.lead != 0 {
		return func() {}
	}
	errs := cmp.Or(s.log.to, io.Writer(os.Stderr))
	out := s.Out
	if s.Evaluation != nil {
		out = errs
	}
	s.progress = metrics.NewProgressLine(out, metrics.On(s.Terminal))
	s.Out, s.log.to = s.progress.Above(printable.NewWriter(s.Out)), s.progress.Above(errs)
	end := s.progress.Watch()
	return func() {
		end()
		s.logbook.Load().Stop()
		s.progress.Done()
	}
}

// phase shows the name of the work that begins now. Only rank 0 shows it.
func (r *rank) phase(name string) {
	if r.w.Rank() == 0 {
		r.progress.Phase(name)
	}
}

// counters returns the value of loop.Services.Count for this rank. All actors make the same updates, so only the first
// actor of this process reports. The workers of other components divide their work, so their counts are added.
func (r *rank) counters(j *job.Job) func(string, int) func(string, int, int) {
	if r.progress == nil {
		return nil
	}
	first := j.MembersOn("actor", r.w.Rank())
	if r.w.Describe().Transport != "mpi" {
		first = []int{0}
	} else {
		r.progress.Forget() // workers may have left this process in a move
	}
	return func(component string, member int) func(string, int, int) {
		if component == "actor" && member != first[0] {
			return nil
		}
		return r.counts.counter(r.progress, component, member)
	}
}

// counts are the counters of the workers whose progress this process shows, in all worlds.
type counts struct {
	mu  sync.Mutex
	all map[string]func(string, int, int)
}

// counter returns the counter of a worker. The counter adds to p.
func (c *counts) counter(p *metrics.ProgressLine, component string, member int) func(string, int, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	worker := fmt.Sprint(component, " ", member)
	if c.all[worker] == nil {
		c.all[worker] = p.Counter()
	}
	return c.all[worker]
}

// acknowledge prints an answer to a request to stop. If atOnce is true, another signal will end the process. If late is
// true, the ranks need one more step to agree.
func (s *session) acknowledge(late, atOnce bool) {
	text := "stopping before the first step"
	if step := s.logbook.Load().End(late); step > 0 {
		text = fmt.Sprintf("finishing step %d, then saving a checkpoint", step)
	}
	if atOnce {
		text += "; again to stop now"
	}
	s.progress.Print(text + "\n")
}
