package loop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// saveTrace gathers the timelines of all ranks and writes file on rank 0.
func (l *Loop) saveTrace(ctx context.Context, file string) error {
	if !l.job.Config.Cluster.Tracer.Enable {
		return nil
	}
	var mine bytes.Buffer
	if err := member.WriteEvents(&mine, l.leader.Tracers()); err != nil {
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

// TracersOf appends to all the tracers of g's members on this rank. g may be nil.
func TracersOf[W interface{ Tracer() *member.Tracer }](all []*member.Tracer, g *spmd.Group[W]) []*member.Tracer {
	if g == nil {
		return all
	}
	for _, w := range g.Here() {
		all = append(all, w.Tracer())
	}
	return all
}
