package config

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
)

// overrideEnv prepares t for an override of a key. An override of an environment's name must replace the names in
// files. overrideEnv removes such names: init_params.id, and the name under env.eval if it is the same as under
// env.train.
func overrideEnv(t *config.Tree, key string) {
	if key == "env.train.env_type" || key == "env.train.init_params.id" {
		followTraining(t)
	}
	for _, section := range []string{"env.train", "env.eval"} {
		if id := section + ".init_params.id"; key == section+".env_type" && !t.Overridden(id) {
			t.Remove(id)
		}
	}
}

// followTraining removes the environment's name under env.eval if it comes from a file, and is the same as under
// env.train.
func followTraining(t *config.Tree) {
	names := []string{"env_type", "init_params.id"}
	for _, name := range names {
		train, _ := t.Given("env.train." + name)
		eval, ok := t.Given("env.eval." + name)
		if ok && eval != train || t.Overridden("env.eval."+name) {
			return
		}
	}
	for _, name := range names {
		t.Remove("env.eval." + name)
	}
}

// connect completes e if it has the section external: an env_type that is empty, or names a simulator of RLinf, becomes
// "external".
func connect(e *env.Config) {
	if !e.External.IsZero() && (e.ID() == "" || ForeignSimulator(e.EnvType) != "") {
		e.EnvType, e.InitParams.ID = env.ExternalID, ""
	}
}

// An ExternalUse is a use of external simulators: for training, or for evaluation.
type ExternalUse struct {
	Key  string      // env.train.external or env.eval.external
	Env  *env.Config // the environments
	Vecs int         // number of groups of environments, on all ranks
}

// ExternalUses returns the uses of external simulators in c. ranks has the ranks of env workers.
func ExternalUses(c *Config, ranks []int) (uses []ExternalUse) {
	if c.Trains() && c.Env.Train.ID() == env.ExternalID {
		uses = append(uses, ExternalUse{"env.train.external", &c.Env.Train,
			len(ranks) * max(c.Rollout.PipelineStageNum, 1)})
	}
	if c.Evaluates() && c.Env.Eval.ID() == env.ExternalID {
		uses = append(uses, ExternalUse{"env.eval.external", &c.Env.Eval, len(ranks)})
	}
	return uses
}

// Probe makes one environment of cfg, and returns its spec.
func (reg Registries) Probe(cfg env.Config) (env.Spec, error) {
	vec, err := reg.Envs.New(cfg, 1)
	if err != nil {
		return env.Spec{}, err
	}
	return vec.Spec(), vec.Close()
}

// EvalEnv returns the environments of evaluations and their spec. Their episodes end after at most
// env.eval.max_steps_per_rollout_epoch steps. If this key is 0, the task's own limit applies. If the task has no limit,
// an episode ends after the length of a rollout.
func (reg Registries) EvalEnv(cfg *Config) (env.Config, env.Spec, error) {
	e := cfg.Env.Eval
	e.InstructionMix = "" // so that all evaluations play the same episodes
	spec, err := reg.Probe(e)
	most := e.MaxStepsPerRolloutEpoch
	if most == 0 && spec.MaxSteps == 0 {
		most = cfg.Env.Train.MaxStepsPerRolloutEpoch
	}
	if most > 0 && (spec.MaxSteps == 0 || spec.MaxSteps > most) {
		e.MaxEpisodeSteps = most
	}
	return e, spec, err
}

// Returns returns the minimum and maximum return of an episode of a task. They are infinite if they are unbounded or
// unknown.
func (reg Registries) Returns(task string) (least, most float64) {
	cfg := env.DefaultConfig()
	cfg.EnvType = task
	if slices.Contains(reg.Envs.Names(), task) {
		if spec, err := reg.Probe(cfg); err == nil && spec.Returns != nil {
			return spec.Returns[0], spec.Returns[1]
		}
	}
	return math.Inf(-1), math.Inf(1)
}
