package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/reward/answer"
)

// parts finds the additional keys of registered environments, policies, rewards and algorithms, while a configuration
// is read.
type parts struct {
	Registries
	evalApart bool            // env.eval and env.train name different environments
	unknown   map[string]bool // sections that name a part that is not in the registries
}

// choose adds the keys of the named parts to c, with their defaults. valueOf returns the value of a key.
func (p *parts) choose(c *Config, valueOf func(key string) (string, bool)) {
	name := func(otherwise string, keys ...string) string {
		for _, key := range keys {
			if v, ok := valueOf(key); ok && v != "" {
				return v
			}
		}
		return otherwise
	}
	p.unknown = map[string]bool{}

	a := c.Algorithm.Config
	a.AdvType, a.LossType = name(a.AdvType, advType), name(a.LossType, lossType)
	c.Algorithm.Own = p.Algorithms.Own(a.AdvType, a.LossType).Clone()
	p.unknown["algorithm"] = !p.Algorithms.Has(a)

	model := func(section, otherwise string) params.Own {
		of := name(otherwise, section+".model_type")
		p.unknown[section] = !slices.Contains(p.Policies.Names(), of)
		return p.Policies.Own(of).Clone()
	}
	c.Actor.Model.Own = model("actor.model", c.Actor.Model.ModelType)
	if of := name("", "actor.model.model_type"); isLanguageModel(of) {
		c.Actor.Model.Own, p.unknown["actor.model"] = languageModel(of), false
	} else if of == reward.ResNet && name("", "runner.task_type") == TaskSFT {
		c.Actor.Model.Own, p.unknown["actor.model"] = classifier(), false
	}
	c.Reward.Model.Own = model("reward.model", c.Reward.Model.ModelType)
	if of := name("", "reward.model.model_type"); of == cnnPolicy { // model_path is that of its parameters
		c.Reward.Model.Own = params.Own{}
	} else if of == reward.ResNet {
		c.Reward.Model.Own, p.unknown["reward.model"] = reward.DefaultImages(), false
	}

	environment := func(section, of string) params.Own {
		p.unknown[section+".init_params"] = of != env.ExternalID && p.Envs.Find(of) != nil
		return p.Envs.Own(of).Clone()
	}
	train := name("", "env.train.init_params.id", "env.train.env_type")
	eval := name("", "env.eval.init_params.id", "env.train.init_params.id", "env.eval.env_type", "env.train.env_type")
	c.Env.Train.InitParams.Own, c.Env.Eval.InitParams.Own = environment("env.train", train),
		environment("env.eval", eval)
	p.evalApart = train != eval

	if task := name("", "runner.task_type"); task == TaskReasoning {
		of, rules := name(answer.Default, "reward.reward_type"), p.AnswerRules()
		c.Reward.RewardType, c.Reward.Own = answer.Default, rules.Own(of).Clone()
		p.unknown["reward"] = !slices.Contains(rules.Names(), of)
	} else if p.Rewards != nil {
		of := name(c.Reward.RewardType, "reward.reward_type")
		c.Reward.Own = p.Rewards.Own(of).Clone()
		p.unknown["reward"] = !slices.Contains(p.Rewards.Names(), of)
	}
}

// Standalone reports whether a reward model scores training environments on the ranks of their env workers.
func (c *Config) Standalone() bool {
	return c.Reward.UseRewardModel && c.Reward.StandaloneRealworld && c.Trains() && !c.FineTunes()
}

// PolicySpec returns s as the policy sees it. A policy of numbers does not see the images that a reward model scores;
// unseen is the name of this observation, or "".
func (c *Config) PolicySpec(s env.Spec) (seen env.Spec, unseen string) {
	if _, images := c.Reward.Images(); !images || !c.Reward.UseRewardModel ||
		!slices.Contains([]string{"mlp_policy", "rnn_policy"}, c.Actor.Model.ModelType) {
		return s, ""
	}
	camera, err := reward.ClassifierInputOf(s)
	if err != nil {
		return s, ""
	}
	s.Obs = slices.DeleteFunc(slices.Clone(s.Obs), func(f env.Field) bool { return f.Name == camera.Name })
	return s, camera.Name
}

// owner returns a registered part with the key. No chosen part has the key. If the name of the chosen part is unknown,
// owner returns "" and true, because the key may belong to the part that the user meant.
func (p *parts) owner(key string) (part string, ok bool) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", false
	}
	section, name := key[:i], key[i+1:]
	switch section {
	case "algorithm":
		part = p.Algorithms.Owner(name)
	case "actor.model", "reward.model":
		part = named("model_type", p.Policies.PartWith(name))
	case "env.train.init_params", "env.eval.init_params":
		part = named("env_type", p.Envs.PartWith(name))
	case "reward":
		if p.Rewards != nil {
			part = named("reward_type", cmp.Or(p.Rewards.PartWith(name), p.AnswerRules().PartWith(name)))
		}
	}
	if ok = part != ""; ok && p.unknown[section] {
		return "", true
	}
	return part, ok
}

// named returns a text such as "env_type CartPole-v1" from a key and the part that the key names. It returns "" if part
// is "".
func named(key, part string) string {
	if part == "" {
		return ""
	}
	return key + " " + part
}

// An OwnKey is a key of a user's own part, with its value and origin.
type OwnKey = config.OwnKey

// OwnKeys returns the keys of users' own parts in c, with their values.
func (c *Config) OwnKeys() []OwnKey {
	keys := c.found.Own(c)
	for i := range keys {
		k := &keys[i]
		if rest, eval := strings.CutPrefix(k.Key, "env.eval."); eval && k.Origin == "" {
			at := slices.IndexFunc(keys, func(o config.OwnKey) bool { return o.Key == "env.train."+rest })
			if at >= 0 && keys[at].Value == k.Value {
				k.Origin = keys[at].Origin
			}
		}
		k.Origin = cmp.Or(k.Origin, "default")
	}
	return keys
}
