package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
)

// A Phase is a part of an iteration whose time is measured. WholeStep is the whole iteration.
type Phase int

// The values of Phase are indices of Phases.
const (
	WholeStep Phase = iota
	SyncWeights
	GenerateRollouts
	CalAdvAndReturns
	ActorTraining
	Evaluating
)

// Phases are the names of the metrics time/*, indexed by Phase.
var Phases = [...]string{"step", "sync_weights", "generate_rollouts", "cal_adv_and_returns", "actor_training", "eval"}

// A Loop does the work that all runners share between iterations: reports, votes, checkpoints and moves.
type Loop struct {
	leader    Leader
	pieces    spmd.Comm // carries parts of the state
	plan      *JobPlan
	job       *job.Job
	world     *spmd.World
	with      Services
	agreement *agreement
	work      [len(Phases)]string // names of the phases on the progress line

	ready     bool      // the workers have their state
	begun     time.Time // when the present iteration began
	step      int64     // number of finished iterations
	leaving   bool      // the program has left the loop
	ended     bool      // no iteration follows
	stopEarly bool      // see StopEarly
	salvaging bool      // see EndFailedEvaluation
	stopped   int       // exit code of a run that stopped before its last step; else 0
	report    RankReport
	reported  int64 // the step of the report being sent
	buf       []byte

	ownComponents []string // the components and members passed to Carry
	ownWorkers    []Worker

	clocks *clockSync
	saving spmd.Span
}

// A Leader is the runner that uses a Loop. It has this rank's workers.
type Leader interface {
	// Quiesce ends all work that continues between iterations.
	Quiesce(context.Context) error
	// Settle completes the messages that are still in flight after Quiesce, before a move. Every rank must call it.
	Settle(context.Context) error
	// Describe adds the results of this rank's workers to the report.
	Describe(*RankReport)
	// Components returns the components whose workers have a state, in the order of their tensors in files. The result
	// must be the same on all ranks.
	Components() []string
	// Workers returns the workers of these components on this rank.
	Workers() []Worker
	// Restored is called when the workers have the state with which a run or a world begins.
	Restored()
}

// New returns the loop of a runner. A job has one runner. Every rank must call it.
func New(c *Cluster, runner Leader) (*Loop, error) {
	if c.loop != nil {
		return nil, errors.New("runner: this job has one already")
	}
	l := &Loop{leader: runner, plan: c.plan, job: c.plan.Job, world: c.world, with: c.with}
	l.work = [...]string{SyncWeights: "sending weights", GenerateRollouts: "rollout", CalAdvAndReturns: "advantages",
		ActorTraining: "update", Evaluating: "evaluation"}
	l.report.Times = make([]float64, len(Phases))
	l.saving = spmd.NewSpan(c.world.Recorder(), spmd.Site{Op: spmd.OpSave, Name: "save"})
	votes, err := c.world.NewComm(c.world.Ranks(), "votes")
	if err != nil {
		return nil, err
	}
	if l.agreement, err = newAgreement(c.world, votes[0], c.world.Alloc); err != nil {
		return nil, err
	}
	if l.with.Moves != nil {
		l.agreement.move = l.with.Moves.Due
	}
	l.agreement.span = spmd.NewSpan(c.world.Recorder(), spmd.Site{Op: spmd.OpVote, Name: "votes"})
	pieces, err := c.world.NewComm(c.world.Ranks(), "pieces of the state")
	if err != nil {
		return nil, err
	}
	l.pieces = pieces[0]
	if l.clocks, err = newClockSync(c.world, c.with.Trace, c.world.Alloc); err != nil {
		return nil, err
	}
	if l.with.Log != nil {
		l.with.Log.witness = l.with.Witness
	}
	c.loop = l
	return l, nil
}

// Restore gives the workers their state. After a move this is the state from the previous world. Otherwise it is the
// state with which the run starts, if there is one.
func (l *Loop) Restore(ctx context.Context) error {
	l.with.Log.begin("restoring the state")
	var err error
	if l.with.Holdings.Moved() {
		err = l.takeOver()
	} else {
		err = l.with.Saver.Restore(ctx, l, l.with.From)
	}
	if err != nil {
		return err
	}
	l.leader.Restored()
	l.ready = true
	if l.with.Started == nil {
		return nil
	}
	return l.with.Started()
}

// Report returns the report of the present iteration. The runner adds its results to the report.
func (l *Loop) Report() *RankReport { return &l.report }

// Trained adds 1 to GlobalStep.
func (l *Loop) Trained() { l.step++ }

// StopEarly makes the present iteration the last one. All ranks must call it in the same iteration.
func (l *Loop) StopEarly() { l.stopEarly = true }

// Barrier returns when all ranks have called it.
func (l *Loop) Barrier(ctx context.Context) error { return l.with.Saver.group.Barrier(ctx) }

// Sum sums x over all ranks.
func (l *Loop) Sum(ctx context.Context, x []float64) error { return l.with.Saver.group.Sum64(ctx, x) }

// SameOnAllRanks returns an error if ranks have different data under the same name.
func (l *Loop) SameOnAllRanks(ctx context.Context, names []string, data [][]byte) error {
	return l.with.Saver.group.SameOnAllRanks(ctx, names, data)
}

// Warn shows a warning.
func (l *Loop) Warn(text string) { l.with.Saver.warn(text) }

// parts returns the parts of a checkpoint that this rank's workers have.
func (l *Loop) parts() (all []state.Part) {
	components := l.leader.Components()
	for _, w := range l.leader.Workers() {
		parts := w.State(l.purpose(false))
		for i := range parts {
			if parts[i].File != state.EnvFile { // in this file the ranks give the order
				parts[i].Order = slices.Index(components, w.Member().Group())
			}
		}
		all = append(all, parts...)
	}
	return all
}

// purpose returns the state.Purpose for parts that are listed now. Only the first warning of a run is shown.
func (l *Loop) purpose(move bool) state.Purpose {
	return state.Purpose{Step: l.step, Move: move, Warn: func(text string) {
		s := l.with.Saver
		once := l.AtEnd() && l.job.Config.Runner.SaveInterval <= 0 // no run will resume from this checkpoint
		if !once && !s.warned {
			s.warned = true
			s.warn(text)
		}
	}}
}

// GlobalStep returns the number of iterations trained, in this run and in the runs that it resumes.
func (l *Loop) GlobalStep() int64 { return l.step }

// Log adds a value to one of the program's own metrics. The metric is the mean of the values from all ranks. Ranks
// without a value need not call Log.
func (l *Loop) Log(name string, value float64) {
	l.report.ownNames, l.report.ownValues = append(l.report.ownNames, name), append(l.report.ownValues, value)
}

// Worked returns the seconds that this rank's workers of a component spent on the named work in the last iteration. If
// several workers of the rank work at the same time, that time is divided among them. Worked returns 0 if nothing is
// recorded.
func (l *Loop) Worked(component, name string) float64 { return l.with.Trace.Worked(component, name) }

// Call sets the name of a phase on the progress line.
func (l *Loop) Call(p Phase, name string) { l.work[p] = name }

// Timed runs f, and adds the time that f takes to the time of phase p.
func (l *Loop) Timed(p Phase, ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	l.with.Log.begin(l.work[p])
	err := f(ctx)
	l.report.Times[p] += time.Since(start).Seconds()
	return err
}

// Next is the head of the loop. It reports the last iteration. All ranks then decide whether to save a checkpoint and
// whether to go on. With several ranks, a request of one rank (a signal, the clock) takes effect one step later. If no
// iteration follows, Next ends the run. If the members move to other ranks, Next returns spmd.Again. The program must
// then also return spmd.Again, and is called again in the new world.
func (l *Loop) Next(ctx context.Context) (more bool, err error) {
	switch {
	case !l.ready:
		return false, errors.New("runner: expected a call of InitWorkers before the first iteration")
	case l.ended:
		return false, nil
	}
	if !l.begun.IsZero() {
		l.report.Times[WholeStep] += time.Since(l.begun).Seconds()
	}
	if more, err = l.next(ctx); err != nil {
		return false, err
	}
	if !more {
		l.ended = true
		return false, l.leader.Quiesce(ctx)
	}
	l.world.SetStep(l.step + 1)
	l.with.Log.iterate(l.step + 1)
	l.begun = time.Now()
	return true, nil
}

// cut ends the present iteration in the trace. Before the first iteration it starts the trace. The time between two
// iterations belongs to the later one. Call cut after a decision, so that no rank's iteration ends before rank 0
// reaches the loop head.
func (l *Loop) cut(ctx context.Context) error {
	if l.begun.IsZero() {
		l.with.Trace.Start()
		return l.clocks.compare(ctx)
	}
	l.with.Trace.Cut(l.step)
	if l.with.Trace.ComparesClocks(l.step) {
		return l.clocks.compare(ctx)
	}
	return nil
}

// leave ends the loop of a program that returned before Next ended the run.
func (l *Loop) leave(ctx context.Context) error {
	if !l.ready {
		return nil
	}
	l.leaving = true
	_, err := l.Next(ctx)
	return err
}

func (l *Loop) next(ctx context.Context) (bool, error) {
	if l.ready && l.world.Size() > 1 {
		l.with.Log.begin("waiting for other ranks")
	}
	d, err := l.decide(ctx)
	if err != nil {
		return false, err
	}
	if err := l.cut(ctx); err != nil {
		return false, err
	}
	// Training goes on without a record. One rank of each node warns.
	if err := l.with.Trace.Write(); err != nil && l.world.LocalRank() == 0 {
		l.with.Saver.warn(fmt.Sprintf("%v: the rest of this run is not recorded", err))
	}
	last, until := l.AtEnd(), l.step > 0 && l.step == l.with.Until
	saves := l.job.SavesAt(l.step) || d.save || last && l.savesEarly() || l.salvaging || until
	v := vote{step: l.step, took: l.report.Times[WholeStep]}
	l.writeReport()
	_, v.path = l.world.Calls()
	if d.stop == 0 {
		v.stop, v.save = l.with.Requests.Vote()
	}
	// After the last iteration ignore requests to stop, but keep failures.
	if last && v.stop != ExitFailed {
		v.stop, v.save = 0, false
	}
	l.reported = l.step
	if err := l.agreement.begin(ctx, v, l.buf); err != nil {
		return false, err
	}
	if !last {
		l.with.Log.votesAfter(l.step + 1)
	}
	alone := l.world.Size() == 1 && v.stop != 0 // a single rank needs no vote to stop
	if !last && d.stop == 0 && !saves && !alone && !d.move {
		return true, nil
	}
	// Decide now, not one step later. The metrics of a step must be written before its checkpoint. Otherwise a resumed
	// run would lack these metrics.
	now, err := l.decide(ctx)
	if err != nil {
		return false, err
	}
	if saves || now.save {
		l.with.Log.begin("saving a checkpoint")
		defer l.saving.Begin().End(0, 0)
		if err := l.leader.Quiesce(ctx); err != nil {
			return false, err
		}
		if err := l.with.Saver.save(ctx, l); err != nil {
			return false, err
		}
	}
	l.stopped = max(d.stop, now.stop)
	if last && l.with.Log.tooManyLost() != nil { // no further vote can end the run
		l.stopped = max(l.stopped, ExitFailed)
	}
	// Each world makes at least one iteration before a move.
	if (d.move || now.move) && !l.begun.IsZero() && !last && !until && l.stopped == 0 {
		l.with.Log.begin("moving")
		l.with.Log.votesAfter(l.step) // the next world begins with a vote
		if moved, err := l.move(ctx); err != nil {
			return false, err
		} else if moved {
			return false, spmd.Again
		}
	}
	return !last && !until && l.stopped == 0, nil
}

// decide waits for the decision on the last votes, and records the reports that came with them. If the run lost too
// many episodes, decide asks to stop it.
func (l *Loop) decide(ctx context.Context) (decision, error) {
	d, reports, err := l.agreement.end(ctx)
	if err != nil {
		return d, err
	}
	if d.hold {
		l.with.Trace.Hold(l.reported)
	}
	err = l.with.Log.record(l.reported, reports)
	if lost := l.with.Log.tooManyLost(); err == nil && lost != nil && l.with.GiveUp != nil {
		l.with.GiveUp(lost)
		l.with.GiveUp = nil
	}
	return d, err
}

// AtEnd reports whether the last iteration is done. It does not depend on votes.
func (l *Loop) AtEnd() bool {
	return l.leaving || l.stopEarly || l.salvaging || l.step >= l.job.MaxSteps
}

// savesEarly reports whether a run that stops before its last step saves a checkpoint.
func (l *Loop) savesEarly() bool {
	r := &l.job.Config.Runner
	return l.step > 0 && (r.SaveAtEnd || l.stopEarly && r.SaveInterval > 0)
}

// writeReport encodes this rank's report of the last iteration. Nobody reads the first report of a world, because no
// iteration has ended. Its results stay for the next report.
func (l *Loop) writeReport() {
	rep, first := &l.report, l.begun.IsZero()
	if rep.Rollouts = l.step; !first {
		l.leader.Describe(rep)
	}
	rep.Waits = l.with.Trace.Shares(rep.Waits)
	rep.queueNames, rep.queueItems = rep.queueNames[:0], rep.queueItems[:0]
	l.with.Trace.Queued(rep.queued)
	l.buf = rep.append(l.buf[:0])
	if !first {
		rep.Episodes, rep.Evals = rep.Episodes[:0], rep.Evals[:0]
	}
	rep.ownNames, rep.ownValues = rep.ownNames[:0], rep.ownValues[:0]
	clear(rep.Times)
}

// ActorsSay returns the actors' answer on all ranks. All actors must pass the same answer. Other ranks may pass any
// answer.
func (l *Loop) ActorsSay(ctx context.Context, answer bool) (bool, error) {
	said := []byte{0}
	if answer {
		said[0] = 1
	}
	err := l.with.Saver.group.Broadcast(ctx, said, l.job.Placement.Group("actor").Ranks[0])
	return said[0] == 1, err
}
