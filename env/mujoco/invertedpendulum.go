package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// InvertedPendulum makes InvertedPendulum-v4 and -v5: a force on a cart, clipped to ±3, must keep a
// pole on the cart upright. The observation is the cart's position, the pole's angle, and their
// velocities. The reward of a step is 1; in v5 it is 0 if the pole falls. An episode ends when the
// pole leans more than 0.2 rad, or after 1000 steps of 0.04 s.
func InvertedPendulum(v Version) env.Constructor { return invertedPendulum(v).constructor() }

func invertedPendulum(v Version) definition {
	return definition{
		name: "InvertedPendulum", file: "invpend.xml", version: v, skip: 2, limit: 1000,
		task: func(m *model, _ float64) task {
			return task{
				reset: func(r *philox.Stream, p *physics) {
					uniform(r, 0.01, p.qpos)
					uniform(r, 0.01, p.qvel)
				},
				step: func(p *physics, _ []float32, _ []float64, _ []float32) (float64, bool) {
					fallen := math.Abs(p.qpos[1]) > 0.2
					return count(!fallen || v == V4), fallen
				},
				views: stateView(m.nq+m.nv, func(p *physics, obs []float64) {
					n := copy(obs, p.qpos)
					copy(obs[n:], p.qvel)
				}),
			}
		},
	}
}
