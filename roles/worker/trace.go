package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// A Tracer records when a worker was busy, for a browser to show (chrome://tracing,
// ui.perfetto.dev). A nil tracer records nothing. Each worker has its own, so that no two write at
// once.
type Tracer struct {
	rank   int
	worker string
	Spans  []Span // in the order of time
}

// A Span is one stretch of work; times are since the epoch, which all ranks of a node share.
type Span struct {
	what       string
	Start, End time.Time // of the work
}

// maxSpans bounds the memory of a tracer; it ignores later spans.
const maxSpans = 1 << 18

// start returns the time, for a span that ends with done.
func (t *Tracer) start() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

func (t *Tracer) done(what string, start time.Time) {
	if t != nil && len(t.Spans) < maxSpans {
		t.Spans = append(t.Spans, Span{what, start, time.Now()})
	}
}

// newTracer returns the tracer of a worker, nil without cluster.tracer.
func newTracer(j *job.Job, m *spmd.Member) *Tracer {
	if !j.Config.Cluster.Tracer.Enable {
		return nil
	}
	return &Tracer{rank: m.World().Rank(), worker: fmt.Sprintf("%s %d", m.Group(), m.Index())}
}

// newProgress returns what a worker tells how far its work is.
func newProgress(j *job.Job, m *spmd.Member) algo.Progress {
	if j.Count == nil {
		return nil
	}
	return j.Count(m.Group(), m.Index())
}

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (a *ActorWorker) Tracer() *Tracer { return a.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (r *RolloutWorker) Tracer() *Tracer { return r.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *EnvWorker) Tracer() *Tracer { return w.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *RewardWorker) Tracer() *Tracer { return w.trace }

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *InferenceWorker) Tracer() *Tracer { return w.trace }

// A traceEvent is a complete event of the Trace Event Format; times in microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Start float64 `json:"ts"`
	Took  float64 `json:"dur"`
	Rank  int     `json:"pid"`
	Who   string  `json:"tid"`
}

// WriteEvents writes an event for every span, each on a line of its own that ends in a comma.
func WriteEvents(out io.Writer, tracers []*Tracer) error {
	for _, t := range tracers {
		for _, s := range t.Spans {
			line, err := json.Marshal(traceEvent{s.what, "X", float64(s.Start.UnixNano()) / 1e3,
				float64(s.End.Sub(s.Start).Nanoseconds()) / 1e3, t.rank, t.worker})
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
