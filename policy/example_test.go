package policy_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A policy of two actions computes its features by layers of its own. NewWithEncoder adds actor and critic, and needs
// no backward pass.
func ExampleNewWithEncoder() {
	speed := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}}
	spec := env.Spec{Name: "Car-v0", Obs: []env.Field{{Name: "speed", Space: speed}},
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}}
	layers := nn.Sequence(nn.Input("speed"), nn.Dense(8), nn.Activate(nn.Tanh))
	cfg := policy.DefaultConfig()
	cfg.HiddenSizes = []int{4}
	pol, err := policy.NewWithEncoder(cfg, spec, layers, 1, tensor.Heap)
	if err != nil {
		log.Fatal(err)
	}

	var obs tensor.Dict // of two cars
	obs.Set("speed", tensor.FromF32([]float32{1, 0, 0, 0, 0, 1}, 2, 3))
	noise := policy.Noise{Seed: 1, Env: []uint64{0, 1}, Step: []uint64{0, 0}}
	act, err := pol.Forward(pol.NewWork(2), obs, policy.Sample, noise)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("parameters:", len(pol.Params().Data))
	fmt.Println("shapes: actions", act.Action.Shape(), "log-probs", act.LogProb.Shape(), "values", act.Value.Shape())
	// Output:
	// parameters: 208
	// shapes: actions [2 1 1] log-probs [2 1] values [2 1]
}
