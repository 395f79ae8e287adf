package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/policy"
)

// checkAlgorithmKeys checks actor.critic_optim if the job reads it. It reports given keys of the sections algorithm,
// actor.optim and actor.critic_optim that the job does not read, unless the value is the same as without the key.
func (c *validation) checkAlgorithmKeys() {
	read, reader := c.algorithmKeys()
	learns := c.reg.Learning(c.Config)
	critics := read == nil && (learns.OffPolicy || learns.Offline) // the algorithm may read any key
	if read != nil {
		critics, _ = read.Has("actor.critic_optim.lr")
	}
	if critics && c.found.Has("actor.critic_optim") { // else the mistakes are those of actor.optim
		c.Actor.CriticOptim.Check(c.found.At("actor.critic_optim").Want)
	}
	if read == nil {
		return
	}
	values, without := valuesOf(c.Config), valuesOf(c.withoutAlgorithm())
	for _, f := range config.Fields(c.Config) {
		name, ok := c.declaredName(f.Key)
		ofTexts := f.Owner == reflect.TypeFor[algo.TextConfig]() && !c.Reasons() // idleReasoning reports these keys
		if !ok || ofTexts || f.Section || c.found.Reported(f.Key) {
			continue
		}
		on, setting := read.Has(name)
		if on {
			continue
		}
		note := reader + " does not read it"
		if setting != "" {
			note = "it needs " + setting
		}
		c.idleKey(f.Key, fmt.Sprint(values[f.Key]) != fmt.Sprint(without[f.Key]), f.Value, note)
	}
}

// algorithmKeys returns the keys that the job declares; see algo.Keys. It returns nil if the algorithm declares none.
// reader names the reader of the keys.
func (c *validation) algorithmKeys() (read *algo.Keys, reader string) {
	a := &c.Algorithm
	s := &algo.Setup{Config: a.Config, Optim: c.Actor.Optim, CriticOptim: c.Actor.CriticOptim}
	reader = "loss_type " + a.LossType
	if a.AdvType != a.LossType {
		reader = "adv_type " + a.AdvType + " with " + reader
	}
	switch {
	case c.Reasons():
		read = &algo.Keys{}
		algo.TextKeys(s, &a.Texts, read)
		read.Read("group_size")
	case c.FineTunes(): // a classifier reads the same keys
		read = &algo.Keys{}
		algo.SFTKeys(s, read)
		reader = "task_type " + c.Runner.TaskType
	case c.hasAlgorithm():
		if read, _ = c.reg.Algorithms.Keys(s); read != nil {
			c.readParts(read)
		}
	}
	return read, reader
}

// readParts declares the keys of the algorithm that other parts of an embodied job read or check.
func (c *validation) readParts(read *algo.Keys) {
	// checkAsync, checkOffPolicy and the plan report these keys as mistakes if they have no effect.
	read.Read("staleness_threshold", "demo_buffer.load_path", "sequence_length", "reward_type")
	if c.Places("reward") {
		read.Read("gamma") // of rules that discount
	}
	apart := !slices.Contains(policy.Builtin().Names(), c.Actor.Model.ModelType) // may have a group "vision"
	read.ReadIf(apart, "model_type vla_policy", "actor.optim.vision_lr")
	learns := c.reg.Learning(c.Config)
	if learns.OffPolicy {
		read.ReadIf(c.Runner.Async, "runner.async", "actor.recv_drain_max_trajectories")
	}
	read.ReadIf(!learns.Offline || c.Evaluates(), "evaluations", "group_size")
}

// declaredName returns the name by which algo.Keys declares a key. ok is false for keys that are not declared there.
func (c *validation) declaredName(key string) (name string, ok bool) {
	if strings.HasSuffix(key, ".use_distributed_optimizer") {
		return "", false // idleLayouts reports it
	}
	if own, ok := strings.CutPrefix(key, "algorithm."); ok {
		return own, !c.Algorithm.Own.Has(own)
	}
	for _, section := range []string{"actor.optim.", "actor.critic_optim."} {
		if strings.HasPrefix(key, section) {
			return key, true
		}
	}
	return key, !c.FineTunes() && slices.Contains(algorithmsOfModel, key)
}

// algorithmsOfModel are the keys of other sections that only some algorithms of environments read.
var algorithmsOfModel = []string{"actor.model.num_q_heads", "actor.model.epsilon_start", "actor.model.epsilon_end",
	"actor.model.epsilon_steps", "actor.model.init_log_std", "actor.model.layer_norm", "actor.model.image_num",
	"actor.model.image_size", "actor.model.state_dim", "actor.recv_drain_max_trajectories", "actor.enable_drq"}

// withoutAlgorithm returns a Config whose keys of the algorithm have the defaults that follow from c.
func (c *Config) withoutAlgorithm() *Config {
	d := Default()
	d.Actor.CriticOptim, d.Algorithm.OffPolicy.EntropyTuning.Optim = c.Actor.Optim, c.Actor.Optim
	d.Algorithm.EntropyType = c.Algorithm.LogProbType
	if c.Reasons() {
		eps := c.Algorithm.Texts.RatioClipEps
		d.Algorithm.ClipRatioLow, d.Algorithm.ClipRatioHigh = eps, eps
	}
	return d
}
