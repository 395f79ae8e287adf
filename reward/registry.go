package reward

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Batch is n transitions, one in each row.
type Batch struct {
	Obs, Next  tensor.Dict   // [n,…]: observations before and after the step; Next is before any reset
	Action     tensor.Tensor // [n,C,A], as the policy drew it
	Reward     []float32     // the environment's reward, summed over a chunk
	Terminated []uint8
	Truncated  []uint8
	Info       tensor.Tensor // F32 [n, len(env.Spec.Info)], of the last step; the zero Tensor without Info
	Infos      tensor.Tensor // F32 [n, C·Repeats, len(env.Spec.Info)], of each step, 0 for steps not taken
}

// A Rule writes the reward of each of the n transitions of b to score, which has n elements. It scores each transition
// by itself, and keeps no state between transitions. Each reward worker has a Rule of its own, and a resume or a move
// to another rank makes a new Rule. One goroutine at a time uses it.
type Rule func(score []float32, b *Batch) error

// A Setup has all inputs for making a Rule.
type Setup struct {
	Config  Config
	Spec    env.Spec
	Gamma   float32       // discount of a step (algorithm.gamma)
	Network policy.Policy // the network of Config.Model, with its parameters; nil without use_reward_model
	Rows    int           // largest number of transitions in a batch
}

// A Builder makes a Rule. Its errors are mistakes of the user, and name keys below reward.
type Builder func(Setup) (Rule, error)

// A Registry maps Config.RewardType to rules.
type Registry struct{ params.Registry[Builder] }

// Builtin returns the rules that come with rlinf. Your own main may add others.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("env", newEnv)
	r.Add("success", newSuccess)
	r.Add("potential", newPotential)
	return r
}

// Register adds a rule with keys of its own under reward; see package params. build gets the values
// of these keys.
func Register[P any](r *Registry, name string, defaults P, build func(Setup, P) (Rule, error)) {
	r.AddOwn(name, params.New(defaults), func(s Setup) (Rule, error) {
		p, err := params.Get(s.Config.Own, defaults)
		if err != nil {
			return nil, err
		}
		return build(s, p)
	})
}

// New makes the Rule of s.Config. The Rule computes the weighted sum of a score and the environment's reward. The
// score is from the network or from the named rule. In the mode Terminal the score is 0 except in the last step of an
// episode.
func (r *Registry) New(s Setup) (Rule, error) {
	var build Builder = newModel
	if !s.Config.UseRewardModel {
		var ok bool
		if build, ok = r.Builder(s.Config.RewardType); !ok {
			return nil, fmt.Errorf("reward_type: %s: expected one of %s", s.Config.RewardType,
				strings.Join(r.Names(), ", "))
		}
	}
	score, err := build(s)
	if err != nil {
		return nil, err
	}
	return weigh(score, s.Config), nil
}

// weigh returns the rule that combines score with the environment's reward.
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
