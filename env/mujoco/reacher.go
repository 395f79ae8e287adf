package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// Reacher makes Reacher-v4 and -v5: an arm of two links in a plane must bring its tip to a target.
// The observation is the cosines and sines of the two angles, the position of the target, the two
// angular velocities, and the vector from the target to the tip. In v5 this vector lacks its z,
// which is always 0. The action is 2 torques, clipped to ±1. An episode ends only after 50 steps of
// 0.02 s.
//
//	reward = -|tip - target| - Σ a²,    the distance before the step in v4, after it in v5
func Reacher(v Version) env.Constructor { return reacher(v).constructor() }

func reacher(v Version) definition {
	return definition{
		name: "Reacher", file: "reacher.xml", version: v, skip: 2, limit: 50,
		task: func(m *model, _ float64) task {
			tip, target := m.body("fingertip"), m.body("target")
			axes := 3
			if v == V5 {
				axes = 2
			}
			apart := func(p *physics, note []float64) { note[0] = distance(p.body(tip), p.body(target)) }
			t := task{
				turning: []int{0, 1},
				reset: func(r *philox.Stream, p *physics) {
					uniform(r, 0.1, p.qpos)
					uniform(r, 0.005, p.qvel)
					for {
						x, y := r.Uniform(-0.2, 0.2), r.Uniform(-0.2, 0.2)
						if math.Sqrt(x*x+y*y) < 0.2 {
							p.qpos[2], p.qpos[3] = x, y
							break
						}
					}
					clear(p.qvel[2:])
				},
				memory: 1,
				step: func(p *physics, action []float32, note []float64, _ []float32) (float64, bool) {
					if v == V5 {
						apart(p, note)
					}
					return -note[0] - effort(action), false
				},
				views: stateView(8+axes, func(p *physics, obs []float64) {
					copy(obs, p.cos)
					copy(obs[2:], p.sin)
					copy(obs[4:], p.qpos[2:])
					copy(obs[6:], p.qvel[:2])
					for i := range axes {
						obs[8+i] = p.body(tip)[i] - p.body(target)[i]
					}
				}),
			}
			if v == V4 {
				t.prepare = apart
			}
			return t
		},
	}
}
