package runner

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// A Logbook makes metrics of the reports of all ranks, on rank 0. It writes a line every
// runner.logger.log_interval iterations. A nil Logbook ignores all calls.
type Logbook struct {
	log      *metrics.Log
	events   *metrics.Events // nil: no TensorBoard
	progress *metrics.Progress
	job      *job.Job
	state    metrics.State
	losses   [2]losses // of training, and of evaluations
	excess   error     // too many were lost
	answers  string    // the file for answers of a language model
	stopped  string    // why the run stopped early; "": it has not
	report   report
	rollouts int64 // of each environment, so far
	written  int64 // environment steps at the last line
	from     int64 // the step that the run began with

	// The metrics since the last line.
	names  []string
	sums   []float64 // of each name, over the iterations that had it
	counts []int     // how many they are
	rows   [2][]float64
	values []float64 // of the line
}

// OpenLogbook opens the files of the metrics. progress shows where the run stands, which the clock ends
// at until; the zero time: never.
func OpenLogbook(f *runfolder.Folder, j *job.Job, from StartState, progress *metrics.Progress,
	until time.Time) (*Logbook, error) {
	b := &Logbook{job: j, answers: f.Answers(), progress: progress}
	b.losses[0], b.losses[1] = newLosses("env.train", j.Config.Env.Train), newLosses("env.eval", j.Config.Env.Eval)
	b.state = metrics.State{MaxStep: j.MaxSteps, Return: math.NaN(), Eval: math.NaN()}
	switch {
	case j.Config.Reasons():
		b.state.Measure, b.state.Unit = "reward", "tokens"
	case j.Tuning != nil:
		b.state.Measure, b.state.Unit = "loss", "tokens"
	case j.Offline:
		b.state.Measure, b.state.Unit = "loss", "samples"
	}
	if stop := &j.Config.Runner.EarlyStop; stop.Enabled && j.Config.Runner.TaskType == config.TaskSFT {
		b.state.Stop = stop.Progress(math.NaN(), 0)
	}
	if j.MaxSteps == math.MaxInt64 {
		b.state.MaxStep = 0
	}
	b.state.Step, b.state.EnvSteps = from.Step, from.rollouts()*j.EnvSteps()
	b.written, b.from = b.state.EnvSteps, from.Step
	var err error
	if b.log, err = metrics.OpenLog(f.Metrics()); err != nil {
		return nil, err
	}
	if slices.Contains(j.Config.Runner.Logger.LoggerBackends, "tensorboard") {
		if err := b.openEvents(f.TensorBoard()); err != nil {
			return nil, err
		}
	}
	progress.Begin(b.state, until)
	return b, nil
}

// iterate says that the iteration of this step begins.
func (l *Logbook) iterate(step int64) {
	if l != nil {
		l.progress.Iterate(step)
	}
}

// begin names the work that begins now.
func (l *Logbook) begin(work string) {
	if l != nil {
		l.progress.Phase(work)
	}
}

// openEvents opens TensorBoard's file in dir, and writes the configuration into it.
func (l *Logbook) openEvents(dir string) (err error) {
	host, _ := os.Hostname()
	now := time.Now()
	if l.events, err = metrics.CreateEvents(dir, host, now, l.x()+1); err != nil {
		return err
	}
	// four blanks before a line are Markdown's code
	text := "    " + strings.ReplaceAll(strings.TrimSpace(string(l.job.Config.Resolved())), "\n", "\n    ")
	return l.events.WriteText(l.x()+1, now, "config", text)
}

// x returns where the run stands on TensorBoard's x axis.
func (l *Logbook) x() int64 {
	if l.job.Config.Runner.Logger.TensorBoardAxis == config.AxisEnvSteps {
		return l.state.EnvSteps
	}
	return l.state.Step
}

// record adds the reports of a step, once. It skips the first report after a resume, which repeats
// what the checkpoint had.
func (l *Logbook) record(step int64, reports [][]byte) error {
	if l == nil || reports == nil || step <= l.state.Step {
		return nil
	}
	if err := l.add(step, reports); err != nil {
		return err
	}
	l.state.Step, l.state.EnvSteps = step, l.rollouts*l.job.EnvSteps()
	// A checkpoint leaves nothing behind that a run which resumes from it would lack.
	if step%int64(l.job.Config.Runner.Logger.LogInterval) == 0 || l.job.EvaluatesAt(step) || l.job.SavesAt(step) {
		if err := l.write(); err != nil {
			return err
		}
	}
	l.progress.Update(l.state)
	return nil
}

// add adds up the reports of an iteration.
func (l *Logbook) add(step int64, reports [][]byte) error {
	var longest, total [len(Phases)]float64
	l.rollouts = 0
	for _, b := range reports {
		r := &l.report
		if err := r.parse(b); err != nil {
			return err
		}
		for i, t := range r.times {
			longest[i] = max(longest[i], t)
			total[i] += t
		}
		l.rollouts = max(l.rollouts, r.rollouts)
		l.rows[0] = append(l.rows[0], r.episodes...)
		l.rows[1] = append(l.rows[1], r.evals...)
		for i, name := range r.names {
			if !strings.HasPrefix(name, "rollout/") && !strings.HasPrefix(name, "eval/") {
				name = "train/" + name
			}
			l.set(name, r.values[i])
		}
		if err := l.showAnswers(step, r.answers); err != nil {
			return err
		}
		for i, name := range r.ownNames {
			l.set(name, r.ownValues[i])
		}
		if len(r.stop) > 0 {
			l.state.Stop = r.stop[0]
		}
		if len(r.stop) > 1 {
			l.stopped = r.stop[1]
			l.progress.Print(l.stopped + "\n")
		}
	}
	for i, name := range Phases {
		if longest[i] > 0 || i != evaluating && l.job.Tuning == nil {
			l.set("time/"+name, longest[i])
			l.set("time/"+name+"_mean", total[i]/float64(len(reports)))
		}
	}
	return nil
}

// shownInLog is how many answers of an evaluation the log shows; the file has more.
const shownInLog = 3

// showAnswers shows answers of an evaluation: the first in the log, all in a file.
func (l *Logbook) showAnswers(step int64, answers []string) error {
	if len(answers) == 0 {
		return nil
	}
	log := fmt.Sprintf("answers after step %d, more in %s\n", step, l.answers)
	text := fmt.Sprintf("== after step %d\n\n", step)
	for i := 0; i < len(answers); i += 2 {
		if i < 2*shownInLog {
			log += "  " + answers[i] + "\n"
		}
		text += answers[i+1] + "\n"
	}
	l.progress.Print(log)
	f, err := os.OpenFile(l.answers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// write writes the means since the last line, and clears them.
func (l *Logbook) write() error {
	episodes, err := env.FromRows(l.rows[0], len(l.job.Spec.Figures()))
	if err != nil {
		return err
	}
	evals, err := env.FromRows(l.rows[1], len(l.job.EvalSpec.Figures()))
	if err != nil {
		return err
	}
	if l.job.Tuning != nil {
		tokens := l.describeTexts()
		l.state.Learnt += int64(tokens)
		return l.writeLine("time/tokens_per_second", tokens)
	}
	l.set("env/steps", float64(l.state.EnvSteps))
	mean := l.episodes("env/", l.job.Spec, episodes, l.state.Return, &l.losses[0])
	if l.job.Offline {
		l.describeDemos()
	} else {
		l.state.Return = mean
	}
	if len(evals) > 0 {
		l.state.Eval = l.episodes("eval/", l.job.EvalSpec, evals, l.state.Eval, &l.losses[1])
	}
	steps := l.state.EnvSteps - l.written
	l.written = l.state.EnvSteps
	return l.writeLine("time/env_steps_per_second", float64(steps))
}

// writeLine writes the means, and the rates per second.
func (l *Logbook) writeLine(rate string, done float64) error {
	l.values = l.values[:0]
	for i, sum := range l.sums {
		l.values = append(l.values, sum/float64(l.counts[i]))
	}
	took := l.sums[slices.Index(l.names, "time/"+Phases[wholeStep])]
	l.names, l.values = append(l.names, rate), append(l.values, done/took)
	now := time.Now()
	if err := l.log.Write(l.state.Step, now, l.names, l.values); err != nil {
		return err
	}
	if l.events != nil {
		if err := l.events.Write(l.x(), now, l.names, l.values); err != nil {
			return err
		}
	}
	l.names, l.sums, l.counts = l.names[:0], l.sums[:0], l.counts[:0]
	l.rows[0], l.rows[1] = l.rows[0][:0], l.rows[1][:0]
	return nil
}

// episodes sets the means over episodes under prefix. spec describes their environments. It returns
// the mean return, or old if no episode ended.
func (l *Logbook) episodes(prefix string, spec env.Spec, es []env.Episode, old float64, lost *losses) float64 {
	s := env.Summarize(es)
	l.state.Lost, l.state.Episodes = l.state.Lost+int64(s.NumLost), l.state.Episodes+int64(len(es))
	if err := lost.add(s); l.excess == nil {
		l.excess = err
	}
	l.set(prefix+"num_trajectories", float64(s.NumTrajectories))
	if s.NumLost > 0 {
		l.set(prefix+"num_lost", float64(s.NumLost))
	}
	if s.NumTrajectories == 0 {
		return old
	}
	l.set(prefix+"return", s.Return)
	l.set(prefix+"episode_len", s.EpisodeLen)
	l.set(prefix+"reward", s.Reward)
	if spec.InfoIndex("success") >= 0 {
		l.set(prefix+"success_once", s.SuccessOnce)
		l.set(prefix+"success_at_end", s.SuccessAtEnd)
	}
	if spec.InfoIndex("wrong_object") >= 0 {
		l.set(prefix+"wrong_object", s.WrongObject)
	}
	if spec.InfoIndex(env.ToldObject) >= 0 {
		l.set(prefix+"told_object", s.ToldObject)
	}
	for i, t := range s.ByTask[:min(len(s.ByTask), len(spec.Tasks))] {
		if t.NumTrajectories > 0 {
			l.set(prefix+"success_once/"+spec.Tasks[i], t.SuccessOnce)
		}
	}
	for i, name := range spec.Figures() {
		l.set(prefix+"info/"+name, s.Info[i])
	}
	return s.Return
}

// score returns how good the policy of step is, if the last line says it: by the evaluation after
// that step, or by its training episodes in a job without evaluations.
func (l *Logbook) score(step int64) *float64 {
	if l == nil || l.state.Step != step {
		return nil
	}
	score := l.state.Return
	if l.job.Config.Evaluates() {
		if !l.job.EvaluatesAt(step) {
			return nil
		}
		score = l.state.Eval
	}
	switch {
	case l.job.Config.Runner.TaskType == config.TaskSFT: // a loss
		score = -score
	case l.job.Offline && !l.job.Config.Evaluates():
		return nil
	}
	return finite(score)
}

// finite returns x where it is a number, else nil.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// set adds a value to the mean of name.
func (l *Logbook) set(name string, value float64) {
	i := slices.Index(l.names, name)
	if i < 0 {
		i = len(l.names)
		l.names, l.sums, l.counts = append(l.names, name), append(l.sums, 0), append(l.counts, 0)
	}
	l.sums[i] += value
	l.counts[i]++
}

// tooManyLost returns an error if more episodes were lost than may be.
func (l *Logbook) tooManyLost() error {
	if l == nil {
		return nil
	}
	return l.excess
}

// sync returns when the metrics of all steps so far are on disk. A checkpoint that follows lacks none.
func (l *Logbook) sync() error {
	if l == nil {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	return l.log.Sync()
}

// flush writes what has come since the last line.
func (l *Logbook) flush() error {
	if len(l.names) == 0 {
		return nil
	}
	err := l.write()
	l.progress.Update(l.state)
	return err
}

// Step returns how many iterations the run has made.
func (l *Logbook) Step() int64 { return l.state.Step }

// Where says how far the run has come, and how many episodes it lost since it was started.
func (l *Logbook) Where() string {
	where := fmt.Sprintf("after step %d", l.state.Step)
	if l.stopped != "" {
		where += " by runner.early_stop"
	}
	if l.state.Lost > 0 {
		where += fmt.Sprintf(", lost %d of %d episodes", l.state.Lost, l.state.Episodes)
	}
	return where
}

// Close writes the last line, ends the live line, and closes the files.
func (l *Logbook) Close() error {
	if l == nil {
		return nil
	}
	err := l.flush()
	l.progress.Done()
	err = errors.Join(err, l.log.Close())
	if l.events != nil {
		err = errors.Join(err, l.events.Close())
	}
	return err
}
