package runner

import (
	"context"
	"errors"
	"time"
)

// Next is the loop head. It reports the iteration that ended, and decides with all ranks whether to
// save and whether to go on. What the step number decides needs no vote; what one rank alone can
// know (a signal, the clock) is decided one step later. When there is no further iteration, it ends
// the run.
func (r *EmbodiedRunner) Next(ctx context.Context) (more bool, err error) {
	switch {
	case !r.ready:
		return false, errors.New("embodied runner: want a call of InitWorkers before the first iteration")
	case r.ended:
		return false, nil
	}
	if !r.begun.IsZero() {
		r.report.times[wholeStep] += time.Since(r.begun).Seconds()
	}
	if more, err = r.next(ctx); err != nil {
		return false, err
	}
	if !more {
		r.ended = true
		return false, r.quiesce(ctx)
	}
	r.world.SetStep(r.step + 1)
	r.begun = time.Now()
	return true, nil
}

// leave ends the loop where its program has left it before Next did.
func (r *EmbodiedRunner) leave(ctx context.Context) error {
	if !r.ready {
		return nil
	}
	r.leaving = true
	_, err := r.Next(ctx)
	return err
}

func (r *EmbodiedRunner) next(ctx context.Context) (bool, error) {
	d, reports, err := r.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := r.with.Log.record(r.reported, reports); err != nil {
		return false, err
	}
	last := r.leaving || r.step >= r.job.MaxSteps
	saves := r.job.SavesAt(r.step) || d.save
	r.writeReport()
	v := vote{step: r.step}
	_, v.path = r.world.Calls()
	if d.stop == 0 {
		v.stop, v.save = r.with.Requests.Vote()
	}
	// nothing is left to be stopped; but what failed in the last iteration has failed
	if last && v.stop != ExitFailed+1 {
		v.stop, v.save = 0, false
	}
	r.reported = r.step
	if err := r.agreement.begin(v, r.buf); err != nil {
		return false, err
	}
	if !last && d.stop == 0 && !saves {
		return true, nil
	}
	// No step later: the metrics of a step are written before its checkpoint, or a run that resumes
	// from it would lack them.
	now, reports, err := r.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := r.with.Log.record(r.reported, reports); err != nil {
		return false, err
	}
	if saves || now.save {
		if err := r.quiesce(ctx); err != nil {
			return false, err
		}
		if err := r.with.Saver.save(ctx, r); err != nil {
			return false, err
		}
	}
	r.stopped = max(d.stop, now.stop)
	return !last && r.stopped == 0, nil
}

// writeReport encodes what this rank has to say of the iteration that ended.
func (r *EmbodiedRunner) writeReport() {
	rep := &r.report
	rep.episodes, rep.evals = rep.episodes[:0], rep.evals[:0]
	for _, w := range r.Env.Here() {
		rep.episodes, rep.evals = w.TakeEpisodes(rep.episodes, rep.evals)
	}
	rep.rollouts = r.step
	for _, w := range r.Actor.Here() {
		if n, counts := w.TakenRollouts(); counts {
			rep.rollouts = n
		}
	}
	r.buf = rep.append(r.buf[:0])
	rep.ownNames, rep.ownValues = rep.ownNames[:0], rep.ownValues[:0]
	clear(rep.times)
}
