package plan

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// A Plan is derived from the configuration of a job with environments, and from the ranks of its world. It is equal on
// all ranks, and does not change.
type Plan struct {
	*job.Job

	Spec         env.Spec   // the spec of a training environment with its wrappers
	EvalEnv      env.Config // the configuration of the evaluation environments
	EvalSpec     env.Spec   // the spec of an evaluation environment
	Unrenderable string     // the simulator that will not be filmed, because it cannot be rendered; "" if there is none

	Actors, rollouts, simulators int     // the numbers of actors, rollout workers and env workers
	Rewards, Inferences          int     // the numbers of reward and inference workers; 0 if not placed
	Train, Eval                  Routing // the routings of training and of evaluations

	Epochs, Steps    int   // the epochs of a rollout, and the steps of an epoch
	RolloutsAtMost   int   // the maximum number of rollouts for one update; if it is above 1, actors choose among them
	Chunks, logProbs int   // the numbers of actions and of log-probs in a sample
	rewardsPerSample int   // rewards in a sample: Chunks if each action has a reward, else 1
	hiddenLen        int   // length of the hidden state
	latentLen        int   // length of the denoising chain of an action
	encodes          bool  // actor and critics read the features of an encoder
	paramBytes       int   // bytes of one copy of the parameters
	learnerBytes     int   // bytes of an actor's optimisers, critics and targets
	deviceBytes      int64 // bytes of an actor on its device; 0 without a device
	alone            bool  // the world has one rank
	AutoReset        bool  // training environments begin new episodes by themselves
	BootstrapAll     bool  // compute the value of every episode's last observation, not only of truncated episodes
	config.Learning

	frozenBytes int         // of the weights of the encoder's frozen layers; 0 if it has none
	kept        []env.Field // observations as rollouts and replay buffers keep them; nil: as the policy sees them

	demos    tensor.Dict               // demonstrations to train on
	pictures map[string]*algo.Pictures // their encoded images
	notes    []string                  // warnings about the demonstrations

	scorerBytes func(rows int) int64 // memory of a classifier of images for so many rows; nil if none gives rewards
}

// Spaces returns the observations and the actions of a training environment, as the policy sees them.
func (p *Plan) Spaces() ([]env.Field, env.Space) {
	spec, _ := p.Config.PolicySpec(p.Spec)
	return spec.Obs, spec.Action
}

// NumParams returns the number of parameters of the policy.
func (p *Plan) NumParams() int { return p.paramBytes / 4 }

// EnvSteps returns the number of steps of all environments together in one iteration.
func (p *Plan) EnvSteps() int64 { return int64(p.Train.Envs) * int64(p.Epochs*p.Steps*p.Chunks) }

// EnvsPerSimulator returns the number of training environments that cannot be divided among workers: those that one
// external simulator plays, or 1.
func (p *Plan) EnvsPerSimulator() int {
	if e := &p.Config.Env.Train; e.ID() == env.ExternalID {
		if n, err := external.EnvsPerChild(e.External); err == nil {
			return max(n, 1)
		}
	}
	return 1
}

// forgetful reports whether training has external simulators that never save their state.
func (p *Plan) forgetful() bool {
	e := &p.Config.Env.Train
	return p.Config.Trains() && e.ID() == env.ExternalID && !external.Saves(e.External)
}

// NotSaved returns the warning for training environments whose state is not in a checkpoint.
func (p *Plan) NotSaved() string {
	text := p.Spec.Name + " cannot save its state: a resumed run will begin new episodes, and not be bit-identical"
	if p.forgetful() {
		text += " (in Python: rlb.serve(…, state_size=4096))"
	}
	return text
}

// WarnsOfState reports whether an env worker should warn of a checkpoint without the state of its environments. One
// worker warns for all, unless Notes has warned. But each worker warns of its own external simulator if that has
// crashed.
func (p *Plan) WarnsOfState(worker int) bool {
	if p.forgetful() {
		return worker == 0 && p.Config.Runner.SaveInterval <= 0
	}
	return worker == 0 || p.Config.Env.Train.ID() == env.ExternalID
}

// EvaluatesApart reports whether evaluations use newer weights than rollouts do.
func (p *Plan) EvaluatesApart() bool { return p.Config.Evaluates() && p.SyncInterval > 1 && !p.Async() }

// Fits returns an error unless model has the tensors of this plan's policy.
func (p *Plan) Fits(model []tensor.Field, _ tensor.Dict) error {
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	pol, err := p.NewBlankPolicy(memory.Alloc)
	if err != nil {
		return err
	}
	return job.FitModel(pol.Params(), model)
}

// Graph describes the policy. It returns an error if the policy does not describe itself.
func (p *Plan) Graph() (graph.Node, error) {
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	pol, err := p.NewBlankPolicy(memory.Alloc)
	if err != nil {
		return graph.Node{}, err
	}
	d, ok := pol.(policy.Described)
	if !ok {
		return graph.Node{}, fmt.Errorf("model_type %s does not describe its layers (policy.Described)",
			p.Config.Actor.Model.ModelType)
	}
	return d.Graph(), nil
}

// NewPolicy makes the policy with its initial parameters, which are the same on every rank.
func (p *Plan) NewPolicy(alloc tensor.Allocator) (policy.Policy, error) {
	return p.newPolicy(p.Config.PolicyConfig(), alloc)
}

// NewActorPolicy is NewPolicy for an actor, whose layers compute on d unless d is nil. With blank, the caller will load
// the parameters.
func (p *Plan) NewActorPolicy(alloc tensor.Allocator, d nn.Device[float32], blank bool) (policy.Policy, error) {
	cfg := p.Config.PolicyConfig()
	cfg.Device, cfg.Blank = d, blank
	return p.newPolicy(cfg, alloc)
}

// NewBlankPolicy makes the policy for a check, or for parameters that the caller will load.
func (p *Plan) NewBlankPolicy(alloc tensor.Allocator) (policy.Policy, error) {
	cfg := p.Config.PolicyConfig()
	cfg.Blank = true
	return p.newPolicy(cfg, alloc)
}

func (p *Plan) newPolicy(cfg policy.Config, alloc tensor.Allocator) (policy.Policy, error) {
	spec, _ := p.Config.PolicySpec(p.Spec)
	return p.Registries.Policies.New(cfg, spec, p.Config.Actor.Seed, alloc)
}

// NewAlgorithm makes the algorithm that trains s.Policy on the environments of one actor. s has the policy, the
// replicas, the allocator, the progress and the witness. NewAlgorithm sets the other fields.
func (p *Plan) NewAlgorithm(s algo.Setup) (algo.Algorithm, error) {
	return p.Registries.Algorithms.New(p.setup(s))
}

// setup adds to s what follows from the configuration.
func (p *Plan) setup(s algo.Setup) algo.Setup {
	c := p.Config
	s.Config, s.Optim, s.CriticOptim, s.Seed = c.Algorithm.Config, c.Actor.Optim, c.Actor.CriticOptim, c.Actor.Seed
	s.GlobalBatch, s.MicroBatch = c.Actor.GlobalBatchSize, c.Actor.MicroBatchSize
	s.ShiftImages = c.Actor.EnableDrQ
	s.Iterations, s.Chunk, s.GroupSize = int(min(p.MaxSteps, math.MaxInt32)), p.Chunks, c.Env.Train.GroupSize
	s.Steps, s.Envs = p.Epochs*p.Steps, p.Train.Envs/p.Actors
	s.Rollout, s.Demos, s.Pictures = p.trajectoryFields(s.Envs), p.demos, p.pictures
	s.Goals = p.goals()
	return s
}
