package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
)

// record opens the log file of this process. Rank 0 writes the list of ranks and the provenance into the run's folder.
func (r *rank) record(ctx context.Context) error {
	j := r.plan.Job
	if r.w.Rank() == r.lead {
		r.ending.Store(r.newEnding())
		r.log.open(runfolder.RankLog(j.Config.Folder(), r.lead))
	}
	about := r.w.Describe()
	type member struct {
		runfolder.Rank
		Binding string
		Quota   int
		GPU     string
	}
	device := ""
	if r.plan.MemoryOf(r.w.Rank()).Device > 0 {
		d, _, err := gpu.Of(r.w.LocalRank())
		if err != nil {
			return err
		}
		device = d.Name + ", " + d.Driver
	}
	mine, err := json.Marshal(member{runfolder.Rank{Rank: r.w.Rank(), PID: about.PID, Host: about.Host,
		Components: j.WorkersOn(r.w.Rank())}, runfolder.Binding(), about.Quota, device})
	if err != nil {
		return err
	}
	all, err := r.world.Gather(ctx, mine, 0)
	if err != nil || r.w.Rank() != 0 {
		return err
	}
	if about.Launcher == "" && r.w.Size() > 1 {
		fmt.Fprintf(&r.log, "running without MPI: %d ranks in one process\n", r.w.Size())
	}
	p := runfolder.Describe(os.Getenv("SLURM_JOB_ID"))
	p.Project, p.Resumed, p.Iterations = j.Config.Runner.Logger.ProjectName, r.from.From, plannedSteps(j)
	p.Forked = r.Fork
	p.Transport, p.Library, p.Launcher, p.Threads, p.Shared = about.Transport, about.Library, about.Launcher,
		about.Threads, about.Shared
	for _, text := range all {
		var m member
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		r.recorded = append(r.recorded, m.Rank)
		p.Hosts, p.Binding, p.Quota = append(p.Hosts, m.Host), append(p.Binding, m.Binding), append(p.Quota, m.Quota)
		p.GPUs = append(p.GPUs, m.GPU)
	}
	if slices.Max(p.GPUs) == "" {
		p.GPUs = nil
	}
	if slices.Max(p.Quota) == 0 {
		p.Quota = nil
	}
	if crowd := p.Crowd(); crowd != "" {
		fmt.Fprintf(&r.log, "%s: %s\n", crowd, runfolder.CrowdAdvice)
	}
	r.warnBound(j, p.Binding)
	if p.Inputs, err = runfolder.HashInputs(r.saver.YAML); err != nil {
		return err
	}
	f := r.folder.Load()
	return errors.Join(f.WriteRanks(r.recorded), f.AddProvenance(p))
}

// recordTime begins the trace of this rank in the present world, and returns the trace. It returns nil if the
// configuration asks for no trace. Every rank must call it.
func (r *rank) recordTime(ctx context.Context) (*trace.Log, error) {
	cfg := r.plan.Config
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
	r.attempt = cmp.Or(r.attempt, o.Attempt)
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

// traceFile returns the path of the trace in Chrome's format.
func traceFile(cfg *config.Config) string {
	if file := cfg.Cluster.Tracer.OutputFile; file != "" {
		return file
	}
	return filepath.Join(cfg.Folder(), "trace.json")
}
