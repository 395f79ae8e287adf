package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/rlinf/rlinf/roles/worker"
)

// saveTrace is Cluster.SaveTrace.
func (r *EmbodiedRunner) saveTrace(ctx context.Context, file string) error {
	if !r.job.Config.Cluster.Tracer.Enable {
		return nil
	}
	var mine bytes.Buffer
	var tracers []*worker.Tracer
	for _, w := range r.Env.Here() {
		tracers = append(tracers, w.Tracer())
	}
	for _, w := range r.Rollout.Here() {
		tracers = append(tracers, w.Tracer())
	}
	for _, w := range r.Actor.Here() {
		tracers = append(tracers, w.Tracer())
	}
	if err := worker.WriteEvents(&mine, tracers); err != nil {
		return err
	}
	world := r.with.Saver.group
	all, err := world.Gather(ctx, mine.Bytes(), 0)
	if err != nil || world.Rank() != 0 {
		return err
	}
	lines := bytes.TrimSuffix(bytes.Join(all, nil), []byte(",\n"))
	if err := os.WriteFile(file, slices.Concat([]byte("[\n"), lines, []byte("\n]\n")), 0o666); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}
