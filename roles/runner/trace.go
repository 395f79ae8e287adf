package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
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
func (r *EmbodiedRunner) tracers() []*worker.Tracer {
	all := tracersOf(nil, r.Env)
	all = tracersOf(all, r.Rollout)
	all = tracersOf(all, r.Reward)
	all = tracersOf(all, r.Inference)
	return tracersOf(all, r.Actor)
}

// tracersOf appends the tracers of this rank's members of g to all. g may be nil.
func tracersOf[W interface{ Tracer() *worker.Tracer }](all []*worker.Tracer, g *spmd.Group[W]) []*worker.Tracer {
	if g == nil {
		return all
	}
	for _, w := range g.Here() {
		all = append(all, w.Tracer())
	}
	return all
}
