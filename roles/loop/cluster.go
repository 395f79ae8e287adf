package loop

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Cluster gives a program the ranks of the job and the configuration. It corresponds to RLinf's Cluster and cfg. Each
// rank has its own Cluster.
type Cluster struct {
	world  *spmd.World
	plan   *JobPlan
	shared Shared
	with   Services
	loop   *Loop // nil until the program makes a runner
}

// A Program is the work of a job on every rank. All ranks run the same program: they launch the same groups and
// make the same calls, in the same order. The first error on any rank ends the job.
type Program func(ctx context.Context, c *Cluster) error

// A Shared has what the workers of one rank share: models, and the weights that ranks exchange.
type Shared interface {
	// Connect prepares the exchange of weights between ranks. Every rank must call it.
	Connect(ctx context.Context) error
	// Close ends what Connect began. It is called on every rank after the program.
	Close()
}

// Services are the objects that a session provides to the program's runner.
type Services struct {
	Saver    *CheckpointSaver
	Log      *Logbook   // on rank 0; nil elsewhere
	Requests *Requests  // requests to stop
	Trace    *trace.Log // nil if nothing is recorded
	From     StartState // on rank 0: the state with which the run starts
	Until    int64      // the step after which the run saves a checkpoint and stops early; 0 for none
	Holdings *Holdings  // memory and moved states of the members on this rank
	Moves    Moves      // nil if members cannot move
	// Started is called when the workers are ready. It may be nil.
	Started func() error
	// GiveUp is called on rank 0 if simulators fail too often. It asks to stop the run because of their error. If
	// GiveUp is nil, the run goes on to its last step.
	GiveUp func(error)
	// Count returns the function with which a member of a component reports its progress. Count may be nil.
	Count func(component string, member int) func(what string, done, total int)
	// MemberWitness is shown what passes between the phases of training. It is called by several members at once. It
	// may be nil.
	Witness MemberWitness
}

// A MemberWitness is an algo.Witness for all members. It also gets the step, and the component and number of the
// member.
type MemberWitness func(step int64, component string, member int, phase string, tensors tensor.Dict)

// PhaseEpisodes is a phase of a MemberWitness in addition to those of package algo. Its tensors train and eval, F64,
// have the episodes that ended in a step, as rows of env.AppendRows.
const PhaseEpisodes = "episodes"

// NewCluster returns the Cluster of one rank for the plan p. Every rank must call it.
func NewCluster(ctx context.Context, w *spmd.World, p *JobPlan, shared Shared, with Services) (*Cluster, error) {
	if with.Holdings == nil {
		with.Holdings = NewHoldings(w)
	}
	return &Cluster{world: w, plan: p, shared: shared, with: with}, shared.Connect(ctx)
}

// World returns the ranks of the job.
func (c *Cluster) World() *spmd.World { return c.world }

// Config returns the configuration, which must not be changed.
func (c *Cluster) Config() *config.Config { return c.plan.Config }

// EnvSpec returns the observations and actions of one training environment.
func (c *Cluster) EnvSpec() env.Spec { return c.plan.EnvSpec }

// NumParams returns the number of parameters of the policy.
func (c *Cluster) NumParams() int { return c.plan.NumParams }

// Alloc returns an allocator of the world's memory for m: see Holdings.Alloc.
func (c *Cluster) Alloc(m *spmd.Member) tensor.Allocator {
	return c.with.Holdings.Alloc(m.Group(), m.Index())
}

// SharedOf returns the Shared of c's rank.
func SharedOf(c *Cluster) Shared { return c.shared }

// PartOf returns the part of m in c's Holdings: see Part.
func PartOf[T any](c *Cluster, m *spmd.Member) (part T, ok bool) {
	return Part[T](c.with.Holdings, m.Group(), m.Index())
}

// ProgressOf returns the function with which the worker of member m reports its progress.
func ProgressOf(c *Cluster, m *spmd.Member) algo.Progress {
	if c.with.Count == nil {
		return nil
	}
	return c.with.Count(m.Group(), m.Index())
}

// WitnessOf returns the witness of member m, or nil.
func WitnessOf(c *Cluster, m *spmd.Member) algo.Witness {
	if c.with.Witness == nil {
		return nil
	}
	return func(phase string, tensors tensor.Dict) {
		c.with.Witness(c.loop.step+1, m.Group(), m.Index(), phase, tensors)
	}
}

// Leave is called when the program has returned. It ends the loop, if the program has not done so. If the run stopped
// before its last step, stopped is its exit code. Otherwise stopped is 0. Every rank must call Leave.
func (c *Cluster) Leave(ctx context.Context) (stopped int, err error) {
	if c.loop != nil {
		err = c.loop.leave(ctx)
		stopped = c.loop.stopped
	}
	c.shared.Close()
	return stopped, err
}

// A HybridComponentPlacement has the ranks of each component's workers. Components may share ranks (collocated), have
// separate ranks (disaggregated), or both (hybrid).
type HybridComponentPlacement struct {
	*spmd.Placement
	plan *JobPlan
}

// NewHybridComponentPlacement returns the placement of c's components.
func NewHybridComponentPlacement(c *Cluster) HybridComponentPlacement {
	return HybridComponentPlacement{c.plan.Placement, c.plan}
}

// Strategy returns the group of a component's workers, for Launch. Launch returns an error if the component has no
// placement. For a component of your own, set Comms and Direct in the result.
func (p HybridComponentPlacement) Strategy(component string) spmd.GroupSpec {
	if !p.Has(component) {
		return spmd.GroupSpec{Name: component}
	}
	at := p.Group(component)
	p.plan.Connect(&at)
	return at
}

// Launch launches the group of workers that spec describes. newWorker makes the worker of each member. Every rank must
// make the same launches in the same order.
func Launch[W any](ctx context.Context, c *Cluster, spec spmd.GroupSpec,
	newWorker func(context.Context, *Cluster, *spmd.Member) (W, error)) (*spmd.Group[W], error) {
	if known := c.plan.Placement.Components(); len(spec.Ranks) == 0 {
		return nil, fmt.Errorf("launch group %q: cluster.component_placement has no such component; did you mean %s?",
			spec.Name, yaml.Nearest(spec.Name, known))
	}
	return spmd.Launch(c.world, spec, func(m *spmd.Member) (W, error) { return newWorker(ctx, c, m) })
}

// LaunchPlaced launches the group of a component and sets *g to it. If the component has no placement, *g stays nil.
// For a required component *err is then set. If *err is set already, LaunchPlaced does nothing.
func LaunchPlaced[W any](ctx context.Context, c *Cluster, err *error, g **spmd.Group[W], component string,
	required bool, newWorker func(context.Context, *Cluster, *spmd.Member) (W, error)) {
	if p := NewHybridComponentPlacement(c); *err == nil && (required || p.Has(component)) {
		*g, *err = Launch(ctx, c, p.Strategy(component), newWorker)
	}
}
