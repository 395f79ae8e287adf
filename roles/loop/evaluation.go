package loop

import "context"

// EndFailedEvaluation ends the run if an evaluation has failed on any rank. Before that, it saves a checkpoint of the
// iterations trained, without a score. failures is the number of errors on this rank, drop forgets the results of the
// evaluation, and fail returns this rank's error from a group call. All ranks must call EndFailedEvaluation, with
// nothing in flight. It returns when all ranks have called it.
func (l *Loop) EndFailedEvaluation(ctx context.Context, failures int, drop func(), fail func() error) error {
	all := []float64{float64(failures)}
	if err := l.Sum(ctx, all); err != nil || all[0] == 0 {
		return err
	}
	drop()
	l.salvaging = true
	if _, err := l.Next(ctx); err != nil {
		return err
	}
	if err := l.Barrier(ctx); err != nil { // rank 0 has written the checkpoint
		return err
	}
	if err := fail(); err != nil {
		return err
	}
	<-ctx.Done() // the error is on other ranks
	return context.Cause(ctx)
}
