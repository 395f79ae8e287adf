package session

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"time"

	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
)

// recordTime begins the trace of this rank in the present world, and returns it; nil if the configuration asks for no
// trace. Collective over the world.
func (r *rank) recordTime(ctx context.Context) (*trace.Log, error) {
	cfg := r.plan.Common().Config
	if t := &cfg.Cluster.Tracer; !t.Record && !t.Enable {
		return nil, nil
	}
	start := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	if err := r.world.Broadcast(ctx, start, 0); err != nil {
		return nil, err
	}
	w := r.w
	o := trace.Options{Run: cfg.Folder(), Attempt: int64(binary.LittleEndian.Uint64(start)), Rank: w.Rank(),
		Ranks: w.Size(), Node: w.Node(), Host: w.Host(), All: cfg.Cluster.Tracer.Enable}
	if r.attempt == 0 {
		r.attempt = o.Attempt
	}
	log := trace.NewLog(o)
	loop.Record(w, log)
	r.world.Record(w.Recorder(), "state", "")
	if w.Rank() == 0 {
		if err := r.book.RecordTime(o); err != nil {
			r.warn(err.Error())
		}
	}
	r.ranks.mu.Lock()
	defer r.ranks.mu.Unlock()
	r.trace = log
	return log, nil
}

// traceFile returns the file of the timeline in Chrome's format.
func traceFile(cfg *config.Config) string {
	if file := cfg.Cluster.Tracer.OutputFile; file != "" {
		return file
	}
	return filepath.Join(cfg.Folder(), "trace.json")
}
