package classic

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// NewAcrobot makes n environments of Acrobot-v1: two links hang from a fixed joint. Actions 0, 1
// and 2 apply a torque of -1, 0 or 1 at the joint between the links. The goal is to swing the tip
// up to one link length above the fixed joint; this is success. The reward is 0 for the step that
// reaches this height, and -1 for every other step. An episode has at most 500 steps.
//
// The equations are from Sutton and Barto, "Reinforcement Learning", 2nd edition, 2018. They differ
// from Sutton 1996.
func NewAcrobot(cfg env.Config, n int) (env.Vec, error) {
	return newVec(task[acrobot, int32]{
		spec: env.Spec{
			Name:     "Acrobot-v1",
			Obs:      []env.Field{{Name: "state", Space: within(1, 1, 1, 1, maxOmega1, maxOmega2)}},
			Action:   choice(3),
			MaxSteps: 500,
			Returns:  &[2]float64{-500, 0},
			Info:     []string{"success"},
		},
		reset: resetAcrobot, step: stepAcrobot, observe: observeAcrobot, sketch: sketchAcrobot,
		actions: tensor.Tensor.I32, success: arrived,
	}, cfg, n)
}

// acrobot is the state θ1, θ2, ω1, ω2. θ1 is the angle of the first link, 0 if it hangs straight down. θ2 is the angle
// of the second link relative to the first. ω1 and ω2 are the angular velocities.
type acrobot [4]float64

const (
	linkCentre = 0.5 // distance from the joint to a link's centre of mass
	torqueTime = 0.2 // seconds per step

	maxOmega1 = 4 * math.Pi
	maxOmega2 = 9 * math.Pi
)

func resetAcrobot(r *philox.Stream) (s acrobot) {
	for i := range s {
		s[i] = float64(float32(r.Uniform(-0.1, 0.1)))
	}
	return s
}

// stepAcrobot takes one step of the classic fourth-order Runge-Kutta method, then wraps the angles
// and clips the velocities.
func stepAcrobot(s *acrobot, action int32) (float64, bool) {
	torque := float64(action - 1)
	k1 := s.derivative(torque)
	k2 := s.ahead(&k1, torqueTime/2).derivative(torque)
	k3 := s.ahead(&k2, torqueTime/2).derivative(torque)
	k4 := s.ahead(&k3, torqueTime).derivative(torque)
	for i := range s {
		s[i] += torqueTime / 6.0 * (k1[i] + 2*k2[i] + 2*k3[i] + k4[i])
	}
	s[0], s[1] = turnBack(s[0]), turnBack(s[1])
	s[2], s[3] = clip(s[2], -maxOmega1, maxOmega1), clip(s[3], -maxOmega2, maxOmega2)
	if -math.Cos(s[0])-math.Cos(s[1]+s[0]) > 1 {
		return 0, true
	}
	return -1, false
}

// ahead returns s + dt·k.
func (s acrobot) ahead(k *acrobot, dt float64) acrobot {
	for i := range s {
		s[i] += dt * k[i]
	}
	return s
}

// derivative returns ds/dt under a torque τ at the second joint. With l = m = I = 1 and c =
// linkCentre:
//
//	d1 = c² + (l² + c² + 2 l c cos θ2) + 2 I,    d2 = c² + l c cos θ2 + I
//	φ2 = c g cos(θ1+θ2-π/2),    φ1 = -l c ω2² sin θ2 - 2 l c ω2 ω1 sin θ2 + (c+l) g cos(θ1-π/2) + φ2
//	ω2' = (τ + d2/d1 φ1 - l c ω1² sin θ2 - φ2) / (c² + I - d2²/d1),    ω1' = -(d2 ω2' + φ1) / d1
func (s acrobot) derivative(torque float64) acrobot {
	const c, g = linkCentre, gravity
	sin2, cos2 := math.Sincos(s[1])
	w1, w2 := s[2], s[3]
	d1 := c*c + (1 + c*c + 2*c*cos2) + 1 + 1
	d2 := (c*c + c*cos2) + 1
	phi2 := c * g * math.Cos(s[0]+s[1]-math.Pi/2)
	phi1 := -c*(w2*w2)*sin2 - 2*c*w2*w1*sin2 + (c+1)*g*math.Cos(s[0]-math.Pi/2) + phi2
	a2 := (torque + d2/d1*phi1 - c*(w1*w1)*sin2 - phi2) / (c*c + 1 - d2*d2/d1)
	a1 := -(d2*a2 + phi1) / d1
	return acrobot{w1, w2, a1, a2}
}

// turnBack adds multiples of 2π to x until it is in [-π, π].
func turnBack(x float64) float64 {
	for x > math.Pi {
		x -= 2 * math.Pi
	}
	for x < -math.Pi {
		x += 2 * math.Pi
	}
	return x
}

func observeAcrobot(s *acrobot, obs []float32) {
	sin1, cos1 := math.Sincos(s[0])
	sin2, cos2 := math.Sincos(s[1])
	_ = obs[5]
	obs[0], obs[1], obs[2], obs[3], obs[4], obs[5] = float32(cos1), float32(sin1), float32(cos2), float32(sin2),
		float32(s[2]), float32(s[3])
}
