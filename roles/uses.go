package roles

import (
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
)

// A use is what simulators outside of this program are for.
type use struct {
	key  string
	env  *env.Config
	vecs int // Vecs of their environments on all ranks
}

// usesOf returns the uses of cfg on ranks.
func usesOf(cfg *Config, ranks []int) (uses []use) {
	if cfg.Trains() && cfg.Env.Train.ID() == env.ExternalID {
		uses = append(uses, use{"env.train.external", &cfg.Env.Train, len(ranks) * max(cfg.Rollout.PipelineStageNum,
			1)})
	}
	if cfg.Evaluates() && cfg.Env.Eval.ID() == env.ExternalID {
		uses = append(uses, use{"env.eval.external", &cfg.Env.Eval, len(ranks)})
	}
	return uses
}

// checkOutside checks that environments can be dealt out to the programs that play them.
func (d *draft) checkOutside() {
	for _, u := range usesOf(d.cfg, d.place.Group("env").Ranks) {
		if u.env.External.Greeting == "" {
			continue // whoever makes them will ask
		}
		if _, err := external.Children(u.env.External, u.env.TotalNumEnvs/u.vecs); err != nil {
			d.problem(strings.TrimSuffix(u.key, "external")+"total_num_envs", u.env.TotalNumEnvs,
				"as many on each rank (and stage) as its children can play: "+err.Error())
		}
	}
}
