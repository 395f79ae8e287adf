package plan

import (
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// A Plan is what follows from the configuration of a job with environments in a world. It is the same
// on every rank, and does not change.
type Plan struct {
	*job.Job

	Spec         env.Spec   // of one environment with its wrappers
	EvalEnv      env.Config // of evaluations
	EvalSpec     env.Spec   // of their environments
	Unrenderable string     // the simulator that was to be filmed and draws nothing; "": there is none

	Actors, rollouts, simulators int     // workers of each component
	Rewards, Inferences          int     // workers of the optional components; 0: there is none
	Train, Eval                  Routing // of training, and of evaluations

	Epochs, Steps    int  // rollouts for one update, and steps of each
	RolloutsAtMost   int  // that actors may choose from for one update
	Chunks, logProbs int  // C actions chosen at a time, with L log-probs
	rewardsPerSample int  // C where each action has its own, else 1
	memoryLen        int  // length of the hidden state
	latentLen        int  // length of the chain behind an action
	paramBytes       int  // of one copy of the parameters
	AutoReset        bool // environments of training begin new episodes by themselves
	BootstrapAll     bool // the last observation of every episode is valued, not only of truncated ones
	config.Learning

	demos tensor.Dict // demonstrations to learn from
}

// EnvSpec returns what one training environment shows and takes.
func (p *Plan) EnvSpec() env.Spec { return p.Spec }

// NumParams returns the number of parameters of the policy.
func (p *Plan) NumParams() int { return p.paramBytes / 4 }

// EnvSteps returns how many steps all environments take together in one iteration.
func (p *Plan) EnvSteps() int64 { return int64(p.Train.Envs) * int64(p.Epochs*p.Steps*p.Chunks) }

// Environments returns how many environments training has. Checkpoints hold their states.
func (p *Plan) Environments() (n int, saved bool) { return p.Train.Envs, true }

// Notes returns what the user should know before the job begins.
func (p *Plan) Notes() []string {
	if p.Unrenderable == "" {
		return nil
	}
	return []string{"env.eval.video_cfg.save_video: there is no film, because " + p.Unrenderable + " draws no pictures"}
}

// EvaluatesApart reports whether evaluations use newer weights than the rollouts around them.
func (p *Plan) EvaluatesApart() bool { return p.Config.Evaluates() && p.SyncInterval > 1 && !p.Async() }

// Fits checks that the model of a state is one of this plan's policy.
func (p *Plan) Fits(st member.State) error {
	pol, err := p.NewPolicy(tensor.Heap)
	if err != nil {
		return err
	}
	return job.LoadModel(pol.Params(), st.Model)
}

// NewPolicy makes the policy with its initial parameters, which are the same on every rank.
func (p *Plan) NewPolicy(alloc tensor.Allocator) (policy.Policy, error) {
	return p.Registries.Policies.New(p.Config.PolicyConfig(), p.Spec, p.Config.Actor.Seed, alloc)
}

// NewAlgorithm makes the algorithm that trains pol on one actor's share of the environments.
func (p *Plan) NewAlgorithm(pol policy.Policy, r algo.Replicas, alloc tensor.Allocator,
	progress algo.Progress) (algo.Algorithm, error) {
	return p.Registries.Algorithms.New(algo.Setup{
		Config: p.Config.Algorithm.Config, Optim: p.Config.Actor.Optim,
		GlobalBatch: p.Config.Actor.GlobalBatchSize, MicroBatch: p.Config.Actor.MicroBatchSize,
		Seed: p.Config.Actor.Seed, Iterations: int(min(p.MaxSteps, math.MaxInt32)),
		Chunk: p.Chunks, GroupSize: p.Config.Env.Train.GroupSize, Steps: p.Epochs * p.Steps,
		Envs:        p.Train.Envs / p.Actors,
		CriticOptim: p.Config.Actor.CriticOptim, Rollout: p.trajectoryFields(p.Train.Envs / p.Actors), Demos: p.demos,
		Policy: pol, Replicas: r, Alloc: alloc, Progress: progress,
	})
}
