package classic

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// BitFlipKeys are the keys of BitFlip-v1 under init_params.
type BitFlipKeys struct {
	Bits int `yaml:"bits" doc:"Number of bits, and steps of an episode."`
}

// Check validates the keys.
func (k BitFlipKeys) Check(want func(ok bool, key string, value any, want string)) {
	want(k.Bits > 0 && k.Bits <= 1024, "bits", k.Bits, "a number from 1 to 1024")
}

// NewBitFlip makes n environments of BitFlip-v1: bits must become equal to the bits of a goal. Bits and goal are random
// at the start of an episode. Action i flips bit i. The reward is 0 if all bits are those of the goal, which ends the
// episode, and -1 otherwise. So with 20 bits, random actions find no reward, but hindsight learns the task.
//
// Andrychowicz et al. 2017, arXiv:1707.01495, section 3.1.
func NewBitFlip(cfg env.Config, keys BitFlipKeys, n int) (env.Vec, error) {
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	bits := keys.Bits
	space := box(make([]float32, bits), slices.Repeat([]float32{1}, bits))
	return env.NewEpisodic(&bitFlip{
		spec: env.Spec{
			Name: "BitFlip-v1",
			Obs: []env.Field{{Name: env.Observation, Space: space}, {Name: env.AchievedGoal, Space: space},
				{Name: env.DesiredGoal, Space: space}},
			Action: choice(bits), MaxSteps: bits, Returns: &[2]float64{-float64(bits), 0}, Info: []string{env.Success},
			Goal: &env.Goal{Threshold: 0.5, Reward: env.SparseGoal, Terminates: true},
		},
		bits: tensor.New(tensor.F32, n, bits), goal: tensor.New(tensor.F32, n, bits),
	}, cfg), nil
}

// A bitFlip is N environments of BitFlip-v1. Every bit is 0 or 1.
type bitFlip struct {
	spec       env.Spec
	bits, goal tensor.Tensor // F32 [N,bits]
}

// Spec describes one environment.
func (b *bitFlip) Spec() env.Spec { return b.spec }

// Len returns N.
func (b *bitFlip) Len() int { return b.bits.Dim(0) }

// Reset draws the bits and the goal of environment n. The goal always differs from the bits.
func (b *bitFlip) Reset(n int, seed uint64) error {
	r := philox.New(seed, philox.Reset, 0, 0)
	bits, goal := b.row(b.bits, n), b.row(b.goal, n)
	for first := true; first || slices.Equal(bits, goal); first = false {
		for i := range bits {
			bits[i], goal[i] = float32(r.IntN(2)), float32(r.IntN(2))
		}
	}
	return nil
}

// row returns the elements of environment n in t, whose shape is [N,bits].
func (b *bitFlip) row(t tensor.Tensor, n int) []float32 {
	bits := t.Dim(1)
	return t.F32()[n*bits : (n+1)*bits]
}

// Step flips a bit of every environment that is not idle.
func (b *bitFlip) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n, i := range action.I32() {
		if turn[n] == env.Idle {
			continue
		}
		bits := b.row(b.bits, n)
		bits[i] = 1 - bits[i]
		r, reached := b.spec.Goal.Sparse(bits, b.row(b.goal, n))
		reward[n], terminated[n], info[n] = r, bit(reached), float32(bit(reached))
	}
	return nil
}

// Act flips the first bit that differs from the goal.
func (b *bitFlip) Act(action tensor.Tensor) error {
	for n := range b.Len() {
		bits, goal, i := b.row(b.bits, n), b.row(b.goal, n), 0
		for i < len(bits)-1 && bits[i] == goal[i] {
			i++
		}
		action.I32()[n] = int32(i)
	}
	return nil
}

// Observe writes three observations: the bits as observation, the bits again as achieved goal, and the goal.
func (b *bitFlip) Observe(mask []bool, obs tensor.Dict) {
	seen, achieved := obs.Must(env.Observation), obs.Must(env.AchievedGoal)
	desired := obs.Must(env.DesiredGoal)
	for n := range b.Len() {
		if mask == nil || mask[n] {
			copy(b.row(seen, n), b.row(b.bits, n))
			copy(b.row(achieved, n), b.row(b.bits, n))
			copy(b.row(desired, n), b.row(b.goal, n))
		}
	}
}

// Close does nothing.
func (b *bitFlip) Close() error { return nil }

// Save returns copies of the bits and of the goals.
func (b *bitFlip) Save() (d tensor.Dict, err error) {
	d.Set("bits", b.bits.Clone())
	d.Set("goal", b.goal.Clone())
	return d, nil
}

// Load restores what Save returned.
func (b *bitFlip) Load(d tensor.Dict) error {
	for name, to := range map[string]tensor.Tensor{"bits": b.bits, "goal": b.goal} {
		t, ok := d.Get(name)
		if !ok || !t.SameShape(to) {
			return fmt.Errorf("%s: load: %s is %v, expected %v", b.spec.Name, name, t, to)
		}
		to.CopyFrom(t)
	}
	return nil
}
