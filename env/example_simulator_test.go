package env_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A walk is n walkers on a line. An action is a step; the goal is to be 3 steps from the start.
type walk []int

func (w walk) Spec() env.Spec {
	place := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-9}, High: []float32{9}}
	return env.Spec{Name: "Walk-v0", Obs: []env.Field{{Name: "state", Space: place}}, MaxSteps: 5,
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}}
}
func (w walk) Len() int                       { return len(w) }
func (w walk) Reset(n int, seed uint64) error { w[n] = 0; return nil }
func (w walk) Observe(mask []bool, obs tensor.Dict) {
	for n, at := range w {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = float32(at)
		}
	}
}
func (w walk) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n, a := range action.I32() {
		if turn[n] != env.Idle {
			w[n] += 2*int(a) - 1
			reward[n], terminated[n] = -1, map[bool]byte{true: 1}[w[n] == 3 || w[n] == -3]
		}
	}
	return nil
}
func (w walk) Close() error { return nil }

// A simulator has the dynamics of an environment. NewEpisodic adds its episodes: the first walker reaches the goal, and
// the second walks to and fro until the time limit.
func ExampleNewEpisodic() {
	cfg := env.DefaultConfig()
	vec := env.NewEpisodic(make(walk, 2), cfg)
	defer vec.Close()
	out, seeds := vec.Spec().NewStep(2, 1), env.NewSeeder(cfg, env.Train, 0, 2)
	if err := vec.Reset(nil, seeds.Next(), out); err != nil {
		log.Fatal(err)
	}
	for i := range int32(5) {
		var action tensor.Dict
		action.Set("action", tensor.FromI32([]int32{1, i % 2}, 2, 1, 1))
		if err := vec.Step(action, seeds.Next(), out); err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Obs.Must("state").F32(), out.Terminated.U8(), out.Truncated.U8())
	}
	// Output:
	// [1 -1] [0 0] [0 0]
	// [2 0] [0 0] [0 0]
	// [0 -1] [1 0] [0 0]
	// [1 0] [0 0] [0 0]
	// [2 0] [0 0] [0 1]
}
