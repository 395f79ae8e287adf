package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"gopkg.in/yaml.v3"
)

// Load reads the configuration file at path and applies overrides ("runner.max_epochs=10"). It looks for presets beside
// the file and in configs/. It returns warnings for the user. If strict is true, keys without effect are errors.
//
// The error has all mistakes in the values, see config.FieldErrors. The Config returned with such an error can be
// checked further. The Config is nil if the file cannot be read.
func Load(reg Registries, path string, overrides []string, strict bool) (*Config, []string, error) {
	text, err := config.ReadOnce(path)
	if err != nil {
		return nil, nil, err
	}
	return LoadText(reg, path, text, overrides, strict)
}

// LoadText is like Load, but the caller has read the file at path. text is its content.
func LoadText(reg Registries, path string, text []byte, overrides []string, strict bool) (*Config, []string, error) {
	c, p := Default(), &parts{Registries: reg}
	c.Runner.Logger.ExperimentName = experimentName(path)
	o := c.options(p)
	o.Text = text
	tree, err := config.Load(path, overrides, o)
	if err != nil {
		return nil, nil, err
	}
	c.decode(tree, p)
	if strict {
		c.found.Strict()
	}
	return c, c.found.Warnings(), c.Err()
}

// experimentName returns the default name of a run whose configuration is in the file at path.
func experimentName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if strings.Trim(name, ".") == "" {
		return Default().Runner.Logger.ExperimentName
	}
	return name
}

// Parse reads a result of Resolved, from another rank or another run.
func Parse(reg Registries, resolved []byte) (*Config, error) {
	c, p := Default(), &parts{Registries: reg}
	tree, err := config.Parse("config.yaml", resolved, c.options(p))
	if err != nil {
		return nil, err
	}
	c.decode(tree, p)
	return c, c.Err()
}

// Err returns all mistakes in the values as one error, or nil.
func (c *Config) Err() error { return c.found.Err() }

// Findings returns a copy of the mistakes in the values. The caller can add mistakes to the copy.
func (c *Config) Findings() *Findings { return c.found.Fork() }

// Mistake returns a mistake in the value of the dotted key. expected describes the valid values.
func (c *Config) Mistake(key string, value any, expected string) error {
	return c.found.Mistake(key, value, expected)
}

// Reported reports whether one of the dotted keys has a mistake.
func (c *Config) Reported(keys ...string) bool { return c.found.Reported(keys...) }

// Given reports whether the file or the command line has the dotted key.
func (c *Config) Given(key string) bool { return c.found.Has(key) }

// Findings are the mistakes in a configuration.
type Findings = config.Check

func (c *Config) options(p *parts) config.Options {
	choose := func(given func(key string) (string, bool)) []config.Known {
		p.choose(c, given)
		if model, _ := given("actor.model.model_type"); ForeignPolicy(model) != "" {
			return foreignModelKeys()
		}
		return nil
	}
	return config.Options{SearchPath: []string{"configs"}, Aliases: aliases(), Known: knownKeys(), Defaults: c,
		Synonyms: synonyms, Rewrite: useOwnWords, Choose: choose, Owner: p.owner, Overriding: overrideEnv,
		Grouped: placementKey}
}

func (c *Config) decode(tree *config.Tree, p *parts) {
	c.found = tree.Decode(c)
	v := validation{Config: c, reg: p.Registries, found: c.found}
	v.correctTask()
	c.Algorithm.useOwnNames(c.Actor.Model.QHeadType == policy.QHeadCrossQ, c.Reasons() && c.Critic.UseCriticModel)
	c.clipLikeRLinf()
	c.derive(p.evalApart, p.Algorithms.Offline(c.Algorithm.Config))
	c.batches(p.Learning(c))
	v.checkValues()
	c.idleEvaluation()
}

// evaluationLike returns the section env.eval for the section train, if no key of env.eval is given.
func evaluationLike(train env.Config) env.Config {
	train.VideoCfg, train.DataCollection = env.DefaultVideo(), env.DefaultConfig().DataCollection
	train.MaxStepsPerRolloutEpoch, train.RolloutEpoch = 0, 1 // the lengths of rollouts do not apply to evaluations
	train.GroupSize, train.UseFixedResetStateIDs = 1, false  // each episode has an initial state of its own
	trainingAlone(&train)
	return train
}

// derive sets the keys that are not given and whose defaults depend on other keys. evalApart is true if evaluations and
// training have different environments. offline is true if the algorithm learns from demonstrations alone.
func (c *Config) derive(evalApart, offline bool) {
	if offline && !c.found.Has("env.train.total_num_envs") {
		c.found.Decode("env.eval", &c.Env.Train) // only evaluations have environments
		c.Env.Train.DataCollection = env.DefaultConfig().DataCollection
		c.found.Decode("env.train", &c.Env.Train)
	}
	if !c.found.Has("env.train.group_size") {
		c.Env.Train.GroupSize = c.Algorithm.GroupSize
	}
	if !c.found.Has("env.train.seed") {
		c.Env.Train.Seed = c.Runner.Seed
	}
	connect(&c.Env.Train)
	own := c.Env.Train.InitParams.Own.Clone()
	if evalApart {
		own = c.Env.Eval.InitParams.Own
	}
	c.Env.Eval = evaluationLike(c.Env.Train)
	c.Env.Eval.InitParams.Own = own
	c.found.Decode("env.eval", &c.Env.Eval)
	connect(&c.Env.Eval)
	c.idleSplit("env.train", &c.Env.Train)
	c.idleSplit("env.eval", &c.Env.Eval)
	if !c.found.Has("actor.seed") {
		c.Actor.Seed = c.Runner.Seed
	}
	c.layouts()
	if !c.found.Has("data.seed") {
		c.Data.Seed = c.Actor.Seed
	}
	c.Algorithm.EntropyType = cmp.Or(c.Algorithm.EntropyType, c.Algorithm.LogProbType)
	c.placeAll()
	if !c.Classifies() { // a classifier has a layer of hidden_dim
		c.widen("actor.model", &c.Actor.Model)
	}
	if c.Reward.Model.ModelType != reward.ResNet {
		c.widen("reward.model", &c.Reward.Model.Config)
	}
	c.settleBackbone()
	if c.Actor.Model.AddQHead && !c.found.Has("actor.model.add_value_head") {
		c.Actor.Model.AddValueHead = false
	}
	c.Actor.CriticOptim = c.Actor.Optim
	if c.found.Has("actor.critic_optim.lr") { // more specific than actor.optim.value_lr
		c.Actor.CriticOptim.ValueLR = 0
	}
	c.found.Decode("actor.critic_optim", &c.Actor.CriticOptim)
	tuning := &c.Algorithm.OffPolicy.EntropyTuning
	tuning.Optim = c.Actor.Optim
	c.found.Decode("algorithm.entropy_tuning.optim", &tuning.Optim)
	if c.Runner.TaskType == TaskEmbodiedEval {
		c.Runner.OnlyEval = true
	}
}

// placeAll places all components on all ranks if the file has no cluster.component_placement.
func (c *Config) placeAll() {
	if c.found.Has(placementKey) || len(c.Cluster.ComponentPlacement) > 0 {
		return
	}
	names := plannedComponents(c.Runner.TaskType)
	if names[0] == "actor" && !c.Trains() || c.Runner.TaskType == TaskEmbodiedEval {
		names = names[1:]
	}
	c.Cluster.ComponentPlacement = config.Map[PlacementConfig]{{Key: strings.Join(names, ","),
		Value: PlacementConfig{Placement: "all"}}}
}

// batches sets the batch sizes that are not given. A job that learns from its rollouts trains on a quarter of an
// iteration's samples at once, and others on 256 samples. A micro-batch is the part of one actor, or an eighth if the
// placement leaves the number of actors open.
func (c *Config) batches(learns Learning) {
	a := &c.Actor
	if !c.Trains() || c.FineTunes() || c.Reasons() || a.Model.NumActionChunks < 1 {
		return
	}
	samples, _ := c.Samples()
	if !c.found.Has("actor.global_batch_size") {
		a.GlobalBatchSize = 256
		if !learns.OffPolicy && !learns.Offline {
			if a.GlobalBatchSize = samples; samples%4 == 0 && c.Algorithm.LossType != "a2c" {
				a.GlobalBatchSize = samples / 4
			}
		}
	}
	if !c.found.Has("actor.micro_batch_size") && a.GlobalBatchSize > 0 {
		actors := 8
		if ranks, open := c.Extent(); !open && ranks > 0 && ranks <= MaxRanks {
			if place, err := c.Place(make([]int, ranks)); err == nil {
				actors = len(place.Ranks("actor"))
			}
		}
		a.MicroBatchSize = GCD(a.GlobalBatchSize, max(a.GlobalBatchSize/max(actors, 1), 1))
	}
}

// idleEvaluation reports the given keys that have no effect on evaluations, and resets these keys.
func (c *Config) idleEvaluation() {
	const own = "eval/* has the task's own rewards"
	e, r := &c.Env.Eval, &c.Runner
	idle := func(key string, value any, instead string) { c.found.IdleInstead("env.eval."+key, value, instead) }
	if e.AutoReset {
		idle("auto_reset", true, "an environment plays rollout_epoch episodes, one after the other")
	}
	if e.UseRelReward {
		idle("use_rel_reward", true, own)
	}
	if e.RewardCoef != 1 {
		idle("reward_coef", e.RewardCoef, own)
	}
	if e.RewardClip != 0 {
		idle("reward_clip", e.RewardClip, own)
	}
	if e.InstructionMix != "" {
		idle("instruction_mix", e.InstructionMix, "the weights of instructions stay")
	}
	if e.Person.Share > 0 {
		idle("person", e.Person.Share, "no person takes over in evaluations")
	}
	trainingAlone(e)
	if !c.Trains() && r.MaxTime > 0 {
		c.found.Idle("runner.max_time", r.MaxTime)
		r.MaxTime = 0
	}
	if !c.Trains() && c.Cluster.Tracer.Enable {
		c.found.Idle("cluster.tracer.enable", true)
		c.Cluster.Tracer.Enable = false
	}
}

// trainingAlone resets the keys of e that have no effect on evaluations.
func trainingAlone(e *env.Config) {
	e.AutoReset, e.InstructionMix, e.Person = false, "", env.PersonConfig{}
	e.UseRelReward, e.RewardCoef, e.RewardClip = false, 1, 0 // metrics have the task's own rewards
}

// idleSplit reports the key "split" of external simulators. RLinf's simulators have this key, and it has no effect
// here.
func (c *Config) idleSplit(section string, e *env.Config) {
	if e.ID() == env.ExternalID && c.found.Has(section+".split") {
		c.found.IdleInstead(section+".split", e.Split, simulatorNote)
	}
}

// widen sets the hidden layers of m from its HiddenDim. section is the name of m's section.
func (c *Config) widen(section string, m *policy.Config) {
	switch {
	case m.HiddenDim <= 0 || m.HiddenDim > 1<<14 || c.found.Has(section+".hidden_sizes"):
	case m.ModelType == "mlp_policy":
		m.HiddenSizes = []int{m.HiddenDim, m.HiddenDim, m.HiddenDim}
	default:
		c.found.IdleInstead(section+".hidden_dim", m.HiddenDim, "hidden_sizes counts")
	}
}

// PolicyConfig returns actor.model, and the settings that the policy needs from other sections.
func (c *Config) PolicyConfig() policy.Config {
	m := c.Actor.Model
	m.LogProbType, m.ActionValues, m.BLAS = c.Algorithm.LogProbType, c.ActionRewards(), !c.Runner.Deterministic
	s := c.Rollout.SamplingParams
	m.Temperature, m.EvalTemperature = s.TemperatureTrain, s.TemperatureEval
	return m
}

// ActionRewards reports whether each action of a chunk has its own reward.
func (c *Config) ActionRewards() bool {
	return c.Algorithm.RewardType == algo.ActionLevel && c.Actor.Model.NumActionChunks > 1
}

// Resolved returns all values as YAML, defaults included. Parse of this text gives the same configuration.
func (c *Config) Resolved() []byte {
	text, err := config.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("roles: configuration: %v", err)) // every field has a YAML form
	}
	return text
}

// Record returns the result of Resolved for the run's folder, but without the checkpoint from which this start resumed.
// Later starts resume from other checkpoints, and evaluations use the newest checkpoint.
func (c *Config) Record() []byte {
	record := *c
	if record.Runner.ResumeDir != ResumeAuto {
		record.Runner.ResumeDir = ""
	}
	return record.Resolved()
}

// RecordedAs reports whether a run of c may have written record, the configuration in a run's folder. It compares the
// keys that a user sets. The greetings of simulators do not count, because the start of a run writes them.
func (c *Config) RecordedAs(record []byte) bool {
	var keys [2]map[string]any
	for i, text := range [][]byte{record, c.Record()} {
		if yaml.Unmarshal(text, &keys[i]) != nil {
			return false
		}
		sections, _ := keys[i]["env"].(map[string]any)
		for _, section := range sections {
			if e, ok := section.(map[string]any); ok {
				if simulator, ok := e["external"].(map[string]any); ok {
					delete(simulator, "greeting")
				}
			}
		}
	}
	return reflect.DeepEqual(keys[0], keys[1])
}

// Folder returns the path of the run's folder.
func (c *Config) Folder() string {
	return filepath.Join(c.Runner.Logger.LogPath, c.Runner.Logger.ExperimentName)
}

// EvaluatesWeights reports whether evaluations use runner.ckpt_path even if the run has a checkpoint. They do if the
// key was given on the command line, or if the job only evaluates. Otherwise the weights are only the start of a run.
func (c *Config) EvaluatesWeights() bool {
	return c.Runner.CkptPath != "" && (!c.Trains() || c.found.Overridden("runner.ckpt_path"))
}

// Trains reports whether the job trains. Otherwise it only evaluates.
func (c *Config) Trains() bool { return !c.Runner.OnlyEval }

// Evaluates reports whether the job evaluates, during training or alone.
func (c *Config) Evaluates() bool { return c.Runner.OnlyEval || c.Runner.ValCheckInterval > 0 }

// Headline returns the metric that measures the trained policy: an evaluation metric if the job evaluates, else a
// training metric.
func (c *Config) Headline() string { return c.headline(c.Evaluates()) }

// TrainingHeadline returns the training metric that measures the policy.
func (c *Config) TrainingHeadline() string { return c.headline(false) }

func (c *Config) headline(evaluated bool) string {
	names := [2]string{"env/return", "eval/return"}
	switch c.Runner.TaskType {
	case TaskSFT:
		names = [2]string{"train/sft/loss", "eval/loss"}
	case TaskReasoning:
		names = [2]string{"rollout/rewards", "eval/accuracy"}
	}
	if evaluated {
		return names[1]
	}
	return names[0]
}

// Iterations returns the number of iterations of the job, or -1 if only a time limit ends the job.
func (r *RunnerConfig) Iterations() int {
	switch {
	case r.MaxEpochs < 0:
		return max(r.MaxSteps, -1)
	case r.MaxSteps < 0:
		return r.MaxEpochs
	}
	return min(r.MaxEpochs, r.MaxSteps)
}

// Places reports whether component has a placement. It does not check whether the placement fits the world.
func (c *Config) Places(component string) bool {
	return slices.ContainsFunc(c.Cluster.ComponentPlacement, func(e config.Entry[PlacementConfig]) bool {
		return slices.Contains(config.Names(e.Key), component)
	})
}

// Samples returns the number of samples in an iteration, and the number of steps of each environment. A step gives one
// sample, and takes one chunk of actions.
func (c *Config) Samples() (samples, steps int) {
	t := &c.Env.Train
	steps = Product(t.MaxStepsPerRolloutEpoch/c.Actor.Model.NumActionChunks, t.RolloutEpoch)
	return Product(steps, t.TotalNumEnvs), steps
}
