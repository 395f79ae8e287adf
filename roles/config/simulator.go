package config

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
)

// overrideEnv lets the environment that the command line names count: key is about to be set. In
// files init_params.id counts more than env_type, and RLinf's recipes name the same environment
// under env.train and env.eval.
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

// followTraining removes the name of the environment of evaluations, if files give it and it is that
// of training.
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

// connect makes e one of env_type external, where it says how simulators are reached and names no
// environment, or a simulator that is not here.
func connect(e *env.Config) {
	if !e.External.IsZero() && (e.ID() == "" || ForeignSimulator(e.EnvType) != "") {
		e.EnvType, e.InitParams.ID = env.ExternalID, ""
	}
}

// An ExternalUse is training or evaluation in simulators outside of this program.
type ExternalUse struct {
	Key  string      // of the configuration: env.train.external or env.eval.external
	Env  *env.Config // its environments
	Vecs int         // how many groups of environments are made, on all ranks
}

// ExternalUses returns the uses of c on ranks.
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

// Probe makes one of cfg's environments, and returns their Spec.
func (reg Registries) Probe(cfg env.Config) (env.Spec, error) {
	vec, err := reg.Envs.New(cfg, 1)
	if err != nil {
		return env.Spec{}, err
	}
	return vec.Spec(), vec.Close()
}

// EvalEnv returns the environments of evaluations and their spec. Their episodes end after at most
// env.eval.max_steps_per_rollout_epoch steps. Where that is 0 the task's own limit counts, and for a
// task without one the length of a rollout.
func (reg Registries) EvalEnv(cfg *Config) (env.Config, env.Spec, error) {
	e := cfg.Env.Eval
	e.InstructionMix = "" // everyone evaluates the same episodes
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

// Returns returns the least and the most return of an episode of a task, infinite where there is no bound,
// or none is known.
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
