package policy

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/tensor"
)

// A Builder makes a policy for the observations and actions of spec. The initial parameters depend only
// on seed, and lie in memory from alloc.
type Builder func(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error)

// A Registry maps values of Config.ModelType to builders. The zero Registry is empty.
type Registry struct{ params.Registry[Builder] }

// Builtin returns a registry of the policies of this package. Your own main can add policies to it.
func Builtin() *Registry {
	r := new(Registry)
	r.Add("mlp_policy", NewMLP)
	r.AddOwn("cnn_policy", params.New(Backbone{}), NewCNN)
	r.Add(rnnPolicy, NewRNN)
	return r
}

// Register adds a builder to r, for a policy with additional keys under actor.model (see package params). The function
// build gets the values of these keys.
func Register[P any](r *Registry, name string, defaults P,
	build func(cfg Config, keys P, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error)) {
	r.AddOwn(name, params.New(defaults), func(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy,
		error) {
		p, err := params.Get(cfg.Own, defaults)
		if err != nil {
			return nil, fmt.Errorf("policy: model_type %s: %w", name, err)
		}
		return build(cfg, p, spec, seed, alloc)
	})
}

// New makes the policy that cfg.ModelType names.
func (r *Registry) New(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	build, ok := r.Builder(cfg.ModelType)
	if !ok {
		return nil, fmt.Errorf("policy: model_type: %q: expected one of %s", cfg.ModelType, strings.Join(r.Names(),
			", "))
	}
	return build(cfg, spec, seed, alloc)
}
