package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// Options are the options of a session.
type Options struct {
	Registries config.Registries // the parts that jobs can use
	Resume     string            // "", auto, or a checkpoint's folder
	Asked      *loop.Requests    // requests to stop
	Out        io.Writer         // progress, for the user
	Terminal   *os.File          // the terminal behind Out, for evaluations behind Log; nil: none
	Log        io.Writer         // errors; nil: standard error
	Profile    Profile           // profiles to write
	Debug      bool              // check that no memory is used after it was handed on
	Tasks      task.Tasks        // all tasks
	Own        Own               // a program that trains in place of the task's
	Scheduler  Scheduler         // decides on rank 0 whether the members move; nil: as cluster.auto_scheduler says
	Command    string            // how this program is called, for the last lines; "": no last lines
	KeepBest   bool              // also keep the best checkpoint
	Evaluation *task.Asked       // evaluate, even if the configuration trains; nil: follow the configuration
}

// Own is a program of a user's own, which runs on each rank of training. Without a Program the task's program runs.
type Own struct {
	Program loop.Program
	Movable bool // it can go on in another world: it passes spmd.Again on, and keeps no state of its own
}

// A session is one start of a job: the state that the ranks of this process share.
type session struct {
	Options
	reg     config.Registries // with the environments of hub
	hub     *external.Hub     // external simulators
	lead    int               // the lowest rank of this process
	cfg     *config.Config    // the configuration of rank 0, shared by goroutine ranks; nil on other processes
	cfgErr  error             // what is wrong with cfg
	own     *config.Config    // the configuration of this process; nil: none
	draft   task.Draft        // of the job; nil: not made yet
	nodes   *advice.Nodes     // of an MPI job that plans, on rank 0; nil: not measured
	chosen  *advice.Plan      // the plan of the placement; nil: the configuration has the placement
	planned planned           // made once for all ranks of this process
	log     RankLog
	code    atomic.Int64                     // the exit code
	traces  traces                           // of the ranks of this process
	ending  atomic.Pointer[ending]           // of the run, while this job has the lock of its folder
	folder  atomic.Pointer[runfolder.Folder] // of rank 0, while it is open
	solvers []*solver                        // solvers in the same MPI job that simulate for this process
	seats   seats                            // of the ranks of this process
	routes  routes                           // of moves
	counts  counts                           // of the workers that the progress shows

	progress *metrics.Progress // of rank 0; nil elsewhere
}

// A planned is the plan of a job, or everything that is wrong, as one error.
type planned struct {
	sync.Once
	plan task.Plan
	err  error
}

// New returns a session that has not started.
func New(o Options) *session { return &session{Options: o, log: RankLog{to: o.Log}} }

// Logs returns the writer for errors of the session.
func (s *session) Logs() io.Writer { return &s.log }

// Start runs the job of cfg on ranks and returns the exit code. draft is the draft of cfg on these ranks; if it is
// nil, Start makes it. wrong is an error already found in cfg; the ranks agree on how to report it. Start returns
// an error only if the end of the session fails, after everything else is done and reported.
func (s *session) Start(ctx context.Context, ranks []spmd.Transport, cfg *config.Config, draft task.Draft,
	wrong error) (int, error) {
	s.draft = draft
	o := spmd.Options{Debug: s.Debug, Failing: s.failing, ExitCode: s.failed, Log: &s.log}
	if cfg != nil && cfg.Err() == nil {
		o.StallTimeout, o.VirtualNodes = cfg.Comm.StallTimeout, cfg.SPMD.Nodes
	}
	s.own = cfg
	if s.lead = ranks[0].Rank(); s.lead == 0 {
		s.cfg, s.cfgErr = cfg, wrong
	}
	s.hub = external.NewHub(&s.log, s.lead).Supervise(s.Registries.Programs)
	s.reg = WithHub(s.Registries, s.hub)
	defer s.showProgress()()
	spmd.Run(ctx, ranks, o, s.run) // its error was written, and s.code has its exit code
	s.seats.leaveAll()
	err := s.close()
	return int(s.code.Load()), err
}

// run is the job on one rank in one world. All ranks take the same steps together. It returns spmd.Again if the members
// move, and is called again in the next world.
func (s *session) run(ctx context.Context, w *spmd.World) (err error) {
	at := s.seats.of(w.Rank())
	defer func() {
		if !errors.Is(err, spmd.Again) {
			s.seats.leave(at)
		}
	}()
	world, err := worldGroup(w)
	if err != nil {
		return err
	}
	enter := s.enter
	if at.plan != nil {
		enter = s.enterAgain
	}
	shared, err := enter(ctx, w, world, at)
	if err != nil || shared == nil {
		return err
	}
	j := at.plan.Common()
	shareCores(w, j)
	s.phase(w, "starting the workers")
	log, err := s.recordTime(ctx, w, world, j.Config, at)
	if err != nil {
		return err
	}
	stopped, err := s.train(ctx, w, at.plan, shared, loop.Services{Saver: at.saver, Log: at.book, Requests: s.Asked,
		Trace: log, From: at.from, GiveUp: s.giveUp(w), Count: s.counters(w, j), Holdings: at.own,
		Moves: &mover{session: s, at: at, world: w, group: world}})
	if err != nil {
		return err
	}
	if err := s.finish(w, stopped, at.book); err != nil {
		return err
	}
	return s.disconnect(ctx, w, world)
}

// worldGroup returns a group of all ranks, for agreements and checkpoints.
func worldGroup(w *spmd.World) (*collectives.Group, error) {
	ends, err := w.NewComm(w.Ranks(), "state")
	if err != nil {
		return nil, err
	}
	return collectives.New(w, ends[0], collectives.Options{})
}

// plan returns the plan of cfg, checks that there is enough memory, and starts profiling. It may fail on some ranks
// and not on others.
func (s *session) plan(w *spmd.World, cfg *config.Config) (task.Plan, error) {
	nodes, rank := w.Nodes(), w.Rank()
	s.planned.Do(func() {
		if s.draft == nil {
			s.draft = s.Tasks.Of(cfg).Draft(cfg, s.reg, nodes)
		}
		s.planned.plan, s.planned.err = s.draft.Complete(cfg, s.reg)
	})
	p, err := s.planned.plan, s.planned.err
	if err != nil {
		return nil, err
	}
	err = p.CheckReplay(nodes, rank)
	if node := nodes[rank]; err == nil && rank == slices.Index(nodes, node) { // one rank checks for its node
		have := job.AvailableOn(nodes, node)
		s.seats.of(rank).room = have.Free
		err = p.CheckMemory(nodes, node, have)
	}
	if err = errors.Join(err, p.CheckFiles(rank)); err != nil {
		return nil, err
	}
	s.checkThreads(w, p.Common())
	if rank == s.lead {
		err = s.Profile.start(rank)
	}
	return p, err
}

// shareCores sets the number of cores of this rank. Goroutine ranks share the cores of their process.
func shareCores(w *spmd.World, j *job.Job) {
	if w.Describe().Transport != "mpi" {
		return
	}
	// With one core, workers delay each other by 10 ms at a time. With all cores of a node on each of its ranks,
	// the ranks' garbage collectors crowd them.
	more := 0
	for of, n := range threadsOf(j) {
		more += len(j.MembersOn(of, w.Rank())) * (n - 1)
	}
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()/w.LocalSize(), len(j.WorkersOn(w.Rank()))+more+1))
}

// threadsOf returns the number of threads with which a worker of each component computes.
func threadsOf(j *job.Job) map[string]int {
	return map[string]int{"actor": j.Config.Actor.Threads, "rollout": j.Config.Rollout.Threads}
}

// checkThreads warns of threads that must share cores.
func (s *session) checkThreads(w *spmd.World, j *job.Job) {
	for of, n := range threadsOf(j) {
		if cores := runtime.NumCPU(); n > cores && len(j.MembersOn(of, w.Rank())) > 0 {
			s.warn(fmt.Sprintf("%s.threads: %d: rank %d has %d cores", of, n, w.Rank(), cores))
		}
	}
}

// train runs the program, while rank 0 renews the lock of the run's folder. It returns the exit code of a run that
// stopped before its last step, else 0.
func (s *session) train(ctx context.Context, w *spmd.World, p task.Plan, shared loop.Shared,
	with loop.Services) (stopped int, err error) {
	keep, cancel := context.WithCancel(ctx) // ends keepFolder alone; a broadcast under way ends by itself
	defer cancel()
	if w.Rank() == 0 {
		with.Started = func() error {
			s.keepFolder(keep, w)
			if with.Moves.(*mover).arrived() {
				return nil // it runs, unless it has failed meanwhile
			}
			if err := s.schedule(w, s.seats.of(0)); err != nil {
				return err
			}
			return s.folder.Load().SetStatus(runfolder.Running)
		}
	}
	c, err := loop.NewCluster(ctx, w, p, shared, with)
	if err != nil {
		return 0, err
	}
	run, cfg := s.Own.Program, p.Common().Config
	if run == nil {
		run = s.Tasks.Of(cfg).Run
	}
	if err := run(ctx, c); err != nil {
		if errors.Is(err, spmd.Again) {
			if err := with.Trace.Flush(false); err != nil {
				s.warn(err.Error())
			}
			shared.Close()
		}
		return 0, err
	}
	if stopped, err = c.Leave(ctx); err != nil {
		return 0, err
	}
	if err := with.Trace.Flush(stopped != 0); err != nil {
		s.warn(err.Error())
	}
	return stopped, c.SaveTrace(ctx, s.traceFile(cfg), s.seats.of(w.Rank()).attempt)
}

// keepFolder renews the lock of the run's folder until ctx ends.
func (s *session) keepFolder(ctx context.Context, w *spmd.World) {
	f := s.folder.Load()
	w.Go("run folder", func() error {
		err := f.KeepAlive(ctx)
		if err != nil {
			s.ending.Store(nil) // another job may have the folder by now
		}
		return err
	})
}

// configure returns the configuration that rank 0 has read, or an error if it does not fit this world.
func (s *session) configure(ctx context.Context, w *spmd.World, world *collectives.Group) (*config.Config, error) {
	wrong, err := s.oddRanks(ctx, w, world)
	if err != nil {
		return nil, err
	}
	if wrong == nil {
		wrong = s.cfgErr
	}
	plans := w.Rank() == 0 && wrong == nil && !s.evaluates(s.cfg)
	if plans {
		auto, _ := s.cfg.Auto()
		plans = len(auto) > 0 && s.draft == nil || s.Scheduler == nil && s.moves(w, s.cfg)
	}
	if err := s.measureNodes(ctx, w, world, plans); err != nil {
		return nil, err
	}
	switch {
	case w.Rank() != 0 || wrong != nil:
	case s.evaluates(s.cfg): // an evaluation fits every world
		wrong = s.cfg.CheckNames(s.reg)
	case s.draft == nil:
		if wrong = s.place(ctx, w); wrong != nil {
			break
		}
		s.draft = s.Tasks.Of(s.cfg).Draft(s.cfg, s.reg, w.Nodes())
		fallthrough
	default:
		wrong = s.draft.Mistakes()
	}
	if agreed, err := s.agreeTo(ctx, w, world, wrong); !agreed {
		return nil, err
	}
	var text []byte
	if w.Rank() == 0 {
		text = s.cfg.Resolved()
	}
	text, err = loop.Broadcast(ctx, world, text, 0)
	if err != nil || s.lead == 0 {
		return s.cfg, err
	}
	return config.Parse(s.reg, text)
}

// agreeTo returns true if no rank has an error. Otherwise all ranks stop. Rank 0 writes the error of the lowest rank
// that has one. This error also gives the exit code.
func (s *session) agreeTo(ctx context.Context, w *spmd.World, world *collectives.Group, err error) (bool, error) {
	code := byte(loop.ExitOK)
	if err != nil {
		code = byte(s.refusal(err))
	}
	agreed, flag, wrong, err := agree(ctx, world, code, err)
	if agreed || err != nil {
		return agreed, err
	}
	if err := world.Broadcast(ctx, flag, 0); err != nil {
		return false, err
	}
	s.refuse(w, int(flag[0]), wrong)
	return false, nil
}

// agree reports whether no rank has an error. Otherwise rank 0 also gets the error of the lowest rank that has one, and
// in flag its code.
func agree(ctx context.Context, world *collectives.Group, code byte, err error) (agreed bool, flag []byte, wrong,
	failure error) {
	var mine []byte
	refusals := []float64{0}
	if err != nil {
		mine = append([]byte{code}, err.Error()...)
		refusals[0] = 1
	}
	if err := world.Sum64(ctx, refusals); err != nil || refusals[0] == 0 { // a sum takes far fewer messages than Gather
		return err == nil, nil, nil, err
	}
	all, err := world.Gather(ctx, mine, 0)
	flag = []byte{loop.ExitOK}
	for r, theirs := range all {
		if len(theirs) > 0 {
			flag[0], wrong = theirs[0], errors.New(string(theirs[1:]))
			if r > 0 {
				wrong = fmt.Errorf("rank %d: %w", r, wrong)
			}
			break
		}
	}
	return false, flag, wrong, err
}

// refusal returns the exit code of a session that could not start because of err. After a request to stop this is
// the request's code, or ExitConfig if a requeue would fail again.
func (s *session) refusal(err error) int {
	stop, _ := s.Asked.Vote()
	if stop == 0 || stop == loop.ExitRequeue && !errors.Is(err, external.ErrStopRequested) {
		return loop.ExitConfig
	}
	return stop
}

// refuse ends a session that could not start. Rank 0 writes one message.
func (s *session) refuse(w *spmd.World, code int, err error) {
	s.code.Store(int64(code))
	if w.Rank() == 0 {
		fmt.Fprintln(&s.log, err)
		if w.ForeignPeers() != nil { // foreign programs wait for this one, and MPI waits for them
			w.Abort(code)
		}
	}
}

func (s *session) warn(text string) { fmt.Fprintln(&s.log, "warning:", text) }

// close closes what this process has open, and releases the run's folder.
func (s *session) close() error {
	err := s.Profile.stop()
	err = errors.Join(err, s.hub.Close())
	if f := s.folder.Swap(nil); f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}
