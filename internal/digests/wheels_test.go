package digests

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// wheels are environments that an action turns. The observation is an image of 8×8 pixels with the position of the
// wheel, or numbers with the position and a mask of the allowed actions. An action is rewarded if it is the quarter in
// which the wheel stands; the opposite quarter ends the episode.
type wheels struct {
	masked bool
	at     []int32 // in [0, places)
}

const (
	places  = 16
	actions = 4
	size    = 8 // of the image
)

func newWheels(masked bool) env.Constructor {
	return func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&wheels{masked: masked, at: make([]int32, n)}, cfg), nil
	}
}

func (w *wheels) Spec() env.Spec {
	spec := env.Spec{
		Name: "Image-v0", Obs: []env.Field{{Name: "image", Space: box(tensor.U8, 255, size, size, 1)}}, MaxSteps: 6,
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{actions}},
	}
	if w.masked {
		spec.Name = "Masked-v0"
		spec.Obs = []env.Field{{Name: env.ActionMask, Space: box(tensor.U8, 1, actions)},
			{Name: "state", Space: box(tensor.F32, 1, 2)}}
	}
	return spec
}

// box is a space of numbers from 0 to high.
func box(dtype tensor.DType, high float32, shape ...int) env.Space {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	s := env.Space{Kind: env.Box, DType: dtype, Shape: shape, Low: make([]float32, n), High: make([]float32, n)}
	for i := range s.High {
		s.High[i] = high
	}
	return s
}

func (w *wheels) Len() int { return len(w.at) }

func (w *wheels) Reset(n int, seed uint64) error {
	w.at[n] = int32(seed % places)
	return nil
}

// allows reports whether an environment that stands at a place takes an action.
func (w *wheels) allows(at, action int32) bool { return !w.masked || action != (at+1)%actions }

func (w *wheels) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n, a := range action.I32() {
		if turn[n] == env.Idle {
			continue
		}
		at := w.at[n]
		if !w.allows(at, a) {
			return fmt.Errorf("environment %d: action %d is not allowed at %d", n, a, at)
		}
		reward[n], terminated[n] = 0, 0
		switch quarter := at / (places / actions); a {
		case quarter:
			reward[n] = 1
		case (quarter + actions/2) % actions:
			terminated[n] = 1
		}
		w.at[n] = (5*at + a + 1) % places
	}
	return nil
}

func (w *wheels) Observe(mask []bool, obs tensor.Dict) {
	for n, at := range w.at {
		if mask != nil && !mask[n] {
			continue
		}
		if !w.masked {
			img := obs.Must("image").U8()[n*size*size:][:size*size]
			for i := range img {
				img[i] = uint8(i % 50)
			}
			img[4*at], img[4*at+1] = 255, 150
			continue
		}
		state := obs.Must("state").F32()[2*n:]
		state[0], state[1] = float32(at/actions)/actions, float32(at%actions)/actions
		for a := range int32(actions) {
			obs.Must(env.ActionMask).U8()[actions*int32(n)+a] = 0
			if w.allows(at, a) {
				obs.Must(env.ActionMask).U8()[actions*int32(n)+a] = 1
			}
		}
	}
}

// Save returns the positions of the wheels.
func (w *wheels) Save() (d tensor.Dict, err error) {
	at := tensor.New(tensor.I32, len(w.at))
	copy(at.I32(), w.at)
	d.Set("at", at)
	return d, nil
}

// Load restores the positions that Save returned.
func (w *wheels) Load(d tensor.Dict) error {
	copy(w.at, d.Must("at").I32())
	return nil
}

func (w *wheels) Close() error { return nil }
