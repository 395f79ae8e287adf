package session

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/spmd"
)

// finish leaves the run's folder in order, and writes the last lines.
func (s *session) finish(w *spmd.World, stopped int, book *runner.Logbook) error {
	status := runfolder.Done
	if stopped != 0 {
		s.code.Store(int64(stopped - 1))
		status = statusOf(stopped - 1)
	}
	if w.Rank() != 0 {
		return nil
	}
	err := book.Close()
	if err == nil {
		err = s.folder.Load().SetStatus(status)
	}
	if err != nil {
		return err
	}
	if end := s.ending.Swap(nil); end != nil { // a second signal changes nothing any more
		end.write(s.Out, status, book.Where())
	}
	return nil
}

// statusOf returns the status of a run that ends with an exit code before its last step.
func statusOf(code int) runfolder.Status {
	switch code {
	case runner.ExitRequeue:
		return runfolder.Checkpointed
	case runner.ExitInterrupted, runner.ExitTerminated, runner.ExitHungUp:
		return runfolder.Interrupted
	}
	return runfolder.Failed
}

// abandon is called before a second signal ends the process.
func (s *session) abandon(code int) {
	end := s.ending.Load()
	if end == nil {
		return
	}
	runfolder.Mark(end.cfg.Folder(), statusOf(code)) // what is wrong with that changes nothing
	if s.lead == 0 {
		end.write(s.Out, statusOf(code), "")
	}
}

// failing is called with the job's first error, before its line is written: it marks the run's
// folder. The process that fails does so, because rank 0 may not live to do it.
func (s *session) failing(f *spmd.Failure) {
	if f.Stack != nil {
		s.log.Keep(append(f.Stack, '\n'))
	}
	s.fail()
}

// Stalled is called when a rank fell silent, with the stacks of this process, before the line that
// names that rank is written.
func (s *session) Stalled(stacks []byte) {
	s.log.Keep(append(stacks, '\n'))
	s.fail()
}

// fail marks the run's folder as that of a run that failed, and says how to go on.
func (s *session) fail() {
	if end := s.ending.Load(); end != nil {
		runfolder.Mark(end.cfg.Folder(), runfolder.Failed) // the error itself is what counts
		end.write(&s.log, runfolder.Failed, "")
	}
}

// failed returns the exit code of the job's first error.
func (s *session) failed(error) int {
	s.code.Store(runner.ExitFailed)
	return runner.ExitFailed
}

// An ending is what the last lines of a run need to know.
type ending struct {
	cfg     *config.Config
	program string // how it is called in one process; "": nothing is written
	launch  string // what stands before it to start all ranks
	ranks   string // what stands behind it to start them
	foreign bool   // other programs take part in the job
}

// newEnding returns the ending of j as it was started.
func (s *session) newEnding(w *spmd.World, j *job.Job) *ending {
	e := &ending{cfg: j.Config, program: s.Command, foreign: w.ForeignPeers() != nil}
	switch launcher := w.Describe().Launcher; launcher {
	case "":
		if n, whole := j.Config.ClusterSpec().Extent(); whole || n != w.Size() {
			e.ranks = fmt.Sprintf(" -np %d", w.Size())
		}
	case "srun":
		e.launch = fmt.Sprintf("srun -n %d ", w.Size())
	default:
		e.launch = fmt.Sprintf("%s -np %d ", launcher, w.Size())
	}
	return e
}

// WriteNext writes what has become of the run of cfg, where it and its newest checkpoint are, and the
// commands of one process that go on with it. program is how rlinf is called.
func WriteNext(out io.Writer, program string, cfg *config.Config, status runfolder.Status, where string) {
	(&ending{cfg: cfg, program: program}).write(out, status, where)
}

// write writes the last lines. where says how far the run has come; "": nothing.
func (e *ending) write(out io.Writer, status runfolder.Status, where string) {
	if e.program == "" {
		return
	}
	line := func(label, format string, args ...any) {
		fmt.Fprintf(out, "%-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	folder := e.cfg.Folder()
	what := string(status)
	if where != "" {
		what += " " + where
	}
	line("run", "%s: %s", folder, what)
	program, config := quote(e.program), quote(filepath.Join(folder, "config.yaml"))
	again := fmt.Sprintf("%s%s -c %s%s", e.launch, program, config, e.ranks)
	if e.foreign {
		again = "the command of this job, with"
	}
	saved := checkpoint.Latest(filepath.Join(folder, "checkpoints"))
	if saved == "" {
		line("checkpoint", "none")
		if status != runfolder.Done && !e.foreign {
			line("again", "%s", again)
		}
	} else {
		line("checkpoint", "%s", saved)
		line("resume", "%s --resume auto%s", again, e.longer(status))
		if !e.cfg.FineTunes() {
			line("evaluate", "%s eval -c %s", program, config)
		}
	}
	label := "look"
	line(label, "%s compare %s", program, quote(folder))
	label = ""
	if slices.Contains(e.cfg.Runner.Logger.LoggerBackends, "tensorboard") {
		line(label, "tensorboard --logdir %s", quote(filepath.Join(folder, "tensorboard")))
	}
}

// longer returns the arguments with which a run that is done goes on, twice as long.
func (e *ending) longer(status runfolder.Status) string {
	r, n := &e.cfg.Runner, e.cfg.Runner.Iterations()
	if status != runfolder.Done || n <= 0 {
		return ""
	}
	args := ""
	if r.MaxEpochs == n {
		args += fmt.Sprintf(" runner.max_epochs=%d", 2*n)
	}
	if r.MaxSteps == n {
		args += fmt.Sprintf(" runner.max_steps=%d", 2*n)
	}
	return args
}

// quote returns a word as a shell wants it.
func quote(word string) string {
	const plain = "/._-+=,:@%0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
