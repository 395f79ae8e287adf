package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/tensor"
)

// A Builder makes a policy for the observations and actions of spec, with initial parameters that
// depend on seed alone, in memory from alloc.
type Builder func(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error)

// A Registry maps Config.ModelType to builders. The zero Registry is empty.
type Registry struct {
	names    []string
	builders []Builder
	owns     []params.Own // their keys under actor.model, with their defaults
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
	r.names, r.builders, r.owns = append(r.names, name), append(r.builders, b), append(r.owns, params.Own{})
}

// Register enters a builder of a policy with keys of its own under actor.model; see package params.
// build gets their values.
func Register[P any](r *Registry, name string, defaults P,
	build func(cfg Config, own P, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error)) {
	own := params.New(defaults)
	r.Add(name, func(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
		p, err := params.Get(cfg.Own, defaults)
		if err != nil {
			return nil, fmt.Errorf("policy: model_type %s: %w", name, err)
		}
		return build(cfg, p, spec, seed, alloc)
	})
	r.owns[len(r.owns)-1] = own
}

// Own returns the keys that a policy has beyond Config's, with their defaults.
func (r *Registry) Own(name string) params.Own {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.owns[i]
	}
	return params.Own{}
}

// Owner returns the name of the policy that has a key of its own of that name, or "".
func (r *Registry) Owner(key string) string {
	for i, own := range r.owns {
		if own.Has(key) {
			return "model_type " + r.names[i]
		}
	}
	return ""
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
