package runner

import (
	"context"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// A Cluster is what a job's program gets on each rank: the ranks of the job, and the configuration,
// which has been checked against them. It stands for RLinf's Cluster and for the cfg beside it.
type Cluster struct {
	world   *spmd.World
	job     *job.Job
	weights *worker.Weights
	answers *worker.TextWeights // of a language model that learns from its answers
	judge   worker.Judge        // of those answers, where it is a program
	with    Services
	loop    *loop // of the program's runner; nil: it has made none
}

// A Program is what a job runs on every rank. All ranks run the same one: they launch the same groups
// and make the same calls, in the same order. The first error anywhere ends the job.
type Program func(ctx context.Context, c *Cluster) error

// Services are what the program's runner needs of the session around it.
type Services struct {
	Saver    *Saver
	Log      *Logbook   // on rank 0
	Requests *Requests  // to stop
	From     StartState // on rank 0: what the run starts from
	// Models are the language models of this rank's workers, where the job trains one.
	Models worker.LanguageModels
	// Started is called when the workers are ready; nil: nothing is.
	Started func() error
	// GiveUp is called, on rank 0, with the reason to end a run whose simulators fail too often. It
	// asks to stop. nil: the run goes on to its last step.
	GiveUp func(error)
}

// LoadModels makes the language models of this rank's workers, where the job trains one.
func LoadModels(w *spmd.World, j *job.Job) (worker.LanguageModels, error) {
	return worker.NewLanguageModels(w, j)
}

// NewCluster returns what the program of j gets on a rank, with the weights between the workers. It is
// collective over the world.
func NewCluster(ctx context.Context, w *spmd.World, j *job.Job, with Services) (*Cluster, error) {
	c := &Cluster{world: w, job: j, with: with}
	var err error
	if j.Config.Reasons() {
		c.answers, err = worker.NewTextWeights(ctx, w, j, with.Models)
		return c, err
	}
	if j.Tuning != nil { // its actors are given theirs, and nobody else has any
		return c, nil
	}
	c.weights, err = worker.NewWeights(ctx, w, j)
	return c, err
}

// World returns the ranks of the job, as this one sees them.
func (c *Cluster) World() *spmd.World { return c.world }

// Config returns the configuration. Nobody may change it.
func (c *Cluster) Config() *config.Config { return c.job.Config }

// EnvSpec returns what one training environment shows and takes.
func (c *Cluster) EnvSpec() env.Spec { return c.job.Spec }

// NumParams returns the number of parameters of the policy.
func (c *Cluster) NumParams() int { return c.job.NumParams() }

// Leave ends what the program has begun and not ended, when it has returned. It returns why the run
// stopped before its last step: an exit code plus one, or 0. Collective over the world.
func (c *Cluster) Leave(ctx context.Context) (stopped int, err error) {
	if c.loop != nil {
		err = c.loop.leave(ctx)
		stopped = c.loop.stopped
	}
	if c.weights != nil {
		c.weights.Close()
	}
	c.answers.Close()
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
	job *job.Job
}

// NewHybridComponentPlacement returns the placement of c's components.
func NewHybridComponentPlacement(c *Cluster) HybridComponentPlacement {
	return HybridComponentPlacement{c.job.Placement, c.job}
}

// Strategy returns where the workers of a component are, for Launch, which refuses a component that
// has no place. Of a component of your own it leaves Comms and Direct to you.
func (p HybridComponentPlacement) Strategy(component string) spmd.GroupSpec {
	if !p.Has(component) {
		return spmd.GroupSpec{Name: component}
	}
	at := p.Group(component)
	switch {
	case component == "actor" || component == "critic" && p.job.Config.Reasons():
		at.Comms = []string{worker.Gradients}
		if p.job.TradesGroups(component) {
			at.Direct = []string{component}
		}
	case component == "rollout" && p.job.Config.Reasons():
		at.Comms = []string{worker.Answers}
	}
	return at
}
