package job

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Job is what follows from a configuration in a world. It is the same on every rank, except
// for Count, and does not change.
type Job struct {
	Config     *config.Config
	Registries config.Registries // what it is made of
	Placement  *spmd.Placement   // the ranks of each component

	Spec     env.Spec   // of one environment with its wrappers
	EvalEnv  env.Config // of evaluations
	EvalSpec env.Spec   // of their environments
	Undrawn  string     // the simulator that was to be filmed and draws nothing; "": there is none

	Actors, rollouts, simulators int  // workers of each component
	Rewards, Inferences, Critics int  // workers of the optional components; 0: there is none
	Train, Eval                  Plan // of training, and of evaluations

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
	Tuning *Tuning // of a language model; nil where a policy learns in environments

	// Count returns what a member of a component tells how far its work is, on this rank; nil: nobody asks.
	Count func(component string, member int) func(what string, done, total int)

	demos                  tensor.Dict // demonstrations to learn from
	SyncInterval, MaxSteps int64       // iterations between new weights of rollouts, and of the whole run
	table                  *collectives.Table
}

// Collectives returns how the groups of training work.
func (j *Job) Collectives() collectives.Options {
	return collectives.Options{Fast: j.Config.Comm.Reduce == config.ReduceFast, Table: j.table,
		Debug: j.Config.Comm.Debug}
}

// New makes the job of cfg in a world whose rank r is on node nodes[r]. After one pass of checks it
// makes an environment and a policy, and reads files. The error joins everything that is wrong.
func New(cfg *config.Config, reg config.Registries, nodes []int) (*Job, error) {
	if cfg.FineTunes() {
		return newTuning(cfg, reg, nodes)
	}
	d := newDraft(cfg, reg, nodes)
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	d.asks = true
	d.divide()
	d.tryParts(nodes)
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	return d.Job, nil
}

// divide fills in what follows from the configuration and the world alone.
func (d *draft) divide() {
	c, train := d.Config, d.Config.Env.Train
	d.Chunks = c.Actor.Model.NumActionChunks
	d.RolloutsAtMost = c.Algorithm.MaxNumGenBatches
	d.Epochs, d.Steps = train.RolloutEpoch, train.MaxStepsPerRolloutEpoch/d.Chunks
	if d.rewardsPerSample = 1; c.ActionRewards() {
		d.rewardsPerSample = d.Chunks
	}
	d.AutoReset, d.BootstrapAll = train.AutoReset, c.Algorithm.BootstrapType == algo.BootstrapAlways
	d.SyncInterval = int64(c.Runner.WeightSyncInterval)
	if d.MaxSteps = int64(c.Runner.Iterations()); d.MaxSteps < 0 {
		d.MaxSteps = math.MaxInt64
	}
	if c.Trains() && !d.Offline {
		d.Train = newPlan(train.TotalNumEnvs, c.Rollout.PipelineStageNum, d.simulators, d.rollouts, d.Actors)
	}
	if c.Evaluates() {
		d.Eval = newPlan(c.Env.Eval.TotalNumEnvs, 1, d.simulators, d.rollouts, 0)
	}
}

// WorkersOn names the workers of rank r, as env[0].
func (j *Job) WorkersOn(r int) []string {
	workers := []string{}
	for _, name := range j.Placement.Components() {
		for m, at := range j.Placement.Group(name).Ranks {
			if at == r {
				workers = append(workers, fmt.Sprintf("%s[%d]", name, m))
			}
		}
	}
	return workers
}

// Probe returns the Spec of cfg's environments.
func Probe(reg config.Registries, cfg env.Config) (env.Spec, error) {
	vec, err := reg.Envs.New(cfg, 1)
	if err != nil {
		return env.Spec{}, err
	}
	return vec.Spec(), vec.Close()
}

// Returns returns a function that tells the least and the most return of an episode of a task, infinite
// where there is no bound, or none is known.
func Returns(reg config.Registries) func(task string) (least, most float64) {
	return func(task string) (least, most float64) {
		cfg := env.DefaultConfig()
		cfg.EnvType = task
		if slices.Contains(reg.Envs.Names(), task) {
			if spec, err := Probe(reg, cfg); err == nil && spec.Returns != nil {
				return spec.Returns[0], spec.Returns[1]
			}
		}
		return math.Inf(-1), math.Inf(1)
	}
}

// EvalEnv returns the environments of evaluations and their spec. Their episodes end after at most
// env.eval.max_steps_per_rollout_epoch steps. Where that is 0 the task's own limit counts, and for a
// task without one the length of a rollout.
func EvalEnv(cfg *config.Config, reg config.Registries) (env.Config, env.Spec, error) {
	e := cfg.Env.Eval
	e.InstructionMix = "" // everyone evaluates the same episodes
	spec, err := Probe(reg, e)
	most := e.MaxStepsPerRolloutEpoch
	if most == 0 && spec.MaxSteps == 0 {
		most = cfg.Env.Train.MaxStepsPerRolloutEpoch
	}
	if most > 0 && (spec.MaxSteps == 0 || spec.MaxSteps > most) {
		e.MaxEpisodeSteps = most
	}
	return e, spec, err
}

// NewPolicy makes the policy with its initial parameters, which are the same on every rank.
func (j *Job) NewPolicy(alloc tensor.Allocator) (policy.Policy, error) {
	return j.Registries.Policies.New(j.Config.PolicyConfig(), j.Spec, j.Config.Actor.Seed, alloc)
}

// NewAlgorithm makes the algorithm that trains pol on one actor's share of the environments.
func (j *Job) NewAlgorithm(pol policy.Policy, r algo.Replicas, alloc tensor.Allocator,
	progress algo.Progress) (algo.Algorithm, error) {
	return j.Registries.Algorithms.New(algo.Setup{
		Config: j.Config.Algorithm.Config, Optim: j.Config.Actor.Optim,
		GlobalBatch: j.Config.Actor.GlobalBatchSize, MicroBatch: j.Config.Actor.MicroBatchSize,
		Seed: j.Config.Actor.Seed, Iterations: int(min(j.MaxSteps, math.MaxInt32)),
		Chunk: j.Chunks, GroupSize: j.Config.Env.Train.GroupSize, Steps: j.Epochs * j.Steps,
		Envs:        j.Train.Envs / j.Actors,
		CriticOptim: j.Config.Actor.CriticOptim, Rollout: j.trajectoryFields(j.Train.Envs / j.Actors), Demos: j.demos,
		Policy: pol, Replicas: r, Alloc: alloc, Progress: progress,
	})
}

// ActionLayout is the layout of the actions that a rollout worker sends to the environments of l.
func (j *Job) ActionLayout(l Route) *tensor.Layout {
	a := j.Spec.Action
	return tensor.NewLayout(tensor.Field{Name: "action", DType: a.DType, Shape: []int{l.Hi - l.Lo, j.Chunks, a.Dim()}})
}

// StepLayout is the layout of the env.Step that the environments of l send.
func (j *Job) StepLayout(l Route) *tensor.Layout {
	n, training := l.Hi-l.Lo, len(l.Shards) > 0
	spec := j.Spec
	if j.Labelled && training {
		spec = spec.Labelled()
	}
	var fs []tensor.Field
	for _, prefix := range []string{"observation.", "final_observation."} {
		for _, f := range spec.Obs {
			fs = append(fs, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: append([]int{n}, f.Shape...)})
		}
	}
	fs = append(fs,
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{n, j.Chunks}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{n, j.Chunks}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{n, j.Chunks}},
	)
	if j.fallible() && training {
		fs = append(fs, tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{n}})
	}
	if infos := len(j.Spec.Info); infos > 0 && j.Rewards > 0 && training { // reward workers need them
		rows := j.Chunks * spec.Repeats()
		fs = append(fs, tensor.Field{Name: "info", DType: tensor.F32, Shape: []int{n, rows, infos}})
		if spec.Repeats() > 1 {
			fs = append(fs, tensor.Field{Name: "steps", DType: tensor.I32, Shape: []int{n}})
		}
	}
	return tensor.NewLayout(fs...)
}

// TrajectoryLayout is the layout of the rollout that a rollout worker sends to an actor of n
// environments.
func (j *Job) TrajectoryLayout(n int) *tensor.Layout {
	return tensor.NewLayout(j.trajectoryFields(n)...)
}

func (j *Job) trajectoryFields(n int) []tensor.Field {
	if j.OffPolicy || j.Offline {
		return play.TransitionFields(j.Spec, j.Chunks, j.Epochs*j.Steps, n, j.fallible())
	}
	fs := append(play.TrajectoryFields(j.Spec, j.Chunks, j.logProbs, j.rewardsPerSample, j.memoryLen, j.latentLen,
		j.Epochs*j.Steps, n, !j.AutoReset || j.fallible()), j.inferredFields(n)...)
	if j.Config.Algorithm.LossType == "decoupled_actor_critic" {
		fs = append(fs, tensor.Field{Name: "version", DType: tensor.I64, Shape: []int{j.Epochs * j.Steps, n}})
	}
	return fs
}

// fallible reports whether simulators may fail and leave episodes aborted while the job goes on.
func (j *Job) fallible() bool { return j.Config.Env.Train.ID() == env.ExternalID }

// NumParams returns the number of parameters of the policy, or of those that a language model trains.
func (j *Job) NumParams() int {
	if j.Tuning != nil {
		return j.Tuning.Trained
	}
	return j.paramBytes / 4
}

// EnvSteps returns how many steps all environments take together in one iteration.
func (j *Job) EnvSteps() int64 { return int64(j.Train.Envs) * int64(j.Epochs*j.Steps*j.Chunks) }

// SyncsAt reports whether the iteration after step begins with the newest weights. In an
// asynchronous run every iteration after a checkpoint does.
func (j *Job) SyncsAt(step int64) bool {
	return j.Async() || j.Tuning != nil || step%j.SyncInterval == 0
}

// EvaluatesApart reports whether evaluations use newer weights than the rollouts around them.
func (j *Job) EvaluatesApart() bool { return j.Config.Evaluates() && j.SyncInterval > 1 && !j.Async() }

// EvaluatesAt reports whether the policy is evaluated after step.
func (j *Job) EvaluatesAt(step int64) bool {
	return j.Config.Evaluates() && (step >= j.MaxSteps || step%int64(j.Config.Runner.ValCheckInterval) == 0)
}

// SavesAt reports whether a checkpoint is due after step.
func (j *Job) SavesAt(step int64) bool {
	every, last := int64(j.Config.Runner.SaveInterval), step >= j.MaxSteps
	return step > 0 && (last && j.Config.Runner.SaveAtEnd || every > 0 && (last || step%every == 0))
}

// Name names the route in channels and messages.
func (l Route) Name() string { return fmt.Sprintf("route %d", l.ID) }

// Name names the shard in channels and messages.
func (s ActorShard) Name() string { return fmt.Sprintf("environments %d-%d", s.Lo, s.Hi-1) }
