package job

import (
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/config"
)

// An ExternalUse is what simulators outside of this program are for.
type ExternalUse struct {
	Key  string      // of the configuration: env.train.external or env.eval.external
	Env  *env.Config // its environments
	Vecs int         // Vecs of their environments on all ranks
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

// checkOutside checks that environments can be dealt out to the programs that play them.
func (d *draft) checkOutside() {
	for _, u := range ExternalUses(d.Config, d.Placement.Group("env").Ranks) {
		if u.Env.External.Greeting == "" {
			continue // whoever makes them will ask
		}
		if _, err := external.Children(u.Env.External, u.Env.TotalNumEnvs/u.Vecs); err != nil {
			d.problem(strings.TrimSuffix(u.Key, "external")+"total_num_envs", u.Env.TotalNumEnvs,
				"as many on each rank (and stage) as its children can play: "+err.Error())
		}
	}
}
