package classic

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// NewMountainCar makes n environments of MountainCar-v0: a car too weak for the hill in front of it
// gathers speed by swinging in the valley. The actions push left (0), not at all (1) or right (2).
// The reward is -1 for every step. An episode ends with success at the top (position 0.5), or after
// 200 steps.
//
// Moore, "Efficient memory-based learning for robot control", 1990.
func NewMountainCar(cfg env.Config, n int) (env.Vec, error) {
	return newVec(task[car, int32]{
		spec: env.Spec{
			Name:     "MountainCar-v0",
			Obs:      []env.Field{{Name: "state", Space: carSpace()}},
			Action:   choice(3),
			MaxSteps: 200,
			Returns:  &[2]float64{-200, 0},
			Info:     []string{"success"},
		},
		reset: resetCar, step: stepMountainCar, observe: observeCar, sketch: sketchCar, actions: tensor.Tensor.I32,
		success: arrived,
	}, cfg, n)
}

// NewMountainCarContinuous makes n environments of MountainCarContinuous-v0: the same valley, but
// the top is at 0.45 and the push has any strength up to 1 in either direction. The reward of a
// step is -0.1 a², where a is the action before clipping. At the top, 100 is added. An episode has
// at most 999 steps.
func NewMountainCarContinuous(cfg env.Config, n int) (env.Vec, error) {
	return newVec(task[car, float32]{
		spec: env.Spec{
			Name:     "MountainCarContinuous-v0",
			Obs:      []env.Field{{Name: "state", Space: carSpace()}},
			Action:   within(1),
			MaxSteps: 999,
			Returns:  &[2]float64{math.Inf(-1), 100},
			Info:     []string{"success"},
		},
		reset: resetCar, step: stepMountainCarContinuous, observe: observeCar, sketch: sketchCar,
		actions: tensor.Tensor.F32, success: arrived,
	}, cfg, n)
}

// car is the state of a car in the valley sin(3x): its position and its velocity.
type car [2]float64

const (
	minPos, maxPos = -1.2, 0.6
	maxSpeed       = 0.07
)

func carSpace() env.Space { return box([]float32{minPos, -maxSpeed}, []float32{maxPos, maxSpeed}) }

func arrived(terminated, _ bool) bool { return terminated }

func resetCar(r *philox.Stream) car { return car{r.Uniform(-0.6, -0.4), 0} }

// drive moves the car one step: v += push - 0.0025 cos 3p, then p += v. The wall on the left stops
// the car.
func (s *car) drive(push float64) {
	p, v := s[0], s[1]
	v = clip(v+(push-0.0025*math.Cos(3*p)), -maxSpeed, maxSpeed)
	p = clip(p+v, minPos, maxPos)
	if p == minPos && v < 0 {
		v = 0
	}
	*s = car{p, v}
}

func stepMountainCar(s *car, action int32) (float64, bool) {
	s.drive(float64(action-1) * 0.001)
	return -1, s[0] >= 0.5 && s[1] >= 0
}

// stepMountainCarContinuous rounds the state to float32 after each step, as Gymnasium does. It
// tests for the top before it rounds.
func stepMountainCarContinuous(s *car, action float32) (float64, bool) {
	a := float64(action)
	s.drive(clip(a, -1, 1) * 0.0015)
	top := s[0] >= 0.45 && s[1] >= 0
	*s = car{float64(float32(s[0])), float64(float32(s[1]))}
	reward := -0.1 * (a * a)
	if top {
		reward += 100
	}
	return reward, top
}

func observeCar(s *car, obs []float32) {
	_ = obs[1]
	obs[0], obs[1] = float32(s[0]), float32(s[1])
}
