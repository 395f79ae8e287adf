package mujoco

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// HalfCheetah makes HalfCheetah-v4 and -v5, which are the same: a runner of seven links in a plane must run fast. The
// observation is the positions of the runner's 9 degrees of freedom without x, and their velocities. The action is 6
// torques, clipped to ±1. An episode ends only after 1000 steps of 0.05 s.
//
//	reward = Δx/Δt - 0.1 Σ a²
//
// Wawrzyński, "A cat-like robot real-time learning to run", 2009.
func HalfCheetah(v Version) env.Constructor { return halfCheetah(v).constructor() }

func halfCheetah(v Version) definition {
	return definition{
		name: "HalfCheetah", file: "cheetah.xml", version: v, skip: 5, limit: 1000,
		task: func(m *model, dt float64) task {
			return task{
				reset: func(r *philox.Stream, p *physics) {
					uniform(r, 0.1, p.qpos)
					normal(r, 0.1, p.qvel)
				},
				memory: 1, prepare: progress,
				step: func(p *physics, action []float32, note []float64, _ []float32) (float64, bool) {
					return (p.qpos[0]-note[0])/dt - 0.1*effort(action), false
				},
				views: stateView(m.nq-1+m.nv, func(p *physics, obs []float64) {
					n := copy(obs, p.qpos[1:])
					copy(obs[n:], p.qvel)
				}),
			}
		},
	}
}

// progress writes the x position of a runner in the plane to note.
func progress(p *physics, note []float64) { note[0] = p.qpos[0] }
