package session

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// finish closes the run's files, marks its folder with the outcome, and writes the last lines of output.
func (r *rank) finish(stopped int) error {
	status := runfolder.Done
	if stopped != 0 {
		r.code.Store(int64(stopped))
		status = statusOf(stopped)
	}
	if r.w.Rank() != 0 {
		return nil
	}
	err := r.book.Close()
	if err == nil {
		err = r.folder.Load().SetStatus(status)
	}
	if err != nil {
		return err
	}
	if end := r.ending.Swap(nil); end != nil { // from now on a second signal does not change the folder
		end.write(r.Out, status, r.book.Step(), r.book.Where())
	}
	return nil
}

// statusOf returns the status of a run that ended early, with this exit code.
func statusOf(code int) runfolder.Status {
	switch code {
	case loop.ExitRequeue:
		return runfolder.Checkpointed
	case loop.ExitInterrupted, loop.ExitTerminated, loop.ExitHungUp:
		return runfolder.Interrupted
	}
	return runfolder.Failed
}

// abandon is called before a second signal ends the process. It marks the run's folder, and rank 0 writes the last
// lines.
func (s *session) abandon(code int) {
	s.progress.Done()
	end := s.ending.Load()
	if end == nil {
		return
	}
	s.ranks.flush()
	runfolder.Mark(end.cfg.Folder(), statusOf(code)) // the process ends, even after an error
	if s.lead == 0 {
		end.write(s.Out, statusOf(code), end.lastStep(), "")
	}
}

// failing marks the run's folder. The process with the job's first error calls failing before the error is written.
// This cannot be left to rank 0, which may have died.
func (s *session) failing(f *spmd.Failure) {
	s.progress.Done()
	if f.Stack != nil {
		s.log.Keep(append(f.Stack, '\n'))
	}
	s.fail()
}

// Stalled is called when a rank has stopped responding, before the line that names the rank is written. It logs the
// stacks of this process, and marks the run's folder as failed.
func (s *session) Stalled(stacks []byte) {
	s.progress.Done()
	s.log.Keep(append(stacks, '\n'))
	s.fail()
}

// fail marks the run's folder as failed, and writes the commands that continue the run.
func (s *session) fail() {
	if end := s.ending.Load(); end != nil {
		s.ranks.flush()
		runfolder.Mark(end.cfg.Folder(), runfolder.Failed) // ignore its error: the job's error matters more
		end.write(&s.log, runfolder.Failed, end.lastStep(), "")
	}
}

// failed returns the exit code for the job's first error.
func (s *session) failed(error) int {
	s.code.Store(loop.ExitFailed)
	return loop.ExitFailed
}

// An ending has the data for the last lines of a run's output.
type ending struct {
	cfg     *config.Config
	program string // how the user calls rlinf in one process; "" to write nothing
	launch  string // the launcher's words before the program, such as "srun -n 4 "
	ranks   string // the flag for the number of ranks, after the program
	place   string // overrides that name the run's folder; "" if the configuration names it
	most    int64  // iterations of the whole run; 0 if unknown
}

// newEnding returns the ending of the run. It has the command that started the run.
func (r *rank) newEnding() *ending {
	j := r.plan.Job
	e := &ending{cfg: j.Config, program: r.Command, most: plannedSteps(j)}
	e.launchedBy(r.w.Describe().Launcher, r.w.Size(), os.Getenv)
	return e
}

// plannedSteps returns the number of iterations of j, or 0 if it is unknown.
func plannedSteps(j *job.Job) int64 {
	if j.MaxSteps == math.MaxInt64 {
		return 0
	}
	return j.MaxSteps
}

// launchedBy sets e.launch if there is a launcher, else e.ranks. size is the number of ranks of the job, and getenv
// returns environment variables of the job.
func (e *ending) launchedBy(launcher string, size int, getenv func(string) string) {
	if launcher != "" {
		e.launch = Launch(launcher, size, getenv)
	} else if n, whole := e.cfg.Extent(); whole || n != size {
		e.ranks = fmt.Sprintf(" -np %d", size)
	}
}

// Launch returns the launcher's words before the program, such as "srun -n 4 ". size is the number of ranks of the job,
// and getenv returns environment variables of the job.
func Launch(launcher string, size int, getenv func(string) string) string {
	if launcher == "srun" {
		return fmt.Sprintf("srun %s-n %d ", startUp(getenv), size)
	}
	launcher = launcherHere(launcher)
	flags := ""
	if Oversubscribed(getenv) {
		flags += "--oversubscribe "
	}
	if getenv("OMPI_MCA_hwloc_base_binding_policy") == "none" {
		flags += "--bind-to none "
	}
	return fmt.Sprintf("%s %s-np %d ", printable.Quote(launcher), flags, size) // the launcher may come from a file
}

// startUp returns the option of srun for the protocol by which the ranks of a job found each other. It returns "" if
// the environment does not name this protocol.
func startUp(getenv func(string) string) string {
	switch kind := getenv("SLURM_MPI_TYPE"); {
	case kind != "" && kind != "none":
		return "--mpi=" + printable.Quote(kind) + " "
	case getenv("PMIX_NAMESPACE") != "":
		return "--mpi=pmix "
	case getenv("PMI_FD") != "":
		return "--mpi=pmi2 "
	}
	return ""
}

// launcherHere returns the name of a launcher on this host: mpirun of Open MPI or mpiexec of MPICH. If the plain name
// starts another MPI, it returns the longer name that Debian gives.
func launcherHere(launcher string) string {
	path, err := exec.LookPath(launcher)
	if err != nil {
		return launcher
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return launcher
	}
	hydra, openMPI := strings.Contains(filepath.Base(path), "hydra"), strings.HasSuffix(filepath.Base(path), "terun")
	var names []string
	switch {
	case launcher == "mpirun" && hydra:
		names = []string{"mpirun.openmpi"}
	case launcher == "mpiexec" && openMPI: // orterun, prterun
		names = []string{"mpiexec.mpich", "mpiexec.hydra"}
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return launcher
}

// Oversubscribed reports whether Open MPI allowed a job more ranks on a host than the host has cores.
func Oversubscribed(getenv func(string) string) bool {
	return getenv("OMPI_MCA_rmaps_base_oversubscribe") == "1"
}

// WriteNext writes the status of the run in the folder dir, and the commands that continue the run. cfg is the run's
// configuration, and program is how the user calls rlinf. If launchable is false, the commands have no launcher. step
// is the number of iterations made, and progress is a text about these iterations.
func WriteNext(out io.Writer, program string, launchable bool, cfg *config.Config, dir string,
	status runfolder.Status, step int64, progress string) {
	here := *cfg
	e := &ending{cfg: &here, program: program, most: int64(max(cfg.Runner.Iterations(), 0))}
	if start, ok := runfolder.LastStart(dir); ok {
		if !launchable {
			start.Launcher = ""
		}
		e.launchedBy(start.Launcher, len(start.Hosts), func(name string) string { return start.Env[name] })
		e.most = start.Iterations
	}
	if status == runfolder.Done && e.stoppedEarly(step) {
		progress += " by runner.early_stop"
	}
	if l := &here.Runner.Logger; !sameFolder(dir, cfg.Folder()) {
		l.LogPath, l.ExperimentName = filepath.Dir(dir), filepath.Base(dir)
		e.place = " " + printable.Quote("runner.logger.log_path="+l.LogPath) + " " +
			printable.Quote("runner.logger.experiment_name="+l.ExperimentName)
		progress += "; other paths are relative to the folder in which the job was started"
	}
	e.write(out, status, step, progress)
}

func sameFolder(a, b string) bool {
	at, err := os.Stat(a)
	bt, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(at, bt)
}

// write writes the last lines of a run. step is the number of iterations made. progress describes these iterations.
func (e *ending) write(out io.Writer, status runfolder.Status, step int64, progress string) {
	if e.program == "" {
		return
	}
	line := func(label, format string, args ...any) {
		fmt.Fprintf(out, "%-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	folder := e.cfg.Folder()
	what := printable.Line(string(status))
	if progress != "" {
		what += " " + progress
	}
	line("run", "%s: %s", printable.Line(folder), what)
	program, config := printable.Quote(e.program), printable.Quote(filepath.Join(folder, "config.yaml"))
	anew := fmt.Sprintf("%s%s -c %s%s", e.launch, program, config, e.ranks)
	evaluate := fmt.Sprintf("%s eval -c %s%s", program, config, e.place)
	if envs := &e.cfg.Env; envs.Train.External.Listen == env.ListenMPI || envs.Eval.External.Listen == env.ListenMPI {
		anew = "the command of this job, with"
		if envs.Eval.External.Listen == env.ListenMPI {
			evaluate = "the command of this job, with eval before -c"
		}
	}
	saved := checkpoint.Latest(filepath.Join(folder, "checkpoints"))
	line("checkpoint", "%s", cmp.Or(printable.Line(saved), "none"))
	best := filepath.Join(folder, "checkpoints", "best")
	if top := checkpoint.Best(filepath.Dir(best)); top == "" {
		best = ""
	} else {
		line("best", "%s, by the evaluation after its step", printable.Line(top))
		evaluate += " --checkpoint " + printable.Quote(best)
	}
	barren := status == runfolder.Failed && e.barren()
	switch {
	case status == runfolder.Running:
	case barren || saved == "" && status != runfolder.Done:
		line("rerun", "%s", strings.TrimSuffix(anew+e.place, ", with"))
		if barren {
			line("", "after a repair of the simulator: it has completed no episode")
		}
	case saved != "" && status == runfolder.Done && step >= e.most && e.annealed() != "":
		line("longer", "%s%s", anew, e.newRun())
		line("", "a new run: a resume would raise the %s, which this one has annealed", e.annealed())
	case saved != "":
		line("resume", "%s --resume auto%s%s", anew, e.place, e.continuation(status, step))
	}
	if saved != "" && e.cfg.Evaluable() && !barren {
		line("evaluate", "%s", evaluate)
	}
	texts := e.cfg.ReadsTexts()
	exported := texts || e.cfg.Actor.Model.ModelType != "vla_policy" && !e.cfg.Classifies()
	if exported && (best != "" || saved != "" && status == runfolder.Done) {
		format := ""
		if !texts {
			format = " --format c"
		}
		line("export", "%s export %s%s --out FOLDER", program, printable.Quote(cmp.Or(best, folder)), format)
	}
	label := "inspect"
	for _, command := range e.inspections() {
		line(label, "%s %s %s", program, command, printable.Quote(folder))
		label = ""
	}
	if slices.Contains(e.cfg.Runner.Logger.LoggerBackends, "tensorboard") {
		line(label, "tensorboard --logdir %s", printable.Quote(filepath.Join(folder, "tensorboard")))
	}
}

// inspections returns the commands that can show the run. They include rlinf compare once the run has the metric that
// it compares, at the end of the first episode.
func (e *ending) inspections() []string {
	newest := metrics.Newest(filepath.Join(e.cfg.Folder(), "metrics.jsonl"))
	if len(newest) == 0 {
		return nil
	}
	commands := []string{"report", "watch"}
	_, evaluated := newest[e.cfg.Headline()]
	_, trained := newest[e.cfg.TrainingHeadline()]
	if evaluated || trained {
		commands = append(commands, "compare")
	}
	return commands
}

// barren reports whether the simulators have lost episodes and completed none, so that nothing was learned.
func (e *ending) barren() bool {
	newest := metrics.Newest(filepath.Join(e.cfg.Folder(), "metrics.jsonl"))
	_, trained := newest[e.cfg.TrainingHeadline()]
	return newest["env/num_lost"] > 0 && !trained
}

// annealed returns the name of a value whose annealing has ended with the run. A longer run would raise the value
// again. annealed returns "" if no value is annealed.
func (e *ending) annealed() string {
	a, c := &e.cfg.Algorithm, &e.cfg.Actor
	if e.most == 0 {
		return ""
	}
	for _, o := range []algo.OptimConfig{c.Optim, c.CriticOptim, a.OffPolicy.EntropyTuning.Optim} {
		if o.LRScheduler != algo.ScheduleConstant && o.TotalTrainingSteps <= 0 {
			return "learning rate"
		}
	}
	if a.ClipRatioSchedule != algo.ScheduleConstant {
		return "clip range"
	}
	return ""
}

// newRun returns the overrides for a new run of twice the length.
func (e *ending) newRun() string {
	l := &e.cfg.Runner.Logger
	place := ""
	if e.place != "" {
		place = " " + printable.Quote("runner.logger.log_path="+l.LogPath)
	}
	// Remove the suffix that an earlier call of newRun has added.
	first := strings.TrimSuffix(l.ExperimentName, fmt.Sprintf("-%d", e.most))
	name := printable.Quote(fmt.Sprintf("runner.logger.experiment_name=%s-%d", first, 2*e.most))
	return place + " " + name + e.doubled()
}

// continuation returns the overrides that continue a finished run. If runner.early_stop has stopped the run, they
// continue the run to its planned end. Otherwise they double its length.
func (e *ending) continuation(status runfolder.Status, step int64) string {
	switch {
	case status != runfolder.Done:
		return ""
	case e.stoppedEarly(step):
		return " runner.early_stop.enabled=false"
	case e.most == 0 || step < e.most:
		return ""
	}
	return e.doubled()
}

// stoppedEarly reports whether runner.early_stop has stopped a finished run.
func (e *ending) stoppedEarly(step int64) bool {
	return e.cfg.Runner.EarlyStop.Enabled && step < e.most
}

// doubled returns the overrides for a run of twice the length.
func (e *ending) doubled() (args string) {
	r := &e.cfg.Runner
	if n := r.MaxEpochs; n >= 0 && (!e.cfg.EpochIsIteration() || int64(n) < 2*e.most) {
		args += fmt.Sprintf(" runner.max_epochs=%d", 2*n)
	}
	if n := r.MaxSteps; n >= 0 && int64(n) < 2*e.most {
		args += fmt.Sprintf(" runner.max_steps=%d", 2*n)
	}
	return args
}

// lastStep returns the number of the last iteration with metrics.
func (e *ending) lastStep() int64 {
	step, _ := metrics.LastStep(filepath.Join(e.cfg.Folder(), "metrics.jsonl"))
	return step
}
