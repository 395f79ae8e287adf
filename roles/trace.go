package roles

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

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

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (a *ActorWorker) Tracer() *tracer { return a.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (r *RolloutWorker) Tracer() *tracer { return r.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *EnvWorker) Tracer() *tracer { return w.trace }

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
