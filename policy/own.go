package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// NewWithEncoder makes a policy with your own encoder. The layers in encoder compute features from the observations of
// spec; nn.Input and nn.Embed select an observation by its name. Hidden layers, heads and critic follow as in
// mlp_policy. With Config.NormalizeObservations the encoder gets normalised numbers. If the encoder has recurrent
// cells, the policy carries their state (Recurrent). With Config.AddQHead the policy is a SoftActor, or for discrete
// actions a Greedy; otherwise it is an ActorCritic.
//
//	func newOwn(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
//		encoder := nn.Sequence(nn.Input("state"), nn.Dense(64), nn.Activate(nn.Tanh), nn.GRU(32))
//		return policy.NewWithEncoder(cfg, spec, encoder, seed, alloc)
//	}
//
// The layers compute their own gradients. policytest.Encoder checks the gradients of an encoder.
func NewWithEncoder(cfg Config, spec env.Spec, encoder nn.Layer, seed uint64, alloc tensor.Allocator) (Policy, error) {
	if err := cfg.Valid(); err != nil {
		return nil, err
	}
	if cfg.Encoder != "" {
		return nil, fmt.Errorf("policy: for %s: encoder: %s: expected none: this policy has its own encoder", spec.Name,
			cfg.Encoder)
	}
	return build(cfg, spec, &encoder, seed, alloc)
}

// Sources returns the inputs that the layers of an encoder for spec can refer to by name.
func Sources(spec env.Spec) ([]nn.Source, error) {
	o, err := newObservations(spec, DefaultConfig(), new(nn.Layer), new(nn.Params[float32]))
	if err != nil {
		return nil, fmt.Errorf("policy: for %s: %w", spec.Name, err)
	}
	return o.sources(), nil
}

// ownEncoder is Config.Encoder of a policy with the user's own features.
const ownEncoder = "own"
