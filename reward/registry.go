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
	Obs, Next  tensor.Dict   // [n,…]: observations before and after the step; Next never belongs to a new episode
	Action     tensor.Tensor // [n,C,A], as the policy sampled it
	Reward     []float32     // the environment's reward, summed over a chunk
	Terminated []uint8
	Truncated  []uint8
	Info       tensor.Tensor // F32 [n, len(env.Spec.Info)], of the last step; zero Tensor if Spec.Info is empty
	Infos      tensor.Tensor // F32 [n, C·Repeats, len(env.Spec.Info)], of each step; 0 after the episode's end
}

// A Rule writes the reward of transition i of b to score[i]. It scores each transition independently, and keeps no
// state, because a resume or a move to another rank makes a new Rule. Each reward worker has its own Rule. It need not
// be safe for concurrent use.
type Rule func(score []float32, b *Batch) error

// A Setup holds what a Rule is made of.
type Setup struct {
	Config Config
	Spec   env.Spec
	Gamma  float32 // discount of a step (algorithm.gamma)
	// BootstrapAlways is true if returns include the value of the last observation even if the episode terminated
	// (algorithm.bootstrap_type always).
	BootstrapAlways bool
	Network         policy.Policy // the network of Config.Model, with its parameters; nil without use_reward_model
	Scorer          *Scorer       // with the network of Config.Model, if it is a classifier of images; else nil
	Rows            int           // maximum number of transitions in a batch
}

// A Builder makes a Rule. Its errors name keys below reward.
type Builder func(Setup) (Rule, error)

// A Registry maps values of Config.RewardType to rules.
type Registry struct{ params.Registry[Builder] }

// Builtin returns a registry with the rules of rlinf. Your own program can add rules.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("env", newEnv)
	r.Add("success", newSuccess)
	r.Add("potential", newPotential)
	return r
}

// Register adds a rule with its own keys under reward; see package params. The constructor gets the
// values of the keys.
func Register[P any](r *Registry, name string, defaults P, build func(Setup, P) (Rule, error)) {
	r.AddOwn(name, params.New(defaults), func(s Setup) (Rule, error) {
		p, err := params.Get(s.Config.Own, defaults)
		if err != nil {
			return nil, err
		}
		return build(s, p)
	})
}

// New makes the Rule that s.Config defines. The Rule computes the weighted sum of a score and the environment's reward.
// The score comes from the network or the named rule. In the mode Terminal, the score is 0 except in the last step of
// an episode.
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

// weigh returns the rule RewardWeight·score + EnvRewardWeight·(the environment's reward).
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
