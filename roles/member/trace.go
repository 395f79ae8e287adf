package member

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// A Tracer records a timeline of one worker, for a browser to show (chrome://tracing, ui.perfetto.dev). A nil
// Tracer records nothing. Only its worker writes to it.
type Tracer struct {
	rank   int
	worker string
	Spans  []Span // in the order of time
}

// A Span is one piece of work. Its times count from the epoch that all ranks of a node share.
type Span struct {
	what       string
	Start, End time.Time // of the piece of work
}

// maxSpans bounds the memory of a tracer; it ignores later spans.
const maxSpans = 1 << 18

// Start returns the present time, to be passed to Done.
func (t *Tracer) Start() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

// Done records a span that began at start, and ends now.
func (t *Tracer) Done(what string, start time.Time) {
	if t != nil && len(t.Spans) < maxSpans {
		t.Spans = append(t.Spans, Span{what, start, time.Now()})
	}
}

// NewTracer returns the tracer of a worker; nil unless cluster.tracer is enabled.
func NewTracer(j *job.Job, m *spmd.Member) *Tracer {
	if !j.Config.Cluster.Tracer.Enable {
		return nil
	}
	return &Tracer{rank: m.World().Rank(), worker: fmt.Sprintf("%s %d", m.Group(), m.Index())}
}

// A traceEvent is a complete event of the Trace Event Format. Times are in microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Start float64 `json:"ts"`
	Took  float64 `json:"dur"`
	Rank  int     `json:"pid"`
	Who   string  `json:"tid"`
}

// WriteEvents writes each span as an event, on a line that ends in a comma.
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
