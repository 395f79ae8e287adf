package mujoco

import (
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// Hopper makes Hopper-v4 and -v5: one leg of four links in a plane must hop forward. The
// observation is the positions of the robot's 6 degrees of freedom without x, and their velocities,
// clipped to ±10. The action is 3 torques, clipped to ±1. An episode has 1000 steps of 0.008 s.
//
//	reward = Δx/Δt + 1 - 0.001 Σ a²,    v5: 1 only while the hopper is healthy
//
// The hopper is healthy while z > 0.7, |angle| < 0.2, and all other positions and velocities are
// within ±100; otherwise the episode ends.
//
// Erez, Tassa and Todorov, "Infinite-horizon model predictive control for periodic tasks with
// contacts", 2011.
func Hopper(v Version) env.Constructor { return hopper(v).constructor() }

func hopper(v Version) definition {
	return definition{
		name: "Hopper", file: "hopper.xml", version: v, skip: 4, limit: 1000,
		task: func(m *model, dt float64) task {
			well := func(p *physics) bool {
				z, angle := p.qpos[1], p.qpos[2]
				return z > 0.7 && -0.2 < angle && angle < 0.2 && within(p.qpos[2:], 100) && within(p.qvel, 100)
			}
			return walker(m, dt, v, well)
		},
	}
}

// walker returns the task of Hopper and Walker2d: move forward in the plane and stay healthy.
// isHealthy reports whether the robot is healthy.
func walker(m *model, dt float64, v Version, isHealthy func(p *physics) bool) task {
	return task{
		reset: func(r *philox.Stream, p *physics) {
			uniform(r, 0.005, p.qpos)
			uniform(r, 0.005, p.qvel)
		},
		memory: 1, prepare: progress,
		step: func(p *physics, action []float32, note []float64, _ []float32) (float64, bool) {
			well := isHealthy(p)
			reward := (p.qpos[0]-note[0])/dt + count(well || v == V4)
			return reward - 0.001*effort(action), !well
		},
		views: stateView(m.nq-1+m.nv, func(p *physics, obs []float64) {
			n := copy(obs, p.qpos[1:])
			for i, w := range p.qvel {
				obs[n+i] = clip(w, 10)
			}
		}),
	}
}

// within reports whether all elements of x are between -limit and limit.
func within(x []float64, limit float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return !(-limit < v && v < limit) })
}
