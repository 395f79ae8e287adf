package session

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// traces are the logs of the ranks of a process.
type traces struct {
	mu   sync.Mutex
	logs []*trace.Log
}

// flush writes the last iterations of all ranks of this process, at an error or a signal. Errors are ignored: the job
// ends because of another one.
func (t *traces) flush() {
	t.mu.Lock()
	logs := slices.Clone(t.logs)
	t.mu.Unlock()
	for _, l := range logs {
		_ = l.Flush(true)
	}
}

// recordTime begins to record for what this rank spends its time, and returns the log; nil if the configuration asks
// for none. book is rank 0's. Collective over the world.
func (s *session) recordTime(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config,
	book *loop.Logbook) (*trace.Log, error) {
	if t := &cfg.Cluster.Tracer; !t.Record && !t.Enable {
		return nil, nil
	}
	start := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	if err := world.Broadcast(ctx, start, 0); err != nil {
		return nil, err
	}
	o := trace.Options{Run: cfg.Folder(), Attempt: int64(binary.LittleEndian.Uint64(start)), Rank: w.Rank(),
		Ranks: w.Size(), Node: w.Node(), Host: w.Host(), All: cfg.Cluster.Tracer.Enable}
	log := trace.NewLog(o)
	loop.Record(w, log)
	world.Record(w.Recorder(), "state", "")
	if w.Rank() == 0 {
		book.RecordTime(o)
	}
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	s.traces.logs = append(s.traces.logs, log)
	return log, nil
}

// traceFile returns the file of the timeline in Chrome's format.
func (s *session) traceFile(cfg *config.Config) string {
	if file := cfg.Cluster.Tracer.OutputFile; file != "" {
		return file
	}
	return filepath.Join(cfg.Folder(), "trace.json")
}
