package embodied

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
)

// endRecordings writes the files of data_collection at the end of a run. Without recordings it does nothing.
func (r *EmbodiedRunner) endRecordings(ctx context.Context) error {
	train, eval := &r.plan.Config.Env.Train, &r.plan.Config.Env.Eval
	if !train.DataCollection.Enabled && !eval.DataCollection.Enabled {
		return nil
	}
	if err := loop.WaitAll(ctx, loop.Call(ctx, r.Env, "end_tapes", func(_ context.Context, w *worker.EnvWorker) error {
		return w.EndTapes()
	})); err != nil {
		return err
	}
	if err := r.loop.Barrier(ctx); err != nil || !r.leads {
		return err
	}
	err := r.join(env.Train, train, &r.plan.Train)
	if r.plan.Config.Evaluates() {
		err = errors.Join(err, r.join(env.Eval, eval, &r.plan.Eval))
	}
	return err
}

// join joins what the env workers have recorded of one use. If no episode is to be recorded, it only warns.
func (r *EmbodiedRunner) join(use env.Use, cfg *env.Config, routing *plan.Routing) error {
	name := worker.RecordingOf(use)
	file, err := r.plan.Config.RecordFile(use, name)
	if err != nil || file == "" {
		return err
	}
	path, err := r.plan.Config.RecordFile(use, fmt.Sprintf("%s_global_step_%d", name, r.began))
	if err != nil {
		return err
	}
	_, err = play.JoinTapes(path, file, routing.Firsts(), cfg.DataCollection)
	if errors.Is(err, play.ErrNothingRecorded) {
		r.loop.Warn(err.Error())
		return nil
	}
	return err
}
