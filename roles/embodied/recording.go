package embodied

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/roles/embodied/dataset"
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

// join joins the recordings of all env workers for one use: training or evaluation. If there is no episode to record,
// it only warns.
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
	_, _, err = writeRecording(path, file, routing.Firsts(), cfg.DataCollection)
	if errors.Is(err, play.ErrNothingRecorded) {
		r.loop.Warn(err.Error())
		return nil
	}
	return err
}

// writeRecording joins tapes as play.JoinTapes does, and returns the path of what it wrote: the file at path, or a
// folder of LeRobot without the file's suffix. The folder replaces an earlier recording. If it cannot be written, the
// file stays.
func writeRecording(path, tapes string, los []int, cfg env.DataCollection) (string, play.Joined, error) {
	joined, err := play.JoinTapes(path, tapes, los, cfg)
	if err != nil || cfg.ExportFormat != env.ExportLeRobot {
		return path, joined, err
	}
	dir := strings.TrimSuffix(path, filepath.Ext(path))
	e := dataset.Export{Version: lerobot.V21, FPS: cfg.FPS, Robot: cfg.RobotType, Replace: true}
	if err := e.Write(path, dir); err != nil {
		return path, joined, fmt.Errorf("data_collection.export_format: lerobot: %w; %s has the episodes", err, path)
	}
	return dir, joined, os.Remove(path)
}
