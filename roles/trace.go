package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// A tracer notes when this rank's workers were busy with what, to be looked at in a browser
// (chrome://tracing, ui.perfetto.dev). A nil tracer notes nothing. A worker has its own, so that no
// two write at once.
type tracer struct {
	rank   int
	worker string
	spans  []span
}

// A span is one stretch of work; times are since the epoch, which all ranks of a node share.
type span struct {
	what       string
	start, end time.Time
}

// maxSpans bounds the memory of a tracer; what comes later is not noted.
const maxSpans = 1 << 18

// start returns the time, for a span that ends with done.
func (t *tracer) start() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

func (t *tracer) done(what string, start time.Time) {
	if t != nil && len(t.spans) < maxSpans {
		t.spans = append(t.spans, span{what, start, time.Now()})
	}
}

// newTracer returns the tracer of a worker, nil where none was asked for.
func newTracer(j *job, m *spmd.Member) *tracer {
	if !j.cfg.Cluster.Tracer.Enable {
		return nil
	}
	return &tracer{rank: m.World().Rank(), worker: fmt.Sprintf("%s %d", m.Group(), m.Index())}
}

// saveTrace gathers what all workers have noted, and writes it on rank 0. Collective over the
// world; nothing happens where no trace was asked for.
func (r *EmbodiedRunner) saveTrace(ctx context.Context, world *collectives.Group, file string) error {
	if !r.job.cfg.Cluster.Tracer.Enable {
		return nil
	}
	var mine bytes.Buffer
	var tracers []*tracer
	for _, w := range r.env.Here() {
		tracers = append(tracers, w.trace)
	}
	for _, w := range r.rollout.Here() {
		tracers = append(tracers, w.trace)
	}
	for _, w := range r.actor.Here() {
		tracers = append(tracers, w.trace)
	}
	if err := writeEvents(&mine, tracers); err != nil {
		return err
	}
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

// A traceEvent is a complete event of the Trace Event Format; times in microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Start float64 `json:"ts"`
	Took  float64 `json:"dur"`
	Rank  int     `json:"pid"`
	Who   string  `json:"tid"`
}

// writeEvents writes an event for every span, each on a line of its own that ends in a comma.
func writeEvents(out io.Writer, tracers []*tracer) error {
	for _, t := range tracers {
		for _, s := range t.spans {
			line, err := json.Marshal(traceEvent{s.what, "X", float64(s.start.UnixNano()) / 1e3,
				float64(s.end.Sub(s.start).Nanoseconds()) / 1e3, t.rank, t.worker})
			if err != nil {
				return err
			}
			if _, err := out.Write(append(line, ",\n"...)); err != nil {
				return err
			}
		}
	}
	return nil
}
