package loop

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// A recorder adapts a trace.Recorder to spmd.Recorder. It adds the causes of waits, which package spmd does not know.
type recorder struct{ *trace.Recorder }

var _ spmd.Recorder = recorder{}

// Record makes log record the main function of w, and all workers that are launched later. A nil log records nothing.
func Record(w *spmd.World, log *trace.Log) {
	if log == nil {
		return
	}
	w.Record(func(group string, member int) spmd.Recorder {
		group = cmp.Or(group, trace.Runner)
		return recorder{log.Recorder(group, member)}
	})
	log.Count(func() (all []trace.Sent) {
		for to, n := range w.Traffic() {
			if n.Messages > 0 {
				all = append(all, trace.Sent{From: w.Rank(), To: to, Messages: n.Messages, Bytes: n.Bytes})
			}
		}
		return all
	})
}

// ops has the name of each operation in a trace, and the cause of the operation's waits. A cause in siteCauses takes
// precedence.
var ops = map[spmd.SiteOp]struct {
	op    trace.SiteKind
	cause trace.Cause
}{
	spmd.OpWork:    {trace.Work, trace.Working},
	spmd.OpCall:    {trace.Call, trace.Other},
	spmd.OpAwait:   {trace.Await, trace.Calling},
	spmd.OpGet:     {trace.Get, trace.Message},
	spmd.OpRoom:    {trace.Room, trace.NoRoom},
	spmd.OpPut:     {trace.Put, trace.Other},
	spmd.OpReceive: {trace.Receive, trace.Message},
	spmd.OpCollect: {trace.Collect, trace.Gradient},
	spmd.OpPublish: {trace.Publish, trace.Weights},
	spmd.OpAdopt:   {trace.Adopt, trace.Weights},
	spmd.OpVote:    {trace.Vote, trace.Voting},
	spmd.OpSave:    {trace.Work, trace.Saving},
}

// siteCauses are the causes of waits at channels and groups, by the name of the channel or group.
var siteCauses = map[string]trace.Cause{
	"obs": trace.Observation, "eval obs": trace.Observation,
	"act": trace.Action, "eval act": trace.Action,
	"out": trace.Trajectory, "batches": trace.Trajectory,
	"answers of rollout": trace.Trajectory, "answers of reward": trace.Trajectory,
	"answers of inference": trace.Trajectory, "answers of critic": trace.Trajectory,
	"groups":      trace.Trajectory,
	"transitions": trace.Reward, "rewards": trace.Reward,
	"state": trace.Voting, member.Layers: trace.Message,
}

// Site returns the number of a site in the trace.
func (r recorder) Site(s spmd.Site) int {
	o := ops[s.Op]
	if cause, ok := siteCauses[s.Name]; ok && (s.Op == spmd.OpGet || s.Op == spmd.OpCollect) {
		o.cause = cause
	}
	return r.Recorder.Site(trace.Site{Op: o.op, Name: s.Name, Key: s.Key, Peer: s.Peer, Cause: o.cause})
}

// SaveTrace writes the traces of all ranks to a file on rank 0, in Chrome's format. It omits attempts before
// minAttempt. It does nothing if the configuration does not enable the tracer. Every rank must call it.
func (c *Cluster) SaveTrace(ctx context.Context, file string, minAttempt int64) error {
	if c.loop == nil || !c.Config().Cluster.Tracer.Enable {
		return nil
	}
	own, group := c.with.Trace.File(), c.with.Saver.group
	var mine []byte
	if c.world.LocalRank() == 0 || filepath.Base(own) == trace.FileOfRank(c.world.Rank()) {
		var err error
		if mine, err = os.ReadFile(own); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	all, err := group.Gather(ctx, mine, 0)
	if err != nil || c.world.Rank() != 0 {
		return err
	}
	names := make([]string, len(all))
	for rank := range all {
		names[rank] = fmt.Sprintf("the trace of rank %d", rank)
	}
	t := trace.Parse(names, all)
	t.Attempts = slices.DeleteFunc(t.Attempts, func(a trace.Attempt) bool { return a.ID < minAttempt })
	var out bytes.Buffer
	if err := trace.WriteChrome(&out, t); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if err := durable.Replaceable(file, trace.IsChrome); err != nil {
		return fmt.Errorf("trace: %s: %w", file, err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}
