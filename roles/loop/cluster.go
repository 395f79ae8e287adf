package loop

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// A Cluster is what a job's program gets on each rank: the ranks of the job, and the configuration,
// which has been checked against them. It stands for RLinf's Cluster and for the cfg beside it.
type Cluster struct {
	world  *spmd.World
	plan   Plan
	shared Shared
	with   Services
	loop   *Loop // of the program's runner; nil: it has made none
}

// A Program is what a job runs on every rank. All ranks run the same one: they launch the same groups
// and make the same calls, in the same order. The first error anywhere ends the job.
type Program func(ctx context.Context, c *Cluster) error

// A Shared is what the workers of one rank have in common: models, and the weights between the ranks.
type Shared interface {
	// Connect makes the weights between the ranks. Collective over the world.
	Connect(ctx context.Context) error
	// Close is called on every rank when the program has ended.
	Close()
}

// Services are what the program's runner needs of the session around it.
type Services struct {
	Saver    *Saver
	Log      *Logbook   // on rank 0
	Requests *Requests  // to stop
	From     StartState // on rank 0: what the run starts from
	// Started is called when the workers are ready; nil: nothing is.
	Started func() error
	// GiveUp is called, on rank 0, with the reason to end a run whose simulators fail too often. It
	// asks to stop. nil: the run goes on to its last step.
	GiveUp func(error)
	// Count returns a function that a member of a component tells how far its work is; nil: nobody asks.
	Count func(component string, member int) func(what string, done, total int)
}

// NewCluster returns what the program of p gets on a rank. It is collective over the world.
func NewCluster(ctx context.Context, w *spmd.World, p Plan, shared Shared, with Services) (*Cluster, error) {
	return &Cluster{world: w, plan: p, shared: shared, with: with}, shared.Connect(ctx)
}

// World returns the ranks of the job, as this one sees them.
func (c *Cluster) World() *spmd.World { return c.world }

// Config returns the configuration. Nobody may change it.
func (c *Cluster) Config() *config.Config { return c.plan.Common().Config }

// EnvSpec returns what one training environment shows and takes.
func (c *Cluster) EnvSpec() env.Spec { return c.plan.EnvSpec() }

// NumParams returns the number of parameters of the policy.
func (c *Cluster) NumParams() int { return c.plan.NumParams() }

// SharedOf returns what the workers of c's rank have in common.
func SharedOf(c *Cluster) Shared { return c.shared }

// ProgressOf returns what the worker of member m tells how far its work is.
func ProgressOf(c *Cluster, m *spmd.Member) algo.Progress {
	if c.with.Count == nil {
		return nil
	}
	return c.with.Count(m.Group(), m.Index())
}

// Leave ends what the program has begun and not ended, when it has returned. It returns the exit code of a run
// that stopped before its last step, else 0. Collective over the world.
func (c *Cluster) Leave(ctx context.Context) (stopped int, err error) {
	if c.loop != nil {
		err = c.loop.leave(ctx)
		stopped = c.loop.stopped
	}
	c.shared.Close()
	return stopped, err
}

// SaveTrace gathers what all workers have noted, and writes it on rank 0. Collective over the world;
// nothing happens where no trace was asked for.
func (c *Cluster) SaveTrace(ctx context.Context, file string) error {
	if c.loop == nil {
		return nil
	}
	return c.loop.saveTrace(ctx, file)
}

// A HybridComponentPlacement says on which ranks each component has its workers, as
// cluster.component_placement has it: collocated, disaggregated, or a mixture of both.
type HybridComponentPlacement struct {
	*spmd.Placement
	plan Plan
}

// NewHybridComponentPlacement returns the placement of c's components.
func NewHybridComponentPlacement(c *Cluster) HybridComponentPlacement {
	return HybridComponentPlacement{c.plan.Common().Placement, c.plan}
}

// Strategy returns where the workers of a component are, for Launch, which refuses a component that
// has no place. Of a component of your own it leaves Comms and Direct to you.
func (p HybridComponentPlacement) Strategy(component string) spmd.GroupSpec {
	if !p.Has(component) {
		return spmd.GroupSpec{Name: component}
	}
	at := p.Group(component)
	at.Comms, at.Direct = p.plan.Comms(component)
	return at
}

// Launch launches a group of workers. new makes one for each member of at. It is collective over
// the world: every rank makes the same launches, in the same order.
func Launch[W any](ctx context.Context, c *Cluster, at spmd.GroupSpec,
	new func(context.Context, *Cluster, *spmd.Member) (W, error)) (*spmd.Group[W], error) {
	if known := c.plan.Common().Placement.Components(); len(at.Ranks) == 0 {
		return nil, fmt.Errorf("launch group %q: cluster.component_placement has no such component; did you mean %s?",
			at.Name, yaml.Nearest(at.Name, known))
	}
	return spmd.Launch(c.world, at, func(m *spmd.Member) (W, error) { return new(ctx, c, m) })
}

// LaunchPlaced launches the group of a component where the placement has it, and sets *g, unless an earlier launch has
// failed with *err. A component without a place fails if it is needed; else *g stays nil.
func LaunchPlaced[W any](ctx context.Context, c *Cluster, err *error, g **spmd.Group[W], component string, needed bool,
	new func(context.Context, *Cluster, *spmd.Member) (W, error)) {
	if p := NewHybridComponentPlacement(c); *err == nil && (needed || p.Has(component)) {
		*g, *err = Launch(ctx, c, p.Strategy(component), new)
	}
}
