package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// Options are the options of a session.
type Options struct {
	Registries config.Registries       // the parts that jobs can use
	Resume     string                  // "", auto, or a checkpoint's folder
	Asked      *loop.Requests          // requests to stop
	Out        io.Writer               // progress, for the user
	Terminal   *os.File                // the terminal behind Out, or behind Log in evaluations; nil if there is none
	Log        io.Writer               // errors; nil means standard error
	Profile    ProfileOptions          // profiles to write
	Debug      bool                    // detect access to released memory: see spmd.Options
	Tasks      task.Tasks              // all tasks
	Own        UserProgram             // a user's program, which replaces the task's program
	Scheduler  Scheduler               // decides on rank 0 whether the members move; nil to obey cluster.auto_scheduler
	Command    string                  // how the user calls rlinf, for the last lines of output; "" to omit them
	Sweep      bool                    // also keeps the best checkpoint, and starts anew if the keys changed
	Fork       string                  // the parent's checkpoint, of which Resume is a copy; "" if there is none
	Heartbeat  time.Duration           // between renewals of the lock of the run's folder; 0 means the usual interval
	Until      int64                   // the step after which training stops; 0 to follow the configuration
	Witness    loop.MemberWitness      // see loop.Services; may be nil
	Evaluation *task.EvaluationOptions // options of an evaluation instead of training; nil to follow the configuration
}

// UserProgram is a user's program, which every rank of a training job runs. If Program is nil, the task's program runs.
type UserProgram struct {
	Program loop.Program
	Movable bool // Program can go on in another world: it returns spmd.Again, and keeps no state of its own
}

// A session is the state that the ranks of this process share during one start of a job.
type session struct {
	Options
	reg     config.Registries // Options.Registries with the environments of hub
	hub     *external.Hub     // external simulators
	lead    int               // the lowest rank of this process
	cfg     *config.Config    // the configuration of rank 0, shared by goroutine ranks; nil on other processes
	cfgErr  error             // the mistakes in cfg
	read    *config.Config    // the configuration that this process has read; nil if it has read none
	draft   task.Draft        // the draft of the job; nil until it is made
	chosen  *advice.StartPlan // the plan of the placement; nil if the configuration has the placement
	planned struct {          // the plan of the job, or all its mistakes; made once for all ranks of this process
		sync.Once
		plan *task.Plan
		err  error
	}
	log          RankLog
	code         atomic.Int64                     // the exit code
	ending       atomic.Pointer[ending]           // nil unless this job holds the lock of the run's folder
	folder       atomic.Pointer[runfolder.Folder] // the run's folder on rank 0, while it is open
	logbook      atomic.Pointer[loop.Logbook]     // on rank 0
	solvers      []*solver                        // solvers in this MPI job that simulate for this process
	ranks        ranks                            // the ranks of this process
	counts       counts                           // the workers' counters for the progress
	destinations struct {                         // the newest destination of a move; ranks share it
		sync.Mutex
		newest *destination
	}

	progress *metrics.ProgressLine // on rank 0; nil elsewhere
}

// New returns a session that has not started.
func New(o Options) *session {
	s := &session{Options: o, log: RankLog{to: o.Log}}
	s.ranks.byNumber, s.counts.all = map[int]*rank{}, map[string]func(string, int, int){}
	return s
}

// Logs returns the writer for errors of the session.
func (s *session) Logs() io.Writer { return &s.log }

// Start runs the job of cfg on ranks and returns the exit code. draft is the draft of cfg on these ranks. If it is nil,
// the session makes the draft. wrong is an error that was already found in cfg, or nil. Start returns errors of closing
// the session, and logs all other errors.
func (s *session) Start(ctx context.Context, ranks []spmd.Transport, cfg *config.Config, draft task.Draft,
	wrong error) (int, error) {
	s.draft = draft
	o := spmd.Options{Debug: s.Debug, Failing: s.failing, ExitCode: s.failed, Log: &s.log}
	if cfg != nil && cfg.Err() == nil {
		o.StallTimeout, o.VirtualNodes = cfg.Comm.StallTimeout, cfg.SPMD.Nodes
	}
	s.read = cfg
	for _, t := range ranks {
		s.ranks.byNumber[t.Rank()] = &rank{session: s}
	}
	if s.lead = ranks[0].Rank(); s.lead == 0 {
		s.cfg, s.cfgErr = cfg, wrong
	}
	s.hub = external.NewHub(&s.log, s.lead).Supervise(s.Registries.Programs)
	s.reg = WithHub(s.Registries, s.hub)
	defer s.showProgress()()
	spmd.Run(ctx, ranks, o, s.run) // s has written the error, and s.code has the exit code
	s.ranks.leaveAll()
	err := s.close()
	return int(s.code.Load()), err
}

// run runs the job on one rank in one world. Every rank must call it. If the members move, run returns spmd.Again,
// and is called again in the next world.
func (s *session) run(ctx context.Context, w *spmd.World) (err error) {
	r := s.ranks.byNumber[w.Rank()]
	r.w = w
	defer func() {
		if !errors.Is(err, spmd.Again) {
			s.ranks.leave(r)
		}
	}()
	ends, err := w.NewComm(w.Ranks(), "state")
	if err != nil {
		return err
	}
	if r.world, err = collectives.New(w, ends[0], collectives.Options{}); err != nil {
		return err
	}
	enter := r.enter
	if r.plan != nil {
		enter = r.enterAgain
	}
	shared, err := enter(ctx)
	if err != nil || shared == nil {
		return err
	}
	shareCores(w, r.plan.Job)
	r.phase("starting the workers")
	log, err := r.recordTime(ctx)
	if err != nil {
		return err
	}
	stopped, err := r.train(ctx, shared, log, &mover{rank: r})
	if err != nil {
		return err
	}
	if err := r.finish(stopped); err != nil {
		return err
	}
	return r.Leave(ctx)
}

// complete returns the plan of cfg, checks that there is enough memory, and starts profiling. It may fail on some ranks
// and succeed on others.
func (r *rank) complete(cfg *config.Config) (*task.Plan, error) {
	nodes, rank := r.w.Nodes(), r.w.Rank()
	r.planned.Do(func() {
		if r.draft == nil {
			r.draft = r.Tasks.Of(cfg).Draft(cfg, r.reg, nodes)
		}
		r.planned.plan, r.planned.err = r.draft.Complete(cfg, r.reg)
	})
	p, err := r.planned.plan, r.planned.err
	if err != nil {
		return nil, err
	}
	if r.w.LocalRank() == 0 { // one rank checks for its node
		have := job.AvailableOn(nodes, r.w.Node())
		r.room = have.Free
		err = p.CheckMemory(nodes, r.w.Node(), have)
	}
	if err = errors.Join(err, p.CheckFiles(rank)); err != nil {
		return nil, err
	}
	r.checkThreads(p.Job)
	if rank == r.lead {
		err = r.Profile.start(rank)
	}
	return p, err
}

// shareCores limits the number of cores of an MPI rank (GOMAXPROCS). Goroutine ranks share the cores of their process.
func shareCores(w *spmd.World, j *job.Job) {
	if w.Describe().Transport != "mpi" {
		return
	}
	// With one core, workers would delay each other by 10 ms at a time. If each rank used all cores of its node, the
	// ranks' garbage collectors would compete for them.
	more := 0
	for of, n := range threadsOf(j) {
		more += len(j.MembersOn(of, w.Rank())) * (n - 1)
	}
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()/w.LocalSize(), len(j.WorkersOn(w.Rank()))+more+1))
}

// threadsOf returns the number of compute threads of one worker, by component.
func threadsOf(j *job.Job) map[string]int {
	return map[string]int{"actor": j.Config.Actor.Threads, "rollout": j.Config.Rollout.Threads}
}

// checkThreads warns if a worker has more threads than this machine has cores.
func (r *rank) checkThreads(j *job.Job) {
	for of, n := range threadsOf(j) {
		if cores := runtime.NumCPU(); n > cores && len(j.MembersOn(of, r.w.Rank())) > 0 {
			r.warn(fmt.Sprintf("%s.threads: %d: rank %d has %d cores", of, n, r.w.Rank(), cores))
		}
	}
}

// train runs the program, while rank 0 watches the lock of the run's folder. It returns 0, or the exit code of a run
// that stopped before its last step.
func (r *rank) train(ctx context.Context, shared loop.Shared, log *trace.Log, m *mover) (stopped int, err error) {
	held, cancel := context.WithCancel(ctx) // ends watchFolder
	defer cancel()
	with := loop.Services{Saver: r.saver, Log: r.book, Requests: r.Asked, Trace: log, From: r.from, Until: r.Until,
		GiveUp: r.giveUp(), Count: r.counters(r.plan.Job), Holdings: r.holdings, Moves: m,
		Witness: r.Witness}
	if r.w.Rank() == 0 {
		with.Started = func() error {
			r.watchFolder(held, r.folder.Load())
			if m.arrived() {
				return nil // keep the status: it is running, or the run has failed meanwhile
			}
			if err := r.schedule(); err != nil {
				return err
			}
			return r.folder.Load().SetStatus(runfolder.Running)
		}
	}
	c, err := loop.NewCluster(ctx, r.w, &r.plan.JobPlan, shared, with)
	if err != nil {
		return 0, err
	}
	run, cfg := r.Own.Program, r.plan.Config
	if run == nil {
		run = r.Tasks.Of(cfg).Run
	}
	if err := run(ctx, c); err != nil {
		if errors.Is(err, spmd.Again) {
			r.flush(log, false)
			shared.Close()
		}
		return 0, err
	}
	if stopped, err = c.Leave(ctx); err != nil {
		return 0, err
	}
	r.flush(log, stopped != 0)
	return stopped, c.SaveTrace(ctx, traceFile(cfg), r.attempt)
}

// flush writes the rest of a trace. It only warns of an error, so that the run goes on.
func (s *session) flush(log *trace.Log, last bool) {
	if err := log.Flush(last); err != nil {
		s.warn(err.Error())
	}
}

// configure returns the configuration that rank 0 has read. It returns nil if this configuration does not fit the
// world. In this case rank 0 has written why.
func (r *rank) configure(ctx context.Context) (*config.Config, error) {
	wrong, err := r.oddRanks(ctx)
	if err != nil {
		return nil, err
	}
	if wrong == nil {
		wrong = r.cfgErr
	}
	if r.w.Rank() == 0 && wrong == nil && !r.evaluates(r.cfg) {
		wrong = loop.CheckOutputs(r.cfg)
	}
	plans := r.w.Rank() == 0 && wrong == nil && !r.evaluates(r.cfg)
	if plans {
		auto, _ := r.cfg.Auto()
		plans = len(auto) > 0 && r.draft == nil || r.Scheduler == nil && r.moves(r.cfg)
	}
	if err := r.measureNodes(ctx, plans); err != nil {
		return nil, err
	}
	switch {
	case r.w.Rank() != 0 || wrong != nil:
	case r.evaluates(r.cfg): // an evaluation fits every world
		wrong = r.cfg.CheckNames(r.reg)
	case r.draft == nil:
		if wrong = r.place(ctx); wrong != nil {
			break
		}
		r.draft = r.Tasks.Of(r.cfg).Draft(r.cfg, r.reg, r.w.Nodes())
		fallthrough
	default:
		wrong = r.draft.Mistakes()
	}
	if agreed, err := r.Agree(ctx, wrong); !agreed {
		return nil, err
	}
	var text []byte
	if r.w.Rank() == 0 {
		text = r.cfg.Resolved()
	}
	text, err = loop.Broadcast(ctx, r.world, text, 0)
	if err != nil || r.lead == 0 {
		return r.cfg, err
	}
	return config.Parse(r.reg, text)
}

var _ task.EvaluationSession = (*rank)(nil)

// Agree reports whether err is nil on all ranks. If not, all callers must stop: the error of the lowest failing rank
// decides the exit code, and rank 0 writes this error. Every rank must call it.
func (r *rank) Agree(ctx context.Context, err error) (bool, error) {
	code := byte(loop.ExitOK)
	if err != nil {
		code = byte(r.refusal(err))
	}
	agreed, flag, wrong, err := agree(ctx, r.world, code, err)
	if agreed || err != nil {
		return agreed, err
	}
	if err := r.world.Broadcast(ctx, flag, 0); err != nil {
		return false, err
	}
	r.refuse(int(flag[0]), wrong)
	return false, nil
}

// agree reports whether err is nil on all ranks. If not, rank 0 returns the error of the lowest failing rank as wrong,
// and the code of that rank in flag. On other ranks flag has the same length.
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

// refusal returns the exit code of a session that could not start because of err: ExitConfig, or the code of a request
// to stop. After a request to requeue, the code is ExitConfig if err would stop the next start, too.
func (s *session) refusal(err error) int {
	stop, _ := s.Asked.Vote()
	if stop == 0 || stop == loop.ExitRequeue && !errors.Is(err, external.ErrStopRequested) {
		return loop.ExitConfig
	}
	return stop
}

// refuse ends a session that could not start. Rank 0 writes one message.
func (r *rank) refuse(code int, err error) {
	r.code.Store(int64(code))
	if r.w.Rank() == 0 {
		fmt.Fprintln(&r.log, printable.Words(err.Error(), r.givenPaths()...))
		if r.w.ForeignPeers() != nil { // foreign programs wait for this rank, and MPI waits for them
			r.w.Abort(code)
		}
	}
}

func (s *session) warn(text string) { fmt.Fprintln(&s.log, "warning:", text) }

// close stops profiling, disconnects simulators, and releases the run's folder.
func (s *session) close() error {
	err := s.Profile.stop()
	err = errors.Join(err, s.hub.Close())
	if f := s.folder.Swap(nil); f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}
