package session

import (
	"context"
	"encoding/binary"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// traces are the logs of the ranks of a process, in their present worlds.
type traces struct {
	mu   sync.Mutex
	logs map[int]*trace.Log // by rank
}

// flush writes the last iterations of all ranks of this process, at an error or a signal. Errors are ignored: the job
// ends because of another one.
func (t *traces) flush() {
	t.mu.Lock()
	logs := maps.Clone(t.logs)
	t.mu.Unlock()
	for _, l := range logs {
		_ = l.Flush(true)
	}
}

// recordTime begins to record for what this rank spends its time, and returns the log; nil if the configuration asks
// for none. Collective over the world.
func (s *session) recordTime(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config,
	at *seat) (*trace.Log, error) {
	if t := &cfg.Cluster.Tracer; !t.Record && !t.Enable {
		return nil, nil
	}
	start := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	if err := world.Broadcast(ctx, start, 0); err != nil {
		return nil, err
	}
	o := trace.Options{Run: cfg.Folder(), Attempt: int64(binary.LittleEndian.Uint64(start)), Rank: w.Rank(),
		Ranks: w.Size(), Node: w.Node(), Host: w.Host(), All: cfg.Cluster.Tracer.Enable}
	if at.attempt == 0 {
		at.attempt = o.Attempt
	}
	log := trace.NewLog(o)
	loop.Record(w, log)
	world.Record(w.Recorder(), "state", "")
	if w.Rank() == 0 {
		if err := at.book.RecordTime(o); err != nil {
			s.warn(err.Error())
		}
	}
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	if s.traces.logs == nil {
		s.traces.logs = map[int]*trace.Log{}
	}
	s.traces.logs[w.Rank()] = log
	return log, nil
}

// traceFile returns the file of the timeline in Chrome's format.
func (s *session) traceFile(cfg *config.Config) string {
	if file := cfg.Cluster.Tracer.OutputFile; file != "" {
		return file
	}
	return filepath.Join(cfg.Folder(), "trace.json")
}
