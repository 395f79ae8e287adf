package job

import (
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/config"
)

// An ExternalUse is training or evaluation in simulators outside of this program.
type ExternalUse struct {
	Key  string      // of the configuration: env.train.external or env.eval.external
	Env  *env.Config // its environments
	Vecs int         // how many groups of environments are made, on all ranks
}

// ExternalUses returns the uses of cfg on ranks.
func ExternalUses(cfg *config.Config, ranks []int) (uses []ExternalUse) {
	if cfg.Trains() && cfg.Env.Train.ID() == env.ExternalID {
		uses = append(uses, ExternalUse{"env.train.external", &cfg.Env.Train,
			len(ranks) * max(cfg.Rollout.PipelineStageNum,
				1)})
	}
	if cfg.Evaluates() && cfg.Env.Eval.ID() == env.ExternalID {
		uses = append(uses, ExternalUse{"env.eval.external", &cfg.Env.Eval, len(ranks)})
	}
	return uses
}

// checkOutside checks that the environments of a rank divide over the programs that play them.
func (d *draft) checkOutside() {
	for _, u := range ExternalUses(d.Config, d.Placement.Ranks("env")) {
		if u.Env.External.Greeting == "" {
			continue // the simulators will be asked when they start
		}
		if _, err := external.Children(u.Env.External, u.Env.TotalNumEnvs/u.Vecs); err != nil {
			d.problem(strings.TrimSuffix(u.Key, "external")+"total_num_envs", u.Env.TotalNumEnvs,
				"as many on each rank (and stage) as its children can play: "+err.Error())
		}
	}
}
