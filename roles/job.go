package roles

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

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
	learning
	demos                  tensor.Dict
	syncInterval, maxSteps int64
	table                  *collectives.Table // comm.table
}

// collectives returns how the groups of training work.
func (j *job) collectives() collectives.Options {
	return collectives.Options{Fast: j.cfg.Comm.Reduce == ReduceFast, Table: j.table, Debug: j.cfg.Comm.Debug}
}

// newJob works cfg out for a world whose rank r is on node nodes[r]: one pass of checks, and, where
// they find nothing, what follows from an environment, a policy and files. The error joins
// everything that is wrong.
func newJob(cfg *Config, reg Registries, nodes []int) (*job, error) {
	d := newDraft(cfg, reg, nodes)
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	d.divide()
	if err := d.probe(nodes); err != nil {
		return nil, err
	}
	d.tryPolicy(nodes)
	d.checkOutside()
	d.tryReward()
	d.readDemos()
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	return d.job, nil
}

// divide fills in what follows from the configuration and the world alone.
func (d *draft) divide() {
	c, train := d.cfg, d.cfg.Env.Train
	d.chunks = c.Actor.Model.NumActionChunks
	d.rolloutsAtMost = c.Algorithm.MaxNumGenBatches
	d.epochs, d.steps = train.RolloutEpoch, train.MaxStepsPerRolloutEpoch/d.chunks
	if d.rewardsPerSample = 1; c.actionRewards() {
		d.rewardsPerSample = d.chunks
	}
	d.autoReset, d.bootstrapAll = train.AutoReset, c.Algorithm.BootstrapType == algo.BootstrapAlways
	d.syncInterval = int64(c.Runner.WeightSyncInterval)
	if d.maxSteps = int64(c.Runner.Iterations()); d.maxSteps < 0 {
		d.maxSteps = math.MaxInt64
	}
	if c.Trains() && !d.offline {
		d.train = newPlan(train.TotalNumEnvs, c.Rollout.PipelineStageNum, d.simulators, d.rollouts, d.actors)
	}
	if c.Evaluates() {
		d.eval = newPlan(c.Env.Eval.TotalNumEnvs, 1, d.simulators, d.rollouts, 0)
	}
}

// probe makes an environment of each kind to learn what it shows and takes.
func (d *draft) probe(nodes []int) (err error) {
	if d.spec, err = probe(d.reg, d.cfg.Env.Train); err != nil {
		d.problem("env.train.env_type", d.cfg.Env.Train.ID(), "environments that can be made: "+err.Error())
		return d.found.Err()
	}
	d.logProbs = map[string]int{algo.ChunkLevel: 1, algo.ActionLevel: d.chunks,
		algo.TokenLevel: d.chunks * d.spec.Action.Dim()}[d.cfg.Algorithm.LogProbType]
	d.checkObservations(nodes[len(nodes)-1]+1, roomOn(nodes, 0))
	if err := d.found.Err(); err != nil || !d.cfg.Evaluates() {
		return err
	}
	d.evalEnv, d.evalSpec, err = evaluationEnv(d.cfg, d.reg)
	return err
}

// tryPolicy makes the policy to see that it fits environments, algorithm and memory.
func (d *draft) tryPolicy(nodes []int) {
	c := d.cfg
	pol, err := d.reg.Policies.New(c.PolicyConfig(), d.spec, c.Actor.Seed, heapWithin(roomOn(nodes, 0)))
	if errors.As(err, new(shortage)) {
		d.problem("actor.model.hidden_sizes", c.Actor.Model.HiddenSizes, "a smaller policy: "+err.Error())
		return
	} else if err != nil {
		d.problem("actor.model.model_type", c.Actor.Model.ModelType, "a policy that fits: "+err.Error())
		return
	}
	if err := d.reg.Algorithms.Fits(c.Algorithm.Config, pol); c.Trains() && err != nil {
		d.problem("algorithm.loss_type", c.Algorithm.LossType, fmt.Sprintf("an algorithm for %s: this one needs %v",
			d.spec.Name, err))
		return
	}
	d.memoryLen, d.paramBytes = policy.HiddenLen(pol), 4*len(pol.Params().Data)
	d.checkSequences()
}

// checkSequences checks that training can be from sequences where the policy remembers.
func (d *draft) checkSequences() {
	c := d.cfg
	if !c.Trains() {
		return
	}
	length, model := c.Algorithm.SequenceLength, c.Actor.Model.ModelType
	if d.memoryLen == 0 {
		d.found.Want(length == 0, "algorithm.sequence_length", length, "0 (model_type "+model+" remembers nothing)")
		return
	}
	d.found.Want(!c.actionRewards(), "algorithm.reward_type", c.Algorithm.RewardType, "chunk_level (model_type "+model+
		" remembers from chunk to chunk)")
	_, steps := c.samples()
	if length == 0 {
		length = steps
	}
	if steps%length != 0 {
		d.problem("algorithm.sequence_length", length, fmt.Sprintf("a divisor of %d (steps of an iteration)", steps))
		return
	}
	micro := c.Actor.MicroBatchSize
	d.found.Want(micro%length == 0, "actor.micro_batch_size", micro,
		fmt.Sprintf("a multiple of %d (steps of a sequence)", length))
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
	return j.reg.Policies.New(j.cfg.PolicyConfig(), j.spec, j.cfg.Actor.Seed, alloc)
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
	if j.fallible() && training {
		fs = append(fs, tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{n}})
	}
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
		return transitionFields(j.spec, j.chunks, j.epochs*j.steps, n, j.fallible())
	}
	fs := append(trajectoryFields(j.spec, j.chunks, j.logProbs, j.rewardsPerSample, j.memoryLen, j.epochs*j.steps, n,
		!j.autoReset || j.fallible()), j.inferredFields(n)...)
	if j.cfg.Algorithm.LossType == "decoupled_actor_critic" {
		fs = append(fs, tensor.Field{Name: "version", DType: tensor.I64, Shape: []int{j.epochs * j.steps, n}})
	}
	return fs
}

// fallible reports whether simulators may fail and leave episodes aborted while the job goes on.
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
