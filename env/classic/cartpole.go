package classic

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// NewCartPole makes n environments of CartPole-v1: a pole on a cart is kept upright by pushing the
// cart left (0) or right (1). The reward is 1 for every step. An episode ends when the pole leans
// by more than 12° or the cart is more than 2.4 m from the middle. It also ends after 500 steps,
// which is success.
//
// Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
// control problems", 1983, with the corrected dynamics of Florian 2007 without friction.
func NewCartPole(cfg env.Config, n int) (env.Vec, error) {
	return newVec(task[cartPole, int32]{
		spec: env.Spec{
			Name:     "CartPole-v1",
			Obs:      []env.Field{{Name: "state", Space: within(2*maxX, inf, 2*maxTheta, inf)}},
			Action:   choice(2),
			MaxSteps: 500,
			Returns:  &[2]float64{0, 500},
			Info:     []string{"success"},
		},
		reset: resetCartPole, step: stepCartPole, observe: observeCartPole, sketch: sketchCartPole,
		actions: tensor.Tensor.I32,
		success: func(terminated, timedOut bool) bool { return timedOut && !terminated },
	}, cfg, n)
}

// cartPole is the state x, v, θ, ω: the cart's position [m] and velocity, the pole's angle from upright [rad] and
// angular velocity.
type cartPole [4]float64

const (
	gravity    = 9.8
	poleMass   = 0.1
	totalMass  = 1 + poleMass
	halfLength = 0.5
	poleMoment = poleMass * halfLength // m·l
	force      = 10.0
	tau        = 0.02 // seconds per step

	maxX     = 2.4
	maxTheta = 12 * 2 * math.Pi / 360
)

func resetCartPole(r *philox.Stream) (s cartPole) {
	for i := range s {
		s[i] = r.Uniform(-0.05, 0.05)
	}
	return s
}

// stepCartPole takes one explicit Euler step of
//
//	a = (F + m_p l ω² sin θ) / m
//	ω' = (g sin θ - a cos θ) / (l (4/3 - m_p cos² θ / m)),    v' = a - m_p l ω' cos θ / m
func stepCartPole(s *cartPole, action int32) (float64, bool) {
	x, v, theta, omega := s[0], s[1], s[2], s[3]
	f := -force
	if action == 1 {
		f = force
	}
	sin, cos := math.Sincos(theta)
	a := (f + poleMoment*(omega*omega)*sin) / totalMass
	alpha := (gravity*sin - cos*a) / (halfLength * (4.0/3.0 - poleMass*(cos*cos)/totalMass))
	acc := a - poleMoment*alpha*cos/totalMass
	*s = cartPole{x + tau*v, v + tau*acc, theta + tau*omega, omega + tau*alpha}

	if !fallen(s[0], s[2]) {
		return 1, false
	}
	if fallen(x, theta) { // fell in an earlier step: terminations are ignored
		return 0, true
	}
	return 1, true
}

func fallen(x, theta float64) bool { return math.Abs(x) > maxX || math.Abs(theta) > maxTheta }

func observeCartPole(s *cartPole, obs []float32) {
	_ = obs[3]
	obs[0], obs[1], obs[2], obs[3] = float32(s[0]), float32(s[1]), float32(s[2]), float32(s[3])
}
