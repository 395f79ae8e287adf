package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// listEnvs lists the environments of reg with their observations and actions.
func listEnvs(out io.Writer, reg config.Registries) error {
	for _, name := range reg.Envs.Names() {
		cfg := env.DefaultConfig()
		cfg.EnvType = name
		spec, err := job.Probe(reg, cfg)
		if err != nil {
			fmt.Fprintf(out, "%-26s %s\n", name, strings.TrimPrefix(err.Error(), name+": "))
			continue
		}
		var obs []string
		for _, f := range spec.Obs {
			obs = append(obs, fmt.Sprintf("%s %v%v", f.Name, f.DType, f.Shape))
		}
		fmt.Fprintf(out, "%-26s observes %s; takes %s; %d steps\n", name, strings.Join(obs, ", "),
			describeSpace(spec.Action), spec.MaxSteps)
	}
	return nil
}

func describeSpace(s env.Space) string {
	switch s.Kind {
	case env.Discrete:
		return fmt.Sprintf("one of %d actions", s.Nvec[0])
	case env.MultiDiscrete:
		return fmt.Sprintf("choices of %v", s.Nvec)
	}
	return fmt.Sprintf("%d numbers in [%v, %v]", s.Dim(), s.Low[0], s.High[0])
}
