package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// A rank has the state of a session for one rank of this process, in all worlds of the job.
type rank struct {
	*session
	w     *spmd.World        // the present world
	world *collectives.Group // all ranks of w

	plan     *task.Plan // the plan of the present world; nil at first
	holdings *loop.Holdings
	saver    *loop.CheckpointSaver
	ends     []func()   // functions that the method leave calls; guarded by ranks.mu
	trace    *trace.Log // the trace of the present world; guarded by ranks.mu
	room     int64      // on the first rank of a node: the node's free bytes before the job took memory
	attempt  int64      // the trace.Options.Attempt of the first world; 0 without a trace

	// On rank 0:
	nodes     *advice.Nodes // the result of measureNodes; nil if nothing was measured
	book      *loop.Logbook
	from      loop.StartState
	transfer  *transfer        // the move under way
	said      string           // the ID of the last request for a move that was answered
	unread    string           // the last error of reading a request for a move
	recorded  []runfolder.Rank // the contents of ranks.jsonl in the run's folder
	scheduler Scheduler        // nil if only rlinf scale requests moves
	took      float64          // seconds of the last iteration, for the scheduler; 0 if unknown
	entered   time.Time        // when the rank began to load the model
}

// ranks are the ranks of this process.
type ranks struct {
	byNumber map[int]*rank
	mu       sync.Mutex
	left     bool // leaveAll was called
}

// atEnd registers f, which is called when r leaves its last world. After leaveAll, atEnd calls f at once.
func (rs *ranks) atEnd(r *rank, f func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.left { // the job has failed on another rank
		f()
		return
	}
	r.ends = append(r.ends, f)
}

// leave is called by a rank at the end of its last world.
func (rs *ranks) leave(r *rank) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.leave()
}

// leaveAll is called at the end of the session. It is for ranks that have not called leave, because the world after a
// move did not start.
func (rs *ranks) leaveAll() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.left = true
	for _, r := range rs.byNumber {
		r.leave()
	}
}

func (r *rank) leave() {
	for _, f := range slices.Backward(r.ends) {
		f()
	}
	r.ends = nil
}

// flush writes the last iterations of all ranks to their traces, at an error or a signal. It ignores errors of its own.
func (rs *ranks) flush() {
	rs.mu.Lock()
	var logs []*trace.Log
	for _, r := range rs.byNumber {
		logs = append(logs, r.trace)
	}
	rs.mu.Unlock()
	for _, l := range logs {
		_ = l.Flush(true)
	}
}

// enter begins the job on a rank, in the first world. It returns the data that the rank's workers share, or nil if the
// job only evaluates or cannot start.
func (r *rank) enter(ctx context.Context) (loop.Shared, error) {
	if r.w.Rank() == 0 && r.cfgErr == nil { // configure can measure the job
		r.heedRequests(r.cfg)
	}
	cfg, err := r.configure(ctx)
	if err != nil || cfg == nil {
		return nil, err
	}
	if r.evaluates(cfg) {
		return nil, r.evaluate(ctx, cfg)
	}
	if r.w.Rank() != 0 {
		r.heedRequests(cfg)
	}
	r.hub.Watch(r.giveUp())
	r.phase("starting simulators")
	if cfg, err = r.handshake(ctx, cfg); err != nil || cfg == nil {
		return nil, err
	}
	r.phase("preparing the job")
	err = r.measure(ctx, cfg)
	p, wrong := r.complete(cfg)
	if agreed, err := r.Agree(ctx, errors.Join(err, wrong)); !agreed || err != nil {
		return nil, err
	}
	r.plan = p
	r.phase("loading the model")
	r.entered = time.Now()
	r.holdings = loop.NewHoldings(r.w)
	shared, err := p.Open(r.w, r.holdings) // after all ranks have checked memory
	if agreed, err := r.Agree(ctx, err); !agreed || err != nil {
		return nil, err
	}
	r.saver = loop.NewCheckpointSaver(r.world, cfg.Record(), r.warn)
	r.phase("opening the run's folder")
	if r.w.Rank() == 0 {
		err = r.begin(ctx)
	}
	if agreed, err := r.Agree(ctx, err); !agreed || err != nil {
		return nil, err
	}
	if err := r.record(ctx); err != nil {
		return nil, err
	}
	r.ranks.atEnd(r, r.Asked.BeforeExit(r.abandon))
	return shared, nil
}

// heedRequests sets the time limit of a training job. It also makes a request to stop end all waits for simulators, and
// makes rank 0 answer the request.
func (r *rank) heedRequests(cfg *config.Config) {
	if r.evaluates(cfg) {
		return
	}
	r.Asked.Expire(cfg.Runner.MaxTime)
	r.ranks.atEnd(r, r.Asked.AtStop(r.hub.RequestStop))
	if r.w.Rank() == 0 {
		s, late := r.session, r.w.Size() > 1
		r.ranks.atEnd(r, r.Asked.AtStop(func(atOnce bool) { s.acknowledge(late, atOnce) }))
	}
}

// enterAgain continues the job on a rank, in the world after a move.
func (r *rank) enterAgain(ctx context.Context) (loop.Shared, error) {
	r.holdings.Enter(r.w)
	r.saver.Join(r.world)
	if r.w.Rank() == 0 {
		for i := range r.recorded {
			r.recorded[i].Components = r.plan.Job.WorkersOn(i)
		}
		if err := r.folder.Load().WriteRanks(r.recorded); err != nil {
			return nil, err
		}
	}
	return r.plan.Open(r.w, r.holdings)
}

// givenPaths returns the paths that the user has given, which may have line feeds.
func (s *session) givenPaths() []string {
	paths := []string{s.Resume}
	if s.Evaluation != nil {
		paths = append(paths, s.Evaluation.Checkpoint)
	}
	if s.cfg != nil {
		paths = append(paths, s.cfg.Runner.CkptPath, s.cfg.Runner.ResumeDir)
	}
	return paths
}
