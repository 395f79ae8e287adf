package reward

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Batch is n transitions, a row each.
type Batch struct {
	Obs, Next  tensor.Dict   // [n,…]: what was observed before and after the step, and before any reset
	Action     tensor.Tensor // [n,C,A], as it was drawn
	Reward     []float32     // the environment's own, added up over a chunk
	Terminated []uint8
	Truncated  []uint8
	Info       tensor.Tensor // F32 [n, len(env.Spec.Info)]; the zero Tensor where that is none
}

// A Rule sets score, n numbers, to what the transitions of b are worth, each by itself. It belongs
// to one goroutine at a time.
type Rule func(score []float32, b *Batch) error

// A Setup is what a Rule is made of.
type Setup struct {
	Config  Config
	Spec    env.Spec
	Gamma   float32       // the discount of a step (algorithm.gamma)
	Network policy.Policy // of Config.Model, with its parameters; nil without use_reward_model
	Rows    int           // the most transitions of a batch
}

// A Builder makes a Rule. An error is of the user's making: it names keys below reward.
type Builder func(Setup) (Rule, error)

// A Registry maps Config.RewardType to rules.
type Registry struct {
	names    []string
	builders []Builder
	owns     []params.Own // their keys under reward, with their defaults
}

// Builtin returns the rules that come with rlinf; your own main adds its own.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("env", newEnv)
	r.Add("success", newSuccess)
	r.Add("potential", newPotential)
	return r
}

// Add adds a rule. A name that is there already panics.
func (r *Registry) Add(name string, b Builder) {
	if slices.Contains(r.names, name) {
		panic(fmt.Sprintf("reward: two rules %q", name))
	}
	r.names, r.builders, r.owns = append(r.names, name), append(r.builders, b), append(r.owns, params.Own{})
}

// Register adds a rule with keys of its own under reward; see package params. build gets their
// values.
func Register[P any](r *Registry, name string, defaults P, build func(Setup, P) (Rule, error)) {
	own := params.New(defaults)
	r.Add(name, func(s Setup) (Rule, error) {
		p, err := params.Get(s.Config.Own, defaults)
		if err != nil {
			return nil, err
		}
		return build(s, p)
	})
	r.owns[len(r.owns)-1] = own
}

// Own returns the keys that a rule has beyond Config's, with their defaults.
func (r *Registry) Own(name string) params.Own {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.owns[i]
	}
	return params.Own{}
}

// Owner returns the name of the rule that has a key of its own of that name, or "".
func (r *Registry) Owner(key string) string {
	for i, own := range r.owns {
		if own.Has(key) {
			return "reward_type " + r.names[i]
		}
	}
	return ""
}

// Names returns the names in the order in which they were added.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// New makes the Rule of s.Config: what the network or the rule it names says, in its mode, weighed
// against the environment's reward.
func (r *Registry) New(s Setup) (Rule, error) {
	build := newModel
	if !s.Config.UseRewardModel {
		i := slices.Index(r.names, s.Config.RewardType)
		if i < 0 {
			return nil, fmt.Errorf("reward_type: %s: want one of %s", s.Config.RewardType, strings.Join(r.names, ", "))
		}
		build = r.builders[i]
	}
	score, err := build(s)
	if err != nil {
		return nil, err
	}
	return weigh(score, s.Config), nil
}

// weigh returns the reward of which score is a part.
func weigh(score Rule, c Config) Rule {
	terminal := c.RewardMode == Terminal
	return func(reward []float32, b *Batch) error {
		if err := score(reward, b); err != nil {
			return err
		}
		for i, s := range reward {
			if terminal && b.Terminated[i]|b.Truncated[i] == 0 {
				s = 0
			}
			reward[i] = c.RewardWeight*s + c.EnvRewardWeight*b.Reward[i]
		}
		return nil
	}
}
