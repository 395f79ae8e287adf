package config

import (
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
