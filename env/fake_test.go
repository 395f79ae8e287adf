package env_test

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// counter is a Simulator whose results are easy to predict. The state of an environment is its seed + 0.01 per step,
// and the observation is the state. The reward is the action. An action of 100 or more ends the episode, and an action
// above 50 is a success.
type counter struct {
	state  []float32
	closed bool
}

var (
	_ env.Simulator = (*counter)(nil)
	_ env.Saver     = (*counter)(nil)
)

func newCounter(cfg env.Config, n int) *env.Episodic {
	return env.NewEpisodic(&counter{state: make([]float32, n)}, cfg)
}

func (c *counter) Spec() env.Spec {
	real := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1000}, High: []float32{1000}}
	return env.Spec{Name: "Counter", Obs: []env.Field{{Name: "state", Space: real}}, Action: real, MaxSteps: 5,
		Info: []string{"success"}}
}

func (c *counter) Len() int { return len(c.state) }

func (c *counter) Reset(n int, seed uint64) error { c.state[n] = float32(seed); return nil }

func (c *counter) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n, a := range action.F32() {
		if turn[n] != env.Idle {
			c.state[n] += 0.01
			reward[n], terminated[n], info[n] = a, 0, 0
			if a >= 100 {
				terminated[n] = 1
			}
			if a > 50 {
				info[n] = 1
			}
		}
	}
	return nil
}

func (c *counter) Observe(mask []bool, obs tensor.Dict) {
	for n := range c.state {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = c.state[n]
		}
	}
}

func (c *counter) Close() error { c.closed = true; return nil }

func (c *counter) Save() (tensor.Dict, error) {
	var d tensor.Dict
	d.Set("state", tensor.FromF32(c.state, len(c.state)).Clone())
	return d, nil
}

func (c *counter) Load(d tensor.Dict) error {
	copy(c.state, d.Must("state").F32())
	return nil
}

// actions returns rows of one action each, [len(rows)/k, k, 1].
func actions(k int, rows ...float32) tensor.Dict {
	var d tensor.Dict
	d.Set("action", tensor.FromF32(rows, len(rows)/k, k, 1))
	return d
}

// begin resets all of v with the seeds, and returns buffers for chunks of k.
func begin(t *testing.T, v env.Vec, k int, seeds ...uint64) *env.Step {
	t.Helper()
	out := v.Spec().NewStep(v.Len(), k)
	test.OK(t, v.Reset(nil, seeds, out))
	return out
}

func step(t *testing.T, v env.Vec, out *env.Step, action tensor.Dict, seeds ...uint64) {
	t.Helper()
	test.OK(t, v.Step(action, seeds, out))
}

func wantF32(t *testing.T, what string, got tensor.Tensor, want ...float32) {
	t.Helper()
	if len(got.F32()) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got.F32(), want)
	}
	for i, w := range want {
		if d := got.F32()[i] - w; d > 1e-4 || d < -1e-4 {
			t.Fatalf("%s: %v, want %v", what, got.F32(), want)
		}
	}
}

func wantU8(t *testing.T, what string, got tensor.Tensor, want ...byte) {
	t.Helper()
	if string(got.U8()) != string(want) {
		t.Fatalf("%s: %v, want %v", what, got.U8(), want)
	}
}
