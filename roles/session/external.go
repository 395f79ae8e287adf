package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// WithHub returns reg with the simulators of hub as the environment env.ExternalID.
func WithHub(reg config.Registries, hub *external.Hub) config.Registries {
	reg.Envs = reg.Envs.With(env.ExternalID, hub.New)
	return reg
}

// handshake calls Ask for the simulators of a training job.
func (r *rank) handshake(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	place, err := cfg.Place(r.w.Nodes())
	if err != nil || !place.Has("env") {
		return cfg, nil // job.New reports the mistake
	}
	return r.Ask(ctx, cfg, place.Ranks("env"))
}

// Ask asks external simulators for their specification, and returns cfg with the answers. ranks lists the ranks with
// environments. The first of these ranks asks, and broadcasts the answers. At an error, Ask returns nil, and rank 0
// writes the error.
func (r *rank) Ask(ctx context.Context, cfg *config.Config, ranks []int) (*config.Config, error) {
	met := *cfg
	uses := config.ExternalUses(&met, ranks)
	if len(uses) == 0 {
		return cfg, nil
	}
	agreed, err := r.assign(ctx, uses, ranks)
	if !agreed {
		return nil, err
	}
	greetings := make([]string, len(uses))
	if r.w.Rank() == ranks[0] {
		err = r.greet(uses, greetings)
	}
	if agreed, err := r.Agree(ctx, err); !agreed {
		return nil, err
	}
	for i, u := range uses {
		text, err := loop.Broadcast(ctx, r.world, []byte(greetings[i]), ranks[0])
		if err != nil {
			return nil, err
		}
		u.Env.External.Greeting = string(text)
	}
	return &met, nil
}

// explainSpaces explains an error of loading the checkpoint at path by loop.ExplainSpaces.
func (r *rank) explainSpaces(err error, path string) error {
	return loop.ExplainSpaces(err, r.reg, path, r.plan.Config.Env.Train.External.Greeting)
}

// giveUp returns the function to call if the simulators of the run fail too often. This function logs the error, and
// requests a stop with a checkpoint.
func (r *rank) giveUp() func(error) {
	s, n := r.session, r.w.Rank()
	return func(err error) {
		fmt.Fprintf(&s.log, "rank %d: %v\nstopping, with a checkpoint\n", n, err)
		s.Asked.Fail()
	}
}

// Measurable returns cfg with the greetings of its external simulators, so that a plan can measure them. It returns an
// error for simulators that connect by themselves. A plan starts and ends several simulators, which is only possible
// with external.command.
func Measurable(hub *external.Hub, cfg *config.Config) (*config.Config, error) {
	met := *cfg
	for _, u := range config.ExternalUses(&met, nil) {
		if listen := u.Env.External.Listen; listen != "" {
			return nil, fmt.Errorf("%s.listen: %s: simulators that connect by themselves are not measured: expected "+
				"external.command, a place for each component, or rlinf plan --profile FILE", u.Key, listen)
		}
		var err error
		if u.Env.External.Greeting, err = hub.Ask(*u.Env); err != nil {
			return nil, fmt.Errorf("%s: %w", u.Key, err)
		}
	}
	return &met, nil
}

// greet asks the simulators of each use for their greeting, and stores it in greetings.
func (s *session) greet(uses []config.ExternalUse, greetings []string) (err error) {
	for i, u := range uses {
		if i > 0 && u.Env.External.Same(uses[0].Env.External) {
			greetings[i] = greetings[0]
		} else if greetings[i], err = s.hub.Ask(*u.Env); err != nil {
			return fmt.Errorf("%s: %w", u.Key, err)
		}
	}
	return nil
}

// An assignment assigns a solver in this MPI job to a rank with environments.
type assignment struct {
	Process, Rank int
	Hello         []byte
}

// assign assigns the solvers in this MPI job to the ranks with environments, if external.listen is mpi. Each solver
// sends its first message to rank 0.
func (r *rank) assign(ctx context.Context, uses []config.ExternalUse, ranks []int) (bool, error) {
	uses = slices.DeleteFunc(slices.Clone(uses), func(u config.ExternalUse) bool {
		return u.Env.External.Listen != env.ListenMPI
	})
	if len(uses) == 0 {
		return true, nil
	}
	var all []assignment
	var err error
	out := r.w.ForeignPeers()
	if out == nil {
		err = fmt.Errorf("%s.listen: mpi: there are no other programs in this job: expected mpirun -np N rlinf -c "+
			"cfg.yaml : -np M solver", uses[0].Key)
	} else if r.w.Rank() == 0 {
		fmt.Fprintln(&r.log, "waiting for the solvers of this MPI job")
		all, err = gather(out, r.hub, uses, ranks)
	}
	if agreed, err := r.Agree(ctx, err); !agreed {
		return false, err
	}
	text, err := json.Marshal(all)
	if err == nil {
		text, err = loop.Broadcast(ctx, r.world, text, 0)
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if d.Rank == r.w.Rank() && err == nil {
			sv := &solver{out: out, hub: r.hub, process: d.Process, message: d.Hello}
			r.solvers = append(r.solvers, sv)
			err = r.hub.Offer(sv, sv.name())
		}
	}
	return r.Agree(ctx, err)
}

// gather waits until enough solvers have sent a message, and assigns them to ranks in the order of their processes.
func gather(out spmd.ForeignPeers, hub *external.Hub, uses []config.ExternalUse, ranks []int) ([]assignment, error) {
	timeout := uses[0].Env.External.StartTimeout
	by := time.Now().Add(timeout)
	var all []assignment
	for wanted, each := 1, " at least"; len(all) < wanted; {
		var process int
		var hello []byte
		err := hub.Wait(by, false, func(until time.Time) (err error) {
			if process, hello, err = out.ReceiveForeign(until, -1, nil); err != nil && hub.StopRequested() {
				err = fmt.Errorf("%d solvers have come before %w, expected %d%s", len(all), external.ErrStopRequested,
					wanted, each)
			}
			return err
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%d solvers have come in %v (start_timeout), expected %d%s", len(all), timeout, wanted,
				each)
		}
		if err == nil && len(all) == 0 {
			wanted, each, err = neededSolvers(hello, uses)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", uses[0].Key, err)
		}
		all = append(all, assignment{Process: process, Hello: hello})
	}
	slices.SortFunc(all, func(a, b assignment) int { return a.Process - b.Process })
	for i := range all { // divide the solvers evenly among the ranks
		all[i].Rank = ranks[i*len(ranks)/len(all)]
	}
	return all, nil
}

// neededSolvers returns the number of solvers for all uses, and a text with the number for each use. hello is the first
// message of one solver. The first messages of all solvers are assumed to be alike.
func neededSolvers(hello []byte, uses []config.ExternalUse) (solvers int, each string, err error) {
	for _, u := range uses {
		perVec, err := external.ChildrenOf(hello, u.Env.External, u.Env.TotalNumEnvs/u.Vecs)
		if err != nil {
			return 0, "", err
		}
		solvers += u.Vecs * perVec
		each += fmt.Sprintf(", %d for %s", u.Vecs*perVec, u.Key)
	}
	return solvers, each, nil
}

// lastCall is the time limit for a solver to acknowledge the shutdown.
const lastCall = 5 * time.Second

// Leave ends the solvers in this MPI job before MPI is finalized. Rank 0 also ends the solvers that were not
// needed. MPI cannot end while a solver hangs. So if a solver does not acknowledge the shutdown, rank 0 aborts the job.
func (r *rank) Leave(ctx context.Context) error {
	out := r.w.ForeignPeers()
	if out == nil {
		return nil
	}
	err := r.hub.Close()
	var deaf []string
	by := time.Now().Add(lastCall)
	for _, sv := range r.solvers {
		if !sv.shutdown && external.Dismiss(sv, by) != nil {
			deaf = append(deaf, sv.name())
		}
	}
	for r.w.Rank() == 0 {
		process, _, late := out.ReceiveForeign(time.Now(), -1, nil)
		if late != nil {
			break
		}
		// Ignore late answers of the solvers of this process. Other solvers were not needed.
		if !slices.ContainsFunc(r.solvers, func(sv *solver) bool { return sv.process == process }) {
			err = errors.Join(err, external.Dismiss(&solver{out: out, process: process}, time.Now().Add(time.Second)))
		}
	}
	if err != nil {
		return err
	}
	all, err := r.world.Gather(ctx, []byte(strings.Join(deaf, ", ")), 0)
	if err != nil || r.w.Rank() != 0 {
		return err
	}
	all = slices.DeleteFunc(all, func(names []byte) bool { return len(names) == 0 })
	if len(all) > 0 {
		fmt.Fprintf(&r.log, "%s: no answer to the shutdown within %v: a solver hangs, and the job ends without it\n",
			bytes.Join(all, []byte(", ")), lastCall)
		r.w.Abort(int(r.code.Load()))
	}
	return nil
}

// A solver is the connection to a program in this MPI job.
type solver struct {
	out      spmd.ForeignPeers
	hub      *external.Hub
	process  int
	message  []byte // the last received message
	read     bool   // message was used
	shutdown bool   // the shutdown was sent
	plays    bool   // a request was sent after the handshake
	closed   bool
}

func (s *solver) name() string { return fmt.Sprintf("solver on process %d", s.process) }

var _ external.Conn = (*solver)(nil)

// Send sends a frame before the deadline.
func (s *solver) Send(deadline time.Time, head, payload []byte) error {
	if s.closed { // only the shutdown follows, which the solver must acknowledge
		return s.out.DeliverForeign(deadline, s.process, head)
	}
	s.shutdown = external.Dismisses(head)
	s.plays = s.plays || external.Plays(head)
	return s.out.SendForeign(deadline, s.process, head, payload)
}

// Receive returns the next frame, if it arrives before the deadline.
func (s *solver) Receive(deadline time.Time, accept func(head []byte) (uint64, error)) (head, payload []byte,
	err error) {
	if s.read {
		err := s.hub.Wait(deadline, s.plays, func(until time.Time) (err error) {
			_, s.message, err = s.out.ReceiveForeign(until, s.process, s.message)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	s.read = true
	return external.Split(s.message, accept)
}

// Close makes the next Send wait until the solver begins to receive the frame. This frame must be the shutdown.
func (s *solver) Close() error {
	s.closed = true
	return nil
}

// warnBound warns of simulators that must share one core, because the rank that starts them is bound to this core.
func (s *session) warnBound(j *job.Job, binding []string) {
	at := j.Placement.Ranks("env")
	if !slices.ContainsFunc(config.ExternalUses(j.Config, at), func(u config.ExternalUse) bool {
		return len(u.Env.External.Command) > 0
	}) {
		return
	}
	for _, n := range at {
		if _, err := strconv.Atoi(binding[n]); err == nil {
			s.warn(fmt.Sprintf("rank %d is bound to core %s, and so are the simulators that it starts: --bind-to "+
				"none or more --cpus-per-task, if there are more", n, binding[n]))
			return
		}
	}
}
