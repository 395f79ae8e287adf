package roles

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Registries are what a job can be made of. A main of your own adds to them what it has.
type Registries struct {
	Envs       *env.Registry
	Policies   *policy.Registry
	Algorithms *algo.Registry
	Rewards    *reward.Registry

	outside *external.Hub // simulators that are programs of their own
}

// with returns reg with the environments that hub brings.
func (reg Registries) with(hub *external.Hub) Registries {
	reg.Envs, reg.outside = reg.Envs.With(env.ExternalID, hub.New), hub
	return reg
}

// A job is what follows from the configuration and the world, the same on every rank. It does not
// change.
type job struct {
	cfg                          *Config
	reg                          Registries
	place                        *spmd.Placement
	spec                         env.Spec   // of one environment, wrappers and all
	evalEnv                      env.Config // of evaluations
	evalSpec                     env.Spec   // of their environments
	actors, rollouts, simulators int        // workers of each component
	rewards, inferences          int        // those of the components that need not be; 0: they are not
	train, eval                  plan
	epochs, steps                int // rollouts for one update, and steps of each
	rolloutsAtMost               int // that actors may choose from for one update
	chunks, logProbs             int // C actions chosen at a time, with L log-probs
	rewardsPerSample             int // C where each action has its own, else 1
	memoryLen                    int // numbers that the policy remembers of an environment
	paramBytes                   int // of one copy of the parameters
	autoReset, bootstrapAll      bool
	offPolicy                    bool // training is from a replay buffer: rollouts are transitions
	offline                      bool // training is from demonstrations alone: there are no rollouts
	labelled                     bool // rollouts hold what experts would have done
	demos                        tensor.Dict
	syncInterval, maxSteps       int64
	table                        *collectives.Table // comm.table
}

// collectives returns how the groups of training work.
func (j *job) collectives() collectives.Options {
	return collectives.Options{Fast: j.cfg.Comm.Reduce == ReduceFast, Table: j.table, Debug: j.cfg.Comm.Debug}
}

// newJob works cfg out for a world whose rank r is on node nodes[r]. The error joins everything
// that is wrong.
func newJob(cfg *Config, reg Registries, nodes []int) (*job, error) {
	j := &job{cfg: cfg, reg: reg}
	var err error
	if cfg.Comm.Table != "" {
		if j.table, err = collectives.ReadTable(cfg.Comm.Table); err != nil {
			return nil, fmt.Errorf("comm.table: %w", err)
		}
	}
	if j.place, err = cfg.place(nodes); err != nil {
		return nil, err
	}
	workers := func(component string) int {
		if !j.place.Has(component) {
			return 0
		}
		return len(j.place.Group(component).Ranks)
	}
	j.actors, j.rollouts, j.simulators = workers("actor"), workers("rollout"), workers("env")
	j.rewards, j.inferences = workers("reward"), workers("inference")
	j.checkNames()
	j.offPolicy = reg.Algorithms.OffPolicy(cfg.Algorithm.Config) && cfg.Trains()
	j.offline = reg.Algorithms.Offline(cfg.Algorithm.Config) && cfg.Trains()
	j.labelled = reg.Algorithms.Labelled(cfg.Algorithm.Config) && cfg.Trains()
	j.checkOffPolicy()
	j.checkAsync()
	if err := cfg.Validate(j.actors, j.rollouts, j.simulators); err != nil {
		return nil, err
	}
	if j.spec, err = probe(reg, cfg.Env.Train); err != nil {
		cfg.Problem("env.train.env_type", cfg.Env.Train.ID(), "environments that can be made: "+err.Error())
	} else {
		j.checkObservations(nodes[len(nodes)-1]+1, roomOn(nodes, 0))
	}
	if err := cfg.check.Err(); err != nil {
		return nil, err
	}
	if pol, err := reg.Policies.New(cfg.Actor.Model, j.spec, cfg.Actor.Seed, heapWithin(roomOn(nodes, 0))); errors.As(
		err, new(shortage)) {
		cfg.Problem("actor.model.hidden_sizes", cfg.Actor.Model.HiddenSizes, "a smaller policy: "+err.Error())
	} else if err != nil {
		cfg.Problem("actor.model.model_type", cfg.Actor.Model.ModelType, "a policy that fits: "+err.Error())
	} else if err := reg.Algorithms.Fits(cfg.Algorithm.Config, pol); cfg.Trains() && err != nil {
		cfg.Problem("algorithm.loss_type", cfg.Algorithm.LossType, fmt.Sprintf("an algorithm for %s: this one needs %v",
			j.spec.Name, err))
	} else {
		j.memoryLen, j.paramBytes = policy.HiddenLen(pol), 4*len(pol.Params().Data)
		j.checkSequences()
	}
	if err := cfg.Validate(j.actors, j.rollouts, j.simulators); err != nil {
		return nil, err
	}
	j.checkOutside()
	j.checkExpert()
	j.checkReward()
	if cfg.Evaluates() {
		j.checkVideo()
	}
	j.checkInference()
	if err := cfg.check.Err(); err != nil {
		return nil, err
	}
	train, eval := cfg.Env.Train, cfg.Env.Eval
	j.chunks = cfg.Actor.Model.NumActionChunks
	j.rolloutsAtMost = cfg.Algorithm.MaxNumGenBatches
	j.epochs, j.steps = train.RolloutEpoch, train.MaxStepsPerRolloutEpoch/j.chunks
	j.logProbs = map[string]int{"chunk_level": 1, "action_level": j.chunks,
		"token_level": j.chunks * j.spec.Action.Dim()}[cfg.Algorithm.LogProbType]
	if j.rewardsPerSample = 1; cfg.actionRewards() {
		j.rewardsPerSample = j.chunks
	}
	j.autoReset, j.bootstrapAll = train.AutoReset, cfg.Algorithm.BootstrapType == algo.BootstrapAlways
	j.syncInterval = int64(cfg.Runner.WeightSyncInterval)
	if j.maxSteps = int64(cfg.Runner.Iterations()); j.maxSteps < 0 {
		j.maxSteps = math.MaxInt64
	}
	j.readDemos()
	if err := cfg.Validate(j.actors, j.rollouts, j.simulators); err != nil {
		return nil, err
	}
	if cfg.Trains() && !j.offline {
		j.train = newPlan(train.TotalNumEnvs, cfg.Rollout.PipelineStageNum, j.simulators, j.rollouts, j.actors)
	}
	if cfg.Evaluates() {
		if j.evalEnv, j.evalSpec, err = evaluationEnv(cfg, reg); err != nil {
			return nil, err
		}
		j.eval = newPlan(eval.TotalNumEnvs, 1, j.simulators, j.rollouts, 0)
	}
	return j, nil
}

// workersOn names the workers of rank r, as env[0].
func (j *job) workersOn(r int) []string {
	workers := []string{}
	for _, name := range j.place.Components() {
		for m, at := range j.place.Group(name).Ranks {
			if at == r {
				workers = append(workers, fmt.Sprintf("%s[%d]", name, m))
			}
		}
	}
	return workers
}

// checkNames checks what only the registries can tell; Validate returns what it finds.
func (j *job) checkNames() {
	check := func(key string, cfg env.Config) {
		if err := j.reg.Envs.Find(cfg.ID()); err != nil {
			j.cfg.Problem(key, cfg.ID(), "a known environment: "+err.Error())
		}
	}
	check("env.train.env_type", j.cfg.Env.Train)
	if j.cfg.Evaluates() && j.cfg.Env.Eval.ID() != j.cfg.Env.Train.ID() {
		check("env.eval.env_type", j.cfg.Env.Eval)
	}
	j.reg.Algorithms.Check(j.cfg.Algorithm.Config, func(ok bool, key string, value any, want string) {
		if !ok {
			j.cfg.Problem("algorithm."+key, value, want)
		}
	})
	if known := j.reg.Policies.Names(); !slices.Contains(known, j.cfg.Actor.Model.ModelType) {
		j.cfg.Problem("actor.model.model_type", j.cfg.Actor.Model.ModelType, "one of "+strings.Join(known, ", "))
	}
}

// probe returns the Spec of cfg's environments.
func probe(reg Registries, cfg env.Config) (env.Spec, error) {
	vec, err := reg.Envs.New(cfg, 1)
	if err != nil {
		return env.Spec{}, err
	}
	return vec.Spec(), vec.Close()
}

// evaluationEnv returns the environments of evaluations, whose episodes end after
// env.eval.max_steps_per_rollout_epoch steps if not before, and what one is.
func evaluationEnv(cfg *Config, reg Registries) (env.Config, env.Spec, error) {
	e := cfg.Env.Eval
	spec, err := probe(reg, e)
	if most := e.MaxStepsPerRolloutEpoch; spec.MaxSteps == 0 || spec.MaxSteps > most {
		e.MaxEpisodeSteps = most
	}
	return e, spec, err
}

// newPolicy makes the policy with its initial parameters, the same wherever it is called.
func (j *job) newPolicy(alloc tensor.Allocator) (policy.Policy, error) {
	return j.reg.Policies.New(j.cfg.Actor.Model, j.spec, j.cfg.Actor.Seed, alloc)
}

// newAlgorithm makes the algorithm that trains pol on one actor's share of the environments.
func (j *job) newAlgorithm(pol policy.Policy, r algo.Replicas, alloc tensor.Allocator) (algo.Algorithm, error) {
	return j.reg.Algorithms.New(algo.Setup{
		Config: j.cfg.Algorithm.Config, Optim: j.cfg.Actor.Optim,
		GlobalBatch: j.cfg.Actor.GlobalBatchSize, MicroBatch: j.cfg.Actor.MicroBatchSize,
		Seed: j.cfg.Actor.Seed, Iterations: int(min(j.maxSteps, math.MaxInt32)),
		Chunk: j.chunks, GroupSize: j.cfg.Env.Train.GroupSize, Steps: j.epochs * j.steps, Envs: j.train.envs / j.actors,
		CriticOptim: j.cfg.Actor.CriticOptim, Rollout: j.trajectoryFields(j.train.envs / j.actors), Demos: j.demos,
		Policy: pol, Replicas: r, Alloc: alloc,
	})
}

// actionLayout is what a rollout worker sends to the environments of l.
func (j *job) actionLayout(l lane) *tensor.Layout {
	a := j.spec.Action
	return tensor.NewLayout(tensor.Field{Name: "action", DType: a.DType, Shape: []int{l.hi - l.lo, j.chunks, a.Dim()}})
}

// stepLayout is what the environments of l send: an env.Step.
func (j *job) stepLayout(l lane) *tensor.Layout {
	n, training := l.hi-l.lo, len(l.segments) > 0
	spec := j.spec
	if j.labelled && training {
		spec = spec.Labelled()
	}
	var fs []tensor.Field
	for _, prefix := range []string{"observation.", "final_observation."} {
		for _, f := range spec.Obs {
			fs = append(fs, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: append([]int{n}, f.Shape...)})
		}
	}
	fs = append(fs,
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{n, j.chunks}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{n, j.chunks}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{n, j.chunks}},
	)
	if infos := len(j.spec.Info); infos > 0 && j.rewards > 0 && training { // the reward component wants to know
		fs = append(fs, tensor.Field{Name: "info", DType: tensor.F32, Shape: []int{n, infos}})
	}
	return tensor.NewLayout(fs...)
}

// trajectoryLayout is what a rollout worker sends to an actor of n environments.
func (j *job) trajectoryLayout(n int) *tensor.Layout {
	return tensor.NewLayout(j.trajectoryFields(n)...)
}

func (j *job) trajectoryFields(n int) []tensor.Field {
	if j.offPolicy || j.offline {
		return transitionFields(j.spec, j.chunks, j.epochs*j.steps, n)
	}
	fs := append(trajectoryFields(j.spec, j.chunks, j.logProbs, j.rewardsPerSample, j.memoryLen, j.epochs*j.steps, n,
		!j.autoReset || j.fallible()), j.inferredFields(n)...)
	if j.cfg.Algorithm.LossType == "decoupled_actor_critic" {
		fs = append(fs, tensor.Field{Name: "version", DType: tensor.I64, Shape: []int{j.epochs * j.steps, n}})
	}
	return fs
}

// fallible reports whether simulators may fail while the job goes on, so that episodes are lost.
func (j *job) fallible() bool { return j.cfg.Env.Train.ID() == env.ExternalID }

// envSteps returns how many steps all environments take together in one iteration.
func (j *job) envSteps() int64 { return int64(j.train.envs) * int64(j.epochs*j.steps*j.chunks) }

// syncsAt reports whether the iteration after step begins with the newest weights. Where rollouts
// go on by themselves those after a checkpoint do.
func (j *job) syncsAt(step int64) bool { return j.async() || step%j.syncInterval == 0 }

// evaluatesApart reports whether evaluations use newer weights than the rollouts around them.
func (j *job) evaluatesApart() bool { return j.cfg.Evaluates() && j.syncInterval > 1 && !j.async() }

// evaluatesAt reports whether the policy is evaluated after step.
func (j *job) evaluatesAt(step int64) bool {
	return j.cfg.Evaluates() && (step >= j.maxSteps || step%int64(j.cfg.Runner.ValCheckInterval) == 0)
}

// savesAt reports whether a checkpoint is due after step.
func (j *job) savesAt(step int64) bool {
	every := int64(j.cfg.Runner.SaveInterval)
	return every > 0 && step > 0 && (step%every == 0 || step >= j.maxSteps)
}

func (l lane) name() string { return fmt.Sprintf("lane %d", l.id) }

func (s segment) name() string { return fmt.Sprintf("environments %d-%d", s.lo, s.hi-1) }
