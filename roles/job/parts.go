package job

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
)

// Examine is NewChecked for a configuration that may have mistakes. It also makes the environments
// and the policy if there are mistakes elsewhere, so that one error reports all.
func Examine(cfg *config.Config, reg config.Registries, nodes []int) (*Job, error) {
	if cfg.FineTunes() {
		return NewChecked(cfg, reg, nodes)
	}
	d := newDraft(cfg, reg, nodes)
	if d.found.Err() == nil {
		return NewChecked(cfg, reg, nodes)
	}
	d.asks = true
	d.tryParts(nodes)
	d.checkAbilities()
	return nil, d.found.Err()
}

// tryParts makes the parts that the configuration names, one of each, to check that they fit one
// another and the memory. It leaves out a part if something is wrong with its own keys.
func (d *draft) tryParts(nodes []int) {
	if d.probe(nodes) {
		d.tryPolicy(nodes)
		d.tryReward()
	}
	if d.Placement != nil {
		d.checkOutside()
	}
	d.readDemos()
}

// probe makes an environment of each kind that the job has, to get its spec. It reports whether the
// policy's is known: that of training, or of evaluations where nothing is trained.
func (d *draft) probe(nodes []int) (known bool) {
	c := d.Config
	if c.Trains() && d.usable("env.train") {
		var err error
		if d.Spec, err = Probe(d.Registries, c.Env.Train); err != nil {
			d.problem("env.train.env_type", c.Env.Train.ID(), "environments that can be made: "+err.Error())
			return false
		}
		if known = d.fitObservations(nodes); !known {
			return false
		}
	}
	if !c.Evaluates() || !d.usable("env.eval") || d.found.Reported("env.eval.total_num_envs") {
		return known
	}
	var err error
	if d.EvalEnv, d.EvalSpec, err = EvalEnv(c, d.Registries); err != nil {
		d.problem("env.eval.env_type", c.Env.Eval.ID(), "environments that can be made: "+err.Error())
	} else if !c.Trains() {
		d.Spec = d.EvalSpec
		return d.fitObservations(nodes)
	}
	return known
}

// fitObservations notes the number of log-probs, and checks that the observations of d.Spec fit into
// the memory.
func (d *draft) fitObservations(nodes []int) bool {
	chunks := d.Config.Actor.Model.NumActionChunks
	if chunks <= 0 {
		return true // reported
	}
	d.logProbs = map[string]int{algo.ChunkLevel: 1, algo.ActionLevel: chunks,
		algo.TokenLevel: chunks * d.Spec.Action.Dim()}[d.Config.Algorithm.LogProbType]
	return d.checkObservations(nodes[len(nodes)-1]+1, AvailableOn(nodes, 0))
}

// usable reports whether an environment of section can be made: nothing is wrong with its keys, but
// for the numbers of environments and steps.
func (d *draft) usable(section string) bool {
	e := &d.Config.Env.Train
	if section == "env.eval" {
		e = &d.Config.Env.Eval
	}
	if e.ID() == env.ExternalID && !d.asks {
		return false
	}
	counts := []string{"total_num_envs", "rollout_epoch", "max_steps_per_rollout_epoch"}
	if section == "env.eval" && d.found.ReportedBeside("env.train", counts...) {
		return false // evaluations inherit these keys
	}
	return !d.found.ReportedBeside(section, counts...) && !d.found.Reported("algorithm.group_size")
}

// tryPolicy makes the policy, to check that it fits the environments, the algorithm and the memory.
func (d *draft) tryPolicy(nodes []int) {
	c := d.Config
	if d.found.Reported("actor.model", "algorithm.logprob_type", "algorithm.reward_type") {
		return
	}
	pol, err := d.Registries.Policies.New(c.PolicyConfig(), d.Spec, c.Actor.Seed, heapWithin(AvailableOn(nodes, 0)))
	if errors.As(err, new(shortage)) {
		d.problem("actor.model.hidden_sizes", c.Actor.Model.HiddenSizes, "a smaller policy: "+err.Error())
		return
	} else if err != nil {
		d.problem("actor.model.model_type", c.Actor.Model.ModelType, "a policy that fits: "+err.Error())
		return
	}
	if c.Trains() && !d.found.Reported("algorithm.adv_type", "algorithm.loss_type") {
		if err := d.Registries.Algorithms.Fits(c.Algorithm.Config, pol); err != nil {
			d.problem("algorithm.loss_type", c.Algorithm.LossType, fmt.Sprintf("an algorithm for %s: this one needs %v",
				d.Spec.Name, err))
			return
		}
	}
	d.memoryLen, d.latentLen, d.paramBytes = policy.HiddenLen(pol), policy.LatentLen(pol), 4*len(pol.Params().Data)
	d.checkSequences()
}

// checkSequences checks that a recurrent policy can be trained on sequences.
func (d *draft) checkSequences() {
	c := d.Config
	if !c.Trains() {
		return
	}
	length, model := c.Algorithm.SequenceLength, c.Actor.Model.ModelType
	if d.memoryLen == 0 {
		d.found.Want(length == 0, "algorithm.sequence_length", length, "0 (model_type "+model+" remembers nothing)")
		return
	}
	d.found.Want(!c.ActionRewards(), "algorithm.reward_type", c.Algorithm.RewardType, "chunk_level (model_type "+model+
		" remembers from chunk to chunk)")
	_, steps := d.knownSamples()
	if steps <= 0 || length < 0 {
		return // reported
	}
	if length == 0 {
		length = steps
	}
	if steps%length != 0 {
		d.problem("algorithm.sequence_length", length, fmt.Sprintf("a divisor of %d (steps of an iteration)", steps))
		return
	}
	micro := c.Actor.MicroBatchSize
	d.found.Want(micro%length == 0, "actor.micro_batch_size", micro,
		fmt.Sprintf("a multiple of %d (steps of a sequence)", length))
}
