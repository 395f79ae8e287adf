package rolestest

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/tensor"
)

// A blinker ignores actions, and ends after 10 steps. It reports success in step 4 if its seed is even, and also in
// step 10 if 4 divides the seed. The info "x" is the number of the step.
type blinker struct {
	seed  []uint64
	steps []float32
}

func (b *blinker) Spec() env.Spec {
	one := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	return env.Spec{Name: "blinker", Obs: []env.Field{{Name: "state", Space: one}}, Action: one, MaxSteps: 10,
		Info:  []string{env.TaskNumber, env.Success, env.WrongObject, env.ToldObject, "x"},
		Tasks: []string{"low", "high"}}
}
func (b *blinker) Len() int { return len(b.seed) }
func (b *blinker) Reset(n int, seed uint64) error {
	b.seed[n], b.steps[n] = seed, 0
	return nil
}
func (b *blinker) Step(_ tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, info []float32) error {
	for n, t := range turn {
		if t == env.Idle {
			continue
		}
		b.steps[n]++
		says := func(step, divisor int) float32 {
			if int(b.steps[n]) == step && b.seed[n]%uint64(divisor) == 0 {
				return 1
			}
			return 0
		}
		reward[n], terminated[n] = b.steps[n], 0
		task := float32(b.seed[n] >> 63)
		copy(info[5*n:], []float32{task, says(4, 2) + says(10, 4), says(5, 2), says(1, 3), b.steps[n]})
	}
	return nil
}
func (b *blinker) Observe(mask []bool, obs tensor.Dict) {
	for n, x := range b.steps {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = x / 10
		}
	}
}
func (b *blinker) Close() error { return nil }

// Blinkers returns the built-in registry with one more environment, blinker.
func Blinkers() *env.Registry {
	r := all.Registry()
	r.Add("blinker", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&blinker{make([]uint64, n), make([]float32, n)}, cfg), nil
	})
	return r
}
