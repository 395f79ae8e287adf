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
func (l *loop) saveTrace(ctx context.Context, file string) error {
	if !l.job.Config.Cluster.Tracer.Enable {
		return nil
	}
	var mine bytes.Buffer
	if err := worker.WriteEvents(&mine, l.tracers()); err != nil {
		return err
	}
	world := l.with.Saver.group
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

// tracers returns those of this rank's workers.
func (r *EmbodiedRunner) tracers() (all []*worker.Tracer) {
	for _, w := range r.Env.Here() {
		all = append(all, w.Tracer())
	}
	for _, w := range r.Rollout.Here() {
		all = append(all, w.Tracer())
	}
	for _, w := range r.Actor.Here() {
		all = append(all, w.Tracer())
	}
	return all
}
