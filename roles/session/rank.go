package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// A seat has what a rank of this process keeps while worlds end and begin.
type seat struct {
	plan   task.Plan      // of the present world; nil: the rank has not begun
	own    *loop.Holdings // of the present world
	saver  *loop.Saver
	book   *loop.Logbook    // of rank 0
	from   loop.StartState  // of rank 0
	trip   *trip            // of rank 0: the move under way
	said   string           // of rank 0: the last request for a move that was answered
	unread string           // of rank 0: why a request for a move could not be read last
	ranks  []runfolder.Rank // on rank 0: what the run's folder has of all ranks
	ends   []func()         // what leave calls
	room   int64            // on the first rank of a node: the node's free bytes before the job took memory
	// attempt is the number of the first world in the trace; 0: nothing is recorded.
	attempt int64
	// On rank 0:
	scheduler Scheduler // nil: only rlinf scale asks for moves
	took      float64   // seconds of the last iteration, for the scheduler; 0: not known
	entered   time.Time // when the rank began to load the model
}

// seats are the seats of the ranks of this process.
type seats struct {
	mu     sync.Mutex
	byRank map[int]*seat
	left   bool // by all ranks
}

// atEnd makes leave call f.
func (s *seats) atEnd(at *seat, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left { // the job has failed on another rank
		f()
		return
	}
	at.ends = append(at.ends, f)
}

// leave is called by a rank whose last world ends.
func (s *seats) leave(at *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.leave()
}

// leaveAll is called at the end of the session, because a world that is to be followed by another may fail.
func (s *seats) leaveAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for _, at := range s.byRank {
		at.leave()
	}
}

func (s *seat) leave() {
	for _, f := range slices.Backward(s.ends) {
		f()
	}
	s.ends = nil
}

// of returns the seat of a rank.
func (s *seats) of(rank int) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRank == nil {
		s.byRank = map[int]*seat{}
	}
	if s.byRank[rank] == nil {
		s.byRank[rank] = new(seat)
	}
	return s.byRank[rank]
}

// enter begins the job on a rank, in the first world. It returns what the rank's workers share; nil if there is nothing
// to train, or the job could not start.
func (s *session) enter(ctx context.Context, w *spmd.World, world *collectives.Group, at *seat) (loop.Shared, error) {
	cfg, err := s.configure(ctx, w, world)
	if err != nil || cfg == nil {
		return nil, err
	}
	if s.evaluates(cfg) {
		return nil, s.evaluate(ctx, w, world, cfg)
	}
	s.Asked.Expire(cfg.Runner.MaxTime)
	s.seats.atEnd(at, s.Asked.AtStop(s.hub.RequestStop))
	if w.Rank() == 0 {
		late := w.Size() > 1
		s.seats.atEnd(at, s.Asked.AtStop(func(atOnce bool) { s.acknowledge(late, atOnce) }))
	}
	s.hub.Watch(s.giveUp(w))
	s.phase(w, "starting simulators")
	if cfg, err = s.handshake(ctx, w, world, cfg); err != nil || cfg == nil {
		return nil, err
	}
	s.phase(w, "preparing the job")
	err = s.measure(ctx, w, cfg)
	p, wrong := s.plan(w, cfg)
	err = errors.Join(err, wrong)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed || err != nil {
		return nil, err
	}
	s.phase(w, "loading the model")
	at.entered = time.Now()
	at.own = loop.NewHoldings(w)
	shared, err := p.Open(w, at.own) // after all ranks have checked memory
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed || err != nil {
		return nil, err
	}
	at.saver = loop.NewSaver(world, cfg.Record(), s.warn)
	s.phase(w, "opening the run's folder")
	if w.Rank() == 0 {
		at.book, at.from, err = s.begin(ctx, p, at.saver)
	}
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed || err != nil {
		return nil, err
	}
	if at.ranks, err = s.record(ctx, w, world, p.Common(), at.from); err != nil {
		return nil, err
	}
	s.seats.atEnd(at, s.Asked.BeforeExit(s.abandon))
	at.plan = p
	return shared, nil
}

// enterAgain goes on with the job on a rank, in the world that follows a move.
func (s *session) enterAgain(ctx context.Context, w *spmd.World, world *collectives.Group, at *seat) (loop.Shared,
	error) {
	at.own.Enter(w)
	at.saver.Join(world)
	if w.Rank() == 0 {
		for r := range at.ranks {
			at.ranks[r].Components = at.plan.Common().WorkersOn(r)
		}
		if err := s.folder.Load().WriteRanks(at.ranks); err != nil {
			return nil, err
		}
	}
	return at.plan.Open(w, at.own)
}
