package classic

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// NewPendulum makes n environments of Pendulum-v1: a pendulum is swung up and kept up by a torque
// too weak to lift it at once. The action is the torque, clipped to ±2. The reward is the negative
// cost. The cost is 0 if the pendulum stands upright at rest without a torque. An episode ends only
// after 200 steps.
func NewPendulum(cfg env.Config, n int) (env.Vec, error) {
	return newVec(task[pendulum, float32]{
		spec: env.Spec{
			Name:     "Pendulum-v1",
			Obs:      []env.Field{{Name: "state", Space: within(1, 1, maxSpin)}},
			Action:   within(maxTorque),
			MaxSteps: 200,
			Returns:  &[2]float64{math.Inf(-1), 0},
		},
		reset: resetPendulum, step: stepPendulum, observe: observePendulum, sketch: sketchPendulum,
		actions: tensor.Tensor.F32, expert: swingUp,
	}, cfg, n)
}

// pendulum is the state of the pendulum: its angle θ from upright [rad], which is not wrapped, and its angular velocity
// ω.
type pendulum [2]float64

const (
	maxTorque = 2.0
	maxSpin   = 8.0
	swingTime = 0.05 // seconds per step
)

func resetPendulum(r *philox.Stream) pendulum {
	return pendulum{r.Uniform(-math.Pi, math.Pi), r.Uniform(-1, 1)}
}

// stepPendulum computes the cost norm(θ)² + 0.1 ω² + 0.001 u², and then moves the pendulum, with g
// = 10 and m = l = 1:
//
//	ω += (3g/2l sin θ + 3/(m l²) u) dt,    θ += ω dt
func stepPendulum(s *pendulum, action float32) (float64, bool) {
	theta, omega := s[0], s[1]
	u := clip(float64(action), -maxTorque, maxTorque)
	norm := wrapAngle(theta)
	cost := norm*norm + 0.1*(omega*omega) + 0.001*(u*u)
	omega = clip(omega+(15*math.Sin(theta)+3*u)*swingTime, -maxSpin, maxSpin)
	*s = pendulum{theta + omega*swingTime, omega}
	return -cost, false
}

// swingUp is the expert. It raises the energy ω²/6 + 5 cos θ to 5.2. The energy of the upright pendulum at rest is 5.
// Near the upright position, swingUp is a linear controller.
func swingUp(s *pendulum) float32 {
	theta, omega := wrapAngle(s[0]), s[1]
	if math.Cos(theta) > 0.9 && math.Abs(omega) < 3 {
		return float32(clip(-10*theta-2.5*omega, -maxTorque, maxTorque))
	}
	return float32(math.Copysign(maxTorque, omega*(5.2-omega*omega/6-5*math.Cos(theta))))
}

// wrapAngle returns x in [-π, π): ((x+π) mod 2π) - π, where the remainder has the divisor's sign.
func wrapAngle(x float64) float64 {
	m := math.Mod(x+math.Pi, 2*math.Pi)
	if m < 0 {
		m += 2 * math.Pi
	}
	return m - math.Pi
}

func observePendulum(s *pendulum, obs []float32) {
	sin, cos := math.Sincos(s[0])
	_ = obs[2]
	obs[0], obs[1], obs[2] = float32(cos), float32(sin), float32(s[1])
}
