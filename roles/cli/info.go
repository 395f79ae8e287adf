package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
)

// A listedEnv is an environment in the output of rlinf envs --json.
type listedEnv struct {
	Name     string        `json:"name"`
	Error    string        `json:"error,omitempty"` // why rlinf cannot make it; the fields below are empty then
	Obs      []listedSpace `json:"observations,omitempty"`
	Action   *listedSpace  `json:"action,omitempty"`
	MaxSteps int           `json:"max_steps,omitempty"` // 0: no limit
	Tasks    []string      `json:"tasks,omitempty"`
}

// A listedSpace is an observation or the action of an environment.
type listedSpace struct {
	Name  string `json:"name,omitempty"` // name of the observation; "" for the action
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Space string `json:"space"` // in Gymnasium's notation: Box(-2, 2, (1,)), Discrete(2)
}

// listEnvs lists the environments of reg with their observations and actions.
func listEnvs(out io.Writer, reg config.Registries, asJSON bool) error {
	all := []listedEnv{} // [] in JSON, not null
	for _, name := range reg.Envs.Names() {
		all = append(all, describeEnv(reg, name))
	}
	if asJSON {
		return json.NewEncoder(out).Encode(all)
	}
	for _, e := range all {
		if e.Error != "" {
			fmt.Fprintf(out, "%-26s %s\n", e.Name, e.Error)
			continue
		}
		var obs []string
		for _, f := range e.Obs {
			obs = append(obs, fmt.Sprintf("%s %s%v", f.Name, f.DType, f.Shape))
		}
		fmt.Fprintf(out, "%-26s observations %s; actions %s; %d steps\n", e.Name, strings.Join(obs, ", "),
			e.Action.Space, e.MaxSteps)
	}
	return nil
}

func describeEnv(reg config.Registries, name string) listedEnv {
	cfg := env.DefaultConfig()
	cfg.EnvType = name
	e := listedEnv{Name: name}
	spec, err := reg.Probe(cfg)
	if err != nil {
		e.Error = strings.TrimPrefix(err.Error(), name+": ")
		return e
	}
	action := describeSpace(spec.Action)
	e.Action, e.MaxSteps, e.Tasks = &action, spec.MaxSteps, spec.Tasks
	for _, f := range spec.Obs {
		s := describeSpace(f.Space)
		s.Name = f.Name
		e.Obs = append(e.Obs, s)
	}
	return e
}

func describeSpace(s env.Space) listedSpace {
	return listedSpace{Space: s.String(), DType: s.DType.String(), Shape: append([]int{}, s.Shape...)}
}
