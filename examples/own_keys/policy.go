package main

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// layersKeys are the keys of the policy "layers", in the section actor.model.
type layersKeys struct {
	Width int `yaml:"my_width" doc:"Width of the layer in front of actor and critic."`
}

func (k layersKeys) Check(want func(ok bool, key string, value any, want string)) {
	want(k.Width > 0 && k.Width <= 1024, "my_width", k.Width, "a width from 1 to 1024")
}

// addLayers adds the policy "layers": an actor-critic with its own feature layers.
func addLayers(r *policy.Registry) {
	policy.Register(r, "layers", layersKeys{Width: 16}, newLayers)
}

func newLayers(cfg policy.Config, keys layersKeys, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy,
	error) {
	return policy.NewWithEncoder(cfg, spec, features(keys.Width), seed, alloc)
}

// features returns the layers in front of actor and critic.
func features(width int) nn.Layer {
	return nn.Sequence(nn.Input("state"), nn.Dense(width), nn.Activate(nn.Tanh))
}
