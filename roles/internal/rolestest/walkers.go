package rolestest

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/tensor"
)

// A walker moves on a line from 0, and succeeds at exactly 3. Its expert moves 1 per step if the seed is even, else 2,
// which misses 3.
type walker struct{ at, speed []float32 }

func (w *walker) Spec() env.Spec {
	one := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-2}, High: []float32{2}}
	return env.Spec{Name: "walker", Obs: []env.Field{{Name: "state", Space: one}}, Action: one, MaxSteps: 4,
		Info: []string{"success"}}
}
func (w *walker) Len() int { return len(w.at) }
func (w *walker) Reset(n int, seed uint64) error {
	w.at[n], w.speed[n] = 0, float32(1+seed%2)
	return nil
}
func (w *walker) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n, a := range action.F32() {
		if turn[n] != env.Idle {
			w.at[n] += a
			info[n] = 0
			if w.at[n] == 3 {
				info[n] = 1
			}
			reward[n], terminated[n] = w.at[n], byte(info[n])
		}
	}
	return nil
}
func (w *walker) Observe(mask []bool, obs tensor.Dict) {
	for n, x := range w.at {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = x
		}
	}
}
func (w *walker) Act(action tensor.Tensor) error {
	copy(action.F32(), w.speed)
	return nil
}
func (w *walker) Close() error { return nil }

// Walkers returns the built-in registry with one more environment, walker, which has an expert.
func Walkers() *env.Registry {
	r := all.Registry()
	r.Add("walker", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&walker{make([]float32, n), make([]float32, n)}, cfg), nil
	})
	return r
}
