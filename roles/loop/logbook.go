package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// A Logbook writes the metrics of a run on rank 0, one line for each runner.logger.log_interval iterations. The task's
// Recorder computes the metrics from the reports of all ranks. A nil Logbook ignores all calls.
type Logbook struct {
	log      *metrics.Logger
	events   *metrics.Events // nil if TensorBoard is off
	progress *metrics.ProgressLine
	job      *job.Job
	recorder Recorder
	state    metrics.RunStatus
	stopped  string // reason of an early stop; "" if there was none
	report   RankReport
	voting   atomic.Int64 // the step after which the ranks vote next; 0 until a step begins

	watch  func(longest [len(Phases)]float64, spent []float64) // see Watch; may be nil
	spent  []float64
	phases *trace.PhaseLog // nil if nothing is recorded
	live   *board          // nil if nothing is recorded
	times  [][trace.NumPhases]float32

	witness MemberWitness // may be nil

	// The metrics since the last line, by their index in names.
	names  []string
	sums   []float64 // sum of the values
	counts []int     // number of values
	values []float64 // the values of the next line
}

// OpenLogbook opens the files of the metrics. progress is the progress line. deadline is the deadline of the run, or
// the zero time if there is none.
func OpenLogbook(f *runfolder.Folder, p *JobPlan, from StartState, progress *metrics.ProgressLine,
	deadline time.Time) (*Logbook, error) {
	b := &Logbook{job: p.Job, recorder: p.NewRecorder(f, from), progress: progress}
	b.state = metrics.RunStatus{Step: from.Step, MaxStep: p.MaxSteps, Return: math.NaN(), Eval: math.NaN()}
	if p.MaxSteps == math.MaxInt64 {
		b.state.MaxStep = 0
	}
	b.state.Earlier = metrics.ReadPace(f.Metrics())
	b.recorder.Begin(&b.state)
	var err error
	if b.log, err = metrics.OpenLogger(f.Metrics()); err != nil {
		return nil, err
	}
	if slices.Contains(p.Config.Runner.Logger.LoggerBackends, "tensorboard") {
		if err := b.openEvents(f.TensorBoard()); err != nil {
			return nil, err
		}
	}
	progress.Begin(b.state, deadline)
	return b, nil
}

// RecordTime makes the logbook write live.json and the phase times of each iteration into the run's folder (o.Run). It
// is called again in the new world after a move.
func (l *Logbook) RecordTime(o trace.Options) error {
	err := l.phases.Close()
	l.phases = trace.NewPhaseLog(o)
	if l.live == nil {
		l.live = newBoard(filepath.Join(o.Run, trace.LiveFile))
	}
	return err
}

// Watch makes the logbook call f after each iteration. longest has the seconds of each phase on the slowest rank. spent
// has the sums of RankReport.Spent over all ranks, and is valid only during the call.
func (l *Logbook) Watch(f func(longest [len(Phases)]float64, spent []float64)) { l.watch = f }

// iterate shows the start of an iteration on the progress line.
func (l *Logbook) iterate(step int64) {
	if l != nil {
		l.votesAfter(step)
		l.progress.Iterate(step)
	}
}

// votesAfter sets the step after which the ranks vote next.
func (l *Logbook) votesAfter(step int64) {
	if l != nil {
		l.voting.Store(step)
	}
}

// End returns the step after which the run ends if a request to stop comes now. It returns 0 if the run ends before the
// first step. late must be true if there are several ranks. They decide one step after their vote, or at once if a
// checkpoint or the end of the run follows. Any goroutine may call End.
func (l *Logbook) End(late bool) int64 {
	if l == nil {
		return 0
	}
	step := l.voting.Load()
	if late && step > 0 && step < l.job.MaxSteps && !l.job.SavesAt(step) {
		step++
	}
	return step
}

// begin shows the name of the work that begins now.
func (l *Logbook) begin(work string) {
	if l != nil {
		l.progress.Phase(work)
		l.live.begin(work)
	}
}

// openEvents opens TensorBoard's file in dir, and writes the configuration into it.
func (l *Logbook) openEvents(dir string) (err error) {
	host, _ := os.Hostname()
	now := time.Now()
	if l.events, err = metrics.CreateEvents(dir, host, now, l.x()+1); err != nil {
		return err
	}
	// In Markdown, four blanks mark code.
	text := "    " + strings.ReplaceAll(strings.TrimSpace(string(l.job.Config.Resolved())), "\n", "\n    ")
	return l.events.WriteText(l.x()+1, now, "config", text)
}

// x returns the present position on TensorBoard's x axis.
func (l *Logbook) x() int64 {
	if l.job.Config.Runner.Logger.TensorBoardAxis == config.AxisEnvSteps {
		return l.state.EnvSteps
	}
	return l.state.Step
}

// record adds the reports of a step. After a resume it skips the first reports, because their step is already recorded.
func (l *Logbook) record(step int64, reports [][]byte) error {
	if l == nil || reports == nil || step <= l.state.Step {
		return nil
	}
	l.state.Step = step
	l.live.nextStep(step, len(reports))
	if err := l.add(reports); err != nil {
		return err
	}
	if err := l.phases.Write(step, l.times); err != nil {
		l.Print(fmt.Sprintf("warning: %v: the rest of this run is not recorded\n", err))
	}
	l.recorder.Added(&l.state)
	// Write the metrics before the checkpoint. Otherwise a run that resumes from the checkpoint would lack them.
	if step%int64(l.job.Config.Runner.Logger.LogInterval) == 0 || l.job.EvaluatesAt(step) || l.job.SavesAt(step) {
		if err := l.write(); err != nil {
			return err
		}
	}
	l.progress.Update(l.state)
	return nil
}

// add adds the reports of one iteration to the sums.
func (l *Logbook) add(reports [][]byte) error {
	var longest, total [len(Phases)]float64
	simulated := 0.0 // of the slowest rank
	l.spent = l.spent[:0]
	l.times = append(l.times[:0], make([][trace.NumPhases]float32, len(reports))...)
	for rank, b := range reports {
		r := &l.report
		if err := r.parse(b); err != nil {
			return err
		}
		for i, t := range r.Times {
			longest[i] = max(longest[i], t)
			total[i] += t
			l.times[rank][i] = float32(t)
		}
		for _, t := range r.Simulated {
			simulated = max(simulated, t)
		}
		for i, t := range r.Spent {
			if i == len(l.spent) {
				l.spent = append(l.spent, 0)
			}
			l.spent[i] += t
		}
		l.live.add(rank, r)
		for i, name := range r.Names {
			if !strings.HasPrefix(name, "rollout/") && !strings.HasPrefix(name, "eval/") {
				name = "train/" + name
			}
			l.Set(name, r.Values[i])
		}
		r.show(l.witness, l.state.Step, rank)
		if err := l.recorder.Add(l, r); err != nil {
			return err
		}
		r.showStop(l)
		for i, name := range r.ownNames {
			l.Set(name, r.ownValues[i])
		}
	}
	l.state.Seconds += metrics.IterationSeconds(1, longest[WholeStep], longest[Evaluating])
	l.live.setTimes(longest, simulated)
	if simulated > 0 {
		l.Set("time/"+Simulate, simulated)
	}
	if l.watch != nil {
		l.watch(longest, l.spent)
	}
	for i, name := range Phases {
		if l.recorder.Timed(Phase(i), longest[i]) {
			l.Set("time/"+name, longest[i])
			l.Set("time/"+name+"_mean", total[i]/float64(len(reports)))
		}
	}
	return nil
}

// write writes a line with the means of the metrics since the last line, and the work done per second. Then it clears
// the sums.
func (l *Logbook) write() error {
	rate, done, err := l.recorder.Line(l)
	if err != nil {
		return err
	}
	l.values = l.values[:0]
	for i, sum := range l.sums {
		l.values = append(l.values, sum/float64(l.counts[i]))
	}
	took := metrics.IterationSeconds(1, l.Sum("time/"+Phases[WholeStep]), l.Sum("time/"+Phases[Evaluating]))
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
	return nil
}

// score returns the score of the policy after step, or nil if there is no score. It comes from the evaluation after
// step. In a job without evaluations it comes from training.
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
	return finite(l.recorder.Score(score))
}

// finite returns a pointer to x, or nil if x is NaN or infinite.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Set adds a value to the mean of a metric. It ignores algo.None, so that a line has the means over the iterations that
// have measured the metric. If no iteration has, the line does not have the metric.
func (l *Logbook) Set(name string, value float64) {
	if algo.IsNone(value) {
		return
	}
	i := slices.Index(l.names, name)
	if i < 0 {
		i = len(l.names)
		l.names, l.sums, l.counts = append(l.names, name), append(l.sums, 0), append(l.counts, 0)
	}
	l.sums[i] += value
	l.counts[i]++
}

// Means returns the metrics whose names begin with prefix, with their values in the next line. It removes the prefix
// from the names.
func (l *Logbook) Means(prefix string) (m algo.Metrics) {
	for i, name := range l.names {
		if name, ok := strings.CutPrefix(name, prefix); ok {
			m.Names, m.Values = append(m.Names, name), append(m.Values, l.sums[i]/float64(l.counts[i]))
		}
	}
	return m
}

// Mean returns the value of a metric in the next line. ok is false if the line does not have the metric.
func (l *Logbook) Mean(name string) (mean float64, ok bool) {
	i := slices.Index(l.names, name)
	if i < 0 {
		return 0, false
	}
	return l.sums[i] / float64(l.counts[i]), true
}

// Sum returns the sum of a metric since the last line. It is 0 if the metric has no value.
func (l *Logbook) Sum(name string) float64 {
	if i := slices.Index(l.names, name); i >= 0 {
		return l.sums[i]
	}
	return 0
}

// State returns the numbers of the progress line. The recorder sets these numbers.
func (l *Logbook) State() *metrics.RunStatus { return &l.state }

// Print writes text above the progress line.
func (l *Logbook) Print(text string) { l.progress.Print(text) }

// tooManyLost returns an error if more episodes were lost than the configuration allows.
func (l *Logbook) tooManyLost() error {
	if l == nil {
		return nil
	}
	return l.recorder.Excess()
}

// sync writes the metrics of all steps so far to the disk. It is called before a checkpoint is written.
func (l *Logbook) sync() error {
	if l == nil {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	return l.log.Sync()
}

// flush writes a line if there were iterations since the last line. If there were none, metrics set by a move stay for
// the next line.
func (l *Logbook) flush() error {
	if _, ok := l.Mean("time/" + Phases[WholeStep]); !ok {
		return nil
	}
	err := l.write()
	l.progress.Update(l.state)
	return err
}

// Step returns the number of finished iterations.
func (l *Logbook) Step() int64 { return l.state.Step }

// Where returns a text with the number of finished iterations, and the number of episodes lost since the start of the
// run.
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

// Stop ends the writing of live.json. A run that ends with an error calls Stop and not Close.
func (l *Logbook) Stop() {
	if l != nil && l.live != nil {
		l.live.stop()
	}
}

// Close writes the last line of metrics, removes the progress line, and closes the files.
func (l *Logbook) Close() error {
	if l == nil {
		return nil
	}
	err := l.flush()
	l.live.close()
	err = errors.Join(err, l.recorder.Close(), l.phases.Close())
	l.progress.Done()
	err = errors.Join(err, l.log.Close())
	if l.events != nil {
		err = errors.Join(err, l.events.Close())
	}
	return err
}
