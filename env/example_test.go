package env_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/tensor"
)

// Push two carts to the right in every step, and count the steps until their poles fall.
func Example() {
	cfg := env.DefaultConfig()
	cfg.EnvType = "CartPole-v1"
	const n = 2
	vec, err := all.Registry().New(cfg, n)
	if err != nil {
		log.Fatal(err)
	}
	defer vec.Close()
	out := vec.Spec().NewStep(n, 1)
	seeds, episodes := env.NewSeeder(cfg, env.Train, 0, n), env.NewEpisodes(vec.Spec(), 0, n, true)
	if err := vec.Reset(nil, seeds.Next(), out); err != nil {
		log.Fatal(err)
	}
	seeds.Started(nil)

	var action tensor.Dict
	action.Set("action", tensor.FromI32([]int32{1, 1}, n, 1, 1))
	for range 15 {
		if err := vec.Step(action, seeds.Next(), out); err != nil {
			log.Fatal(err)
		}
		episodes.Observe(out)
		seeds.Observe(out)
	}
	for _, e := range episodes.Take() {
		fmt.Printf("environment %d: %d steps, return %v\n", e.Env, e.Len, e.Return)
	}
	// Output:
	// environment 0: 9 steps, return 9
	// environment 1: 9 steps, return 9
}
