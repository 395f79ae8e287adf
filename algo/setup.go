package algo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Setup is what an Algorithm is made of.
type Setup struct {
	Config      Config
	Optim       OptimConfig
	GlobalBatch int // samples in one optimiser step, over all replicas (actor.global_batch_size)
	MicroBatch  int // samples evaluated at once; gradients add up to the global batch (actor.micro_batch_size). 0: all of a replica's
	Seed        uint64
	Iterations  int // length of the run, where schedules without an end of their own end

	GroupSize   int // so many successive environments begin with the same states (env.train.group_size); 0 is 1
	Steps, Envs int // T and N of this replica's rollouts
	Policy      policy.Policy
	Reducer     Reducer          // nil: Single
	Alloc       tensor.Allocator // memory of buffers and optimiser; nil: tensor.Heap
}

// A Registry makes Algorithms by adv_type and loss_type.
type Registry struct{ entries []entry }

type entry struct {
	advType, lossType string
	build             func(Setup) (Algorithm, error)
}

// Builtin returns the algorithms that come with rlinf: a new one is one file and one line here; your own main adds its own.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("gae", "actor_critic", func(s Setup) (Algorithm, error) { return NewPPO(s) })
	r.Add("gae", "actor", func(s Setup) (Algorithm, error) { return NewPPO(s) })
	r.Add("gae", "a2c", func(s Setup) (Algorithm, error) { return NewPPO(s) })
	r.Add("grpo", "actor", func(s Setup) (Algorithm, error) { return NewGRPO(s) })
	r.Add("reinpp", "actor", func(s Setup) (Algorithm, error) { return NewReinforce(s) })
	return r
}

// Add adds an algorithm. A pair that is there already panics.
func (r *Registry) Add(advType, lossType string, build func(Setup) (Algorithm, error)) {
	if r.find(advType, lossType) != nil {
		panic(fmt.Sprintf("algo: %s with %s twice", advType, lossType))
	}
	r.entries = append(r.entries, entry{advType, lossType, build})
}

// Check checks that there is an algorithm for the pair.
func (r *Registry) Check(c Config, want Want) {
	var adv, loss []string
	for _, e := range r.entries {
		if !slices.Contains(adv, e.advType) {
			adv = append(adv, e.advType)
		}
		if e.advType == c.AdvType {
			loss = append(loss, e.lossType)
		}
	}
	if !slices.Contains(adv, c.AdvType) {
		want(false, "adv_type", c.AdvType, "one of "+strings.Join(adv, ", "))
		return
	}
	want(slices.Contains(loss, c.LossType), "loss_type", c.LossType,
		fmt.Sprintf("one of %s (with adv_type %s)", strings.Join(loss, ", "), c.AdvType))
}

// New makes the algorithm that s.Config names. An unknown pair is an error that lists the known ones.
func (r *Registry) New(s Setup) (Algorithm, error) {
	e := r.find(s.Config.AdvType, s.Config.LossType)
	if e == nil {
		var known []string
		for _, e := range r.entries {
			known = append(known, e.advType+" with "+e.lossType)
		}
		return nil, fmt.Errorf("algorithm: no adv_type %s with loss_type %s, want one of: %s",
			s.Config.AdvType, s.Config.LossType, strings.Join(known, ", "))
	}
	return e.build(s)
}

func (r *Registry) find(advType, lossType string) *entry {
	for i := range r.entries {
		if e := &r.entries[i]; e.advType == advType && e.lossType == lossType {
			return e
		}
	}
	return nil
}
