package all_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/tensor"
)

// Two CartPoles are pushed to the right until both poles have fallen. An environment that is over
// begins anew at once and keeps its last observation in FinalObs.
func Example() {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.TotalNumEnvs = "CartPole-v1", 2
	vec, err := all.Registry().New(cfg, 2)
	if err != nil {
		log.Fatal(err)
	}
	spec := vec.Spec()
	step, seeds := spec.NewStep(2, 1), []uint64{1, 2}
	if err := vec.Reset(nil, seeds, step); err != nil {
		log.Fatal(err)
	}
	var action tensor.Dict
	action.Set("action", tensor.FromI32([]int32{1, 1}, 2, 1, 1))
	over, rewards := [2]bool{}, float32(0)
	for !over[0] || !over[1] {
		if err := vec.Step(action, seeds, step); err != nil {
			log.Fatal(err)
		}
		for n := range 2 {
			over[n] = over[n] || step.Terminated.U8()[n] != 0
		}
		rewards += step.Reward.F32()[0]
	}
	fmt.Println(spec.Name, len(step.Obs.Must("state").F32()), rewards > 8)
	// Output: CartPole-v1 8 true
}
