package loop

import (
	"context"
	"errors"
	"time"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// A Phase is a part of an iteration whose time is measured. WholeStep is all of it.
type Phase int

// The phases, in the order of their names.
const (
	WholeStep Phase = iota
	SyncWeights
	GenerateRollouts
	CalAdvAndReturns
	ActorTraining
	Evaluating
)

// Phases are the names of the time/* metrics: a whole iteration, and its parts.
var Phases = [...]string{"step", "sync_weights", "generate_rollouts", "cal_adv_and_returns", "actor_training", "eval"}

// A Loop is the part that all runners share between iterations: report, agree, save and resume.
type Loop struct {
	leader    Leader
	plan      Plan
	job       *job.Job
	world     *spmd.World
	with      Services
	agreement *agreement
	work      [len(Phases)]string // names of the phases, for a person

	ready     bool      // the workers have their state
	begun     time.Time // when the iteration under way began
	step      int64     // iterations done
	leaving   bool      // the program has left the loop
	ended     bool      // there is no further iteration
	stopEarly bool      // there is no need of one, as all ranks have found
	stopped   int       // the exit code of a run that stopped before its last step; 0: it did not
	report    Report
	reported  int64 // the step of the report under way
	buf       []byte
}

// A Leader is the runner around a loop: it knows the workers.
type Leader interface {
	// Quiesce completes the work that is under way between iterations.
	Quiesce(context.Context) error
	// Describe adds to the report what workers of this rank have to say.
	Describe(*Report)
	// Shares returns what this rank has of the state, where it lies.
	Shares() ([]member.Share, error)
	// Load takes this rank's parts of a state, which may be weights alone.
	Load(member.State) error
	// Tracers returns those of this rank's workers.
	Tracers() []*member.Tracer
}

// New returns the loop of a job's only runner. Collective over the world.
func New(c *Cluster, of Leader) (*Loop, error) {
	if c.loop != nil {
		return nil, errors.New("runner: this job has one already")
	}
	l := &Loop{leader: of, plan: c.plan, job: c.plan.Common(), world: c.world, with: c.with}
	l.work = [...]string{SyncWeights: "sending weights", GenerateRollouts: "rollout", CalAdvAndReturns: "advantages",
		ActorTraining: "update", Evaluating: "evaluation"}
	l.report.Times = make([]float64, len(Phases))
	all := make([]int, c.world.Size())
	for rank := range all {
		all[rank] = rank
	}
	votes, err := c.world.NewComm(all, "votes")
	if err != nil {
		return nil, err
	}
	if l.agreement, err = newAgreement(votes[0], c.world.Alloc); err != nil {
		return nil, err
	}
	c.loop = l
	return l, nil
}

// Restore gives the workers the state that the run goes on from, if it resumes one.
func (l *Loop) Restore(ctx context.Context) error {
	l.with.Log.begin("restoring the state")
	if err := l.with.Saver.Restore(ctx, l, l.with.From); err != nil {
		return err
	}
	l.ready = true
	if l.with.Started == nil {
		return nil
	}
	return l.with.Started()
}

// Report returns the report of the iteration under way, for the runner to fill in.
func (l *Loop) Report() *Report { return &l.report }

// Trained counts an iteration.
func (l *Loop) Trained() { l.step++ }

// StopEarly makes the iteration that has ended the last one. All ranks must have found so.
func (l *Loop) StopEarly() { l.stopEarly = true }

// Barrier returns when all ranks have called it.
func (l *Loop) Barrier(ctx context.Context) error { return l.with.Saver.group.Barrier(ctx) }

// SameOnAllRanks checks that all ranks have the same data under each name.
func (l *Loop) SameOnAllRanks(ctx context.Context, names []string, data [][]byte) error {
	return l.with.Saver.group.SameOnAllRanks(ctx, names, data)
}

// WarnOnce warns the user of what a checkpoint lacks, in the first one alone.
func (l *Loop) WarnOnce(text string) {
	if s := l.with.Saver; !s.warned {
		s.warned = true
		s.warn(text)
	}
}

// GlobalStep returns how many iterations have been trained, in this run and in those that it resumes.
func (l *Loop) GlobalStep() int64 { return l.step }

// Log adds a metric of the program's own to those of the iteration, under this name. Any rank may call
// it, none has to; a metric is the mean of the values that all ranks give.
func (l *Loop) Log(name string, value float64) {
	l.report.ownNames, l.report.ownValues = append(l.report.ownNames, name), append(l.report.ownValues, value)
}

// Call names a phase for a person.
func (l *Loop) Call(p Phase, name string) { l.work[p] = name }

// Timed runs f, a phase of the iteration.
func (l *Loop) Timed(p Phase, ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	l.with.Log.begin(l.work[p])
	err := f(ctx)
	l.report.Times[p] += time.Since(start).Seconds()
	return err
}

// Next is the loop head. It reports the iteration that ended, and decides with all ranks whether to
// save and whether to go on. What the step number decides needs no vote; what one rank alone can
// know (a signal, the clock) is decided one step later, unless it is the only rank. When there is no
// further iteration, it ends the run.
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

// leave ends the loop where its program has left it before Next did.
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
	d, reports, err := l.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := l.record(reports); err != nil {
		return false, err
	}
	last := l.AtEnd()
	saves := l.job.SavesAt(l.step) || d.save || last && l.savesEarly()
	l.writeReport()
	v := vote{step: l.step}
	_, v.path = l.world.Calls()
	if d.stop == 0 {
		v.stop, v.save = l.with.Requests.Vote()
	}
	// After the last iteration ignore stop requests, but keep failures.
	if last && v.stop != ExitFailed {
		v.stop, v.save = 0, false
	}
	l.reported = l.step
	if err := l.agreement.begin(v, l.buf); err != nil {
		return false, err
	}
	alone := l.world.Size() == 1 && v.stop != 0 // no other rank needs to hear of it
	if !last && d.stop == 0 && !saves && !alone {
		return true, nil
	}
	// No step later: the metrics of a step are written before its checkpoint, or a run that resumes
	// from it would lack them.
	now, reports, err := l.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := l.record(reports); err != nil {
		return false, err
	}
	if saves || now.save {
		l.with.Log.begin("saving a checkpoint")
		if err := l.leader.Quiesce(ctx); err != nil {
			return false, err
		}
		if err := l.with.Saver.save(ctx, l); err != nil {
			return false, err
		}
	}
	l.stopped = max(d.stop, now.stop)
	if last && l.with.Log.tooManyLost() != nil { // no vote follows
		l.stopped = max(l.stopped, ExitFailed)
	}
	return !last && l.stopped == 0, nil
}

// record hands the reports of the last iteration to the logbook. A run that lost too many episodes is
// asked to stop.
func (l *Loop) record(reports [][]byte) error {
	err := l.with.Log.record(l.reported, reports)
	if lost := l.with.Log.tooManyLost(); err == nil && lost != nil && l.with.GiveUp != nil {
		l.with.GiveUp(lost)
		l.with.GiveUp = nil
	}
	return err
}

// AtEnd reports whether there is no further iteration, whatever the ranks agree on.
func (l *Loop) AtEnd() bool { return l.leaving || l.stopEarly || l.step >= l.job.MaxSteps }

// savesEarly reports whether a run that ends before its last step saves a checkpoint.
func (l *Loop) savesEarly() bool {
	r := &l.job.Config.Runner
	return l.step > 0 && (r.SaveAtEnd || l.stopEarly && r.SaveInterval > 0)
}

// writeReport encodes this rank's figures of the iteration that ended.
func (l *Loop) writeReport() {
	rep := &l.report
	rep.Episodes, rep.Evals, rep.Rollouts = rep.Episodes[:0], rep.Evals[:0], l.step
	l.leader.Describe(rep)
	l.buf = rep.append(l.buf[:0])
	rep.ownNames, rep.ownValues = rep.ownNames[:0], rep.ownValues[:0]
	clear(rep.Times)
}

// ActorsSay tells all ranks what the actors say, which agree. Other ranks' yes is ignored.
func (l *Loop) ActorsSay(ctx context.Context, yes bool) (bool, error) {
	said := []byte{0}
	if yes {
		said[0] = 1
	}
	err := l.with.Saver.group.Broadcast(ctx, said, l.job.Placement.Group("actor").Ranks[0])
	return said[0] == 1, err
}
