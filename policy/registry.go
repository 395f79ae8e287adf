package policy

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A Builder makes a policy for the observations and actions of spec, with initial parameters that
// depend on seed alone, in memory from alloc.
type Builder func(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error)

// A Registry maps Config.ModelType to builders. The zero Registry is empty.
type Registry struct {
	names    []string
	builders []Builder
}

// Builtin returns a registry of the policies of this package; a main of your own adds to it.
func Builtin() *Registry {
	r := new(Registry)
	r.Add("mlp_policy", NewMLP)
	r.Add("cnn_policy", NewCNN)
	r.Add(rnnPolicy, NewRNN)
	return r
}

// Add enters a builder. A name that stands already panics.
func (r *Registry) Add(name string, b Builder) {
	if r.builder(name) != nil {
		panic(fmt.Sprintf("policy: two policies %q", name))
	}
	r.names, r.builders = append(r.names, name), append(r.builders, b)
}

// Names returns the names in the order in which they were added.
func (r *Registry) Names() []string { return append([]string(nil), r.names...) }

// New makes the policy that cfg.ModelType names.
func (r *Registry) New(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	b := r.builder(cfg.ModelType)
	if b == nil {
		return nil, fmt.Errorf("policy: model_type: %q: want one of %s", cfg.ModelType, strings.Join(r.names, ", "))
	}
	return b(cfg, spec, seed, alloc)
}

func (r *Registry) builder(name string) Builder {
	for i, n := range r.names {
		if n == name {
			return r.builders[i]
		}
	}
	return nil
}
