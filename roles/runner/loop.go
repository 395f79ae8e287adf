package runner

import (
	"context"
	"errors"
	"time"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// A loop is the part that all runners share between iterations: report, agree, save and resume.
type loop struct {
	leader
	job       *job.Job
	world     *spmd.World
	with      Services
	agreement *agreement

	ready     bool      // the workers have their state
	begun     time.Time // when the iteration under way began
	step      int64     // iterations done
	leaving   bool      // the program has left the loop
	ended     bool      // there is no further iteration
	stopEarly bool      // there is no need of one, as all ranks have found
	stopped   int       // why the run stopped before its last step: an exit code plus one; 0: it did not
	report    report
	reported  int64 // the step of the report under way
	buf       []byte
}

// A leader is the runner around a loop: it knows the workers.
type leader interface {
	// quiesce completes the work that is under way between iterations.
	quiesce(context.Context) error
	// describe adds to the report what workers of this rank have to say.
	describe(*report)
	// shares returns what this rank has of the state, where it lies.
	shares() ([]worker.Share, error)
	// load takes this rank's parts of a state, which may be weights alone.
	load(worker.State) error
	tracers() []*worker.Tracer
}

// newLoop returns the loop of a job's only runner. Collective over the world.
func newLoop(c *Cluster, of leader) (*loop, error) {
	if c.loop != nil {
		return nil, errors.New("runner: this job has one already")
	}
	l := &loop{leader: of, job: c.job, world: c.world, with: c.with}
	l.report.times = make([]float64, len(Phases))
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

// restore gives the workers the state that the run goes on from, if it resumes one.
func (l *loop) restore(ctx context.Context) error {
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

// GlobalStep returns how many iterations have been trained, in this run and in those that it resumes.
func (l *loop) GlobalStep() int64 { return l.step }

// Log adds a metric of the program's own to those of the iteration, under this name. Any rank may call
// it, none has to; a metric is the mean of the values that all ranks give.
func (l *loop) Log(name string, value float64) {
	l.report.ownNames, l.report.ownValues = append(l.report.ownNames, name), append(l.report.ownValues, value)
}

// work names a phase for a person.
func (l *loop) work(phase int) string {
	if phase == generateRollouts && l.job.Async() {
		return "waiting for rollouts"
	} else if phase == generateRollouts && l.job.Tuning != nil {
		return "generation"
	}
	return [...]string{syncWeights: "sending weights", generateRollouts: "rollout", calAdvAndReturns: "advantages",
		actorTraining: "update", evaluating: "evaluation"}[phase]
}

func (l *loop) timed(phase int, ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	l.with.Log.begin(l.work(phase))
	err := f(ctx)
	l.report.times[phase] += time.Since(start).Seconds()
	return err
}

// Next is the loop head. It reports the iteration that ended, and decides with all ranks whether to
// save and whether to go on. What the step number decides needs no vote; what one rank alone can
// know (a signal, the clock) is decided one step later, unless it is the only rank. When there is no
// further iteration, it ends the run.
func (l *loop) Next(ctx context.Context) (more bool, err error) {
	switch {
	case !l.ready:
		return false, errors.New("runner: expected a call of InitWorkers before the first iteration")
	case l.ended:
		return false, nil
	}
	if !l.begun.IsZero() {
		l.report.times[wholeStep] += time.Since(l.begun).Seconds()
	}
	if more, err = l.next(ctx); err != nil {
		return false, err
	}
	if !more {
		l.ended = true
		return false, l.quiesce(ctx)
	}
	l.world.SetStep(l.step + 1)
	l.with.Log.iterate(l.step + 1)
	l.begun = time.Now()
	return true, nil
}

// leave ends the loop where its program has left it before Next did.
func (l *loop) leave(ctx context.Context) error {
	if !l.ready {
		return nil
	}
	l.leaving = true
	_, err := l.Next(ctx)
	return err
}

func (l *loop) next(ctx context.Context) (bool, error) {
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
	last := l.atEnd()
	saves := l.job.SavesAt(l.step) || d.save || last && l.savesEarly()
	l.writeReport()
	v := vote{step: l.step}
	_, v.path = l.world.Calls()
	if d.stop == 0 {
		v.stop, v.save = l.with.Requests.Vote()
	}
	// nothing is left to be stopped; but what failed in the last iteration has failed
	if last && v.stop != ExitFailed+1 {
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
		if err := l.quiesce(ctx); err != nil {
			return false, err
		}
		if err := l.with.Saver.save(ctx, l); err != nil {
			return false, err
		}
	}
	l.stopped = max(d.stop, now.stop)
	if last && l.with.Log.tooManyLost() != nil { // no vote follows
		l.stopped = max(l.stopped, ExitFailed+1)
	}
	return !last && l.stopped == 0, nil
}

// record hands the reports of the last iteration to the logbook. A run that lost too many episodes is
// asked to stop.
func (l *loop) record(reports [][]byte) error {
	err := l.with.Log.record(l.reported, reports)
	if lost := l.with.Log.tooManyLost(); err == nil && lost != nil && l.with.GiveUp != nil {
		l.with.GiveUp(lost)
		l.with.GiveUp = nil
	}
	return err
}

// atEnd reports whether there is no further iteration, whatever the ranks agree on.
func (l *loop) atEnd() bool { return l.leaving || l.stopEarly || l.step >= l.job.MaxSteps }

// savesEarly reports whether a run that ends before its last step saves a checkpoint.
func (l *loop) savesEarly() bool {
	r := &l.job.Config.Runner
	return l.step > 0 && (r.SaveAtEnd || l.stopEarly && r.SaveInterval > 0)
}

// writeReport encodes this rank's figures of the iteration that ended.
func (l *loop) writeReport() {
	rep := &l.report
	rep.episodes, rep.evals, rep.rollouts = rep.episodes[:0], rep.evals[:0], l.step
	l.describe(rep)
	l.buf = rep.append(l.buf[:0])
	rep.ownNames, rep.ownValues = rep.ownNames[:0], rep.ownValues[:0]
	clear(rep.times)
}

// actorsSay tells all ranks what the actors say, who agree. Elsewhere yes is not looked at.
func (l *loop) actorsSay(ctx context.Context, yes bool) (bool, error) {
	said := []byte{0}
	if yes {
		said[0] = 1
	}
	err := l.with.Saver.group.Broadcast(ctx, said, l.job.Placement.Group("actor").Ranks[0])
	return said[0] == 1, err
}
