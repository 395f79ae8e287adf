package mujoco

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// Ant makes Ant-v4 and -v5: a torso on four legs of two links each must run along the x axis. The
// observation is the height and orientation of the torso, 8 joint angles, and 14 velocities. v5
// adds the contact forces on the 13 bodies, clipped to ±1. The action is 8 torques, clipped to ±1.
// An episode has 1000 steps of 0.05 s.
//
//	reward = Δx/Δt + 1 - 0.5 Σ a²,    v5: 1 only while healthy, and - 0.0005 Σ (contact forces, clipped to ±1)²
//
// x is the position of the torso. The ant is healthy while 0.2 ≤ z ≤ 1; otherwise the episode ends.
//
// Schulman, Moritz, Levine, Jordan and Abbeel, "High-dimensional continuous control using
// generalized advantage estimation", arXiv:1506.02438.
func Ant(v Version) env.Constructor { return ant(v).constructor() }

func ant(v Version) definition {
	return definition{
		name: "Ant", file: "ant.xml", version: v, skip: 5, limit: 1000,
		task: func(m *model, dt float64) task {
			torso := m.body("torso")
			width := m.nq - 2 + m.nv
			if v == V5 {
				width += 6 * (len(m.parts["body"]) - 1)
			}
			return task{
				contacts: v == V5,
				reset: func(r *philox.Stream, p *physics) {
					uniform(r, 0.1, p.qpos)
					normal(r, 0.1, p.qvel)
				},
				memory: 1, prepare: func(p *physics, note []float64) { note[0] = p.body(torso)[0] },
				step: func(p *physics, action []float32, note []float64, _ []float32) (float64, bool) {
					well := 0.2 <= p.qpos[2] && p.qpos[2] <= 1
					cost := 0.5 * effort(action)
					if v == V5 {
						cost += 5e-4 * contactEffort(p.cfrcExt)
					}
					return (p.body(torso)[0]-note[0])/dt + count(well || v == V4) - cost, !well
				},
				views: stateView(width, func(p *physics, obs []float64) {
					n := copy(obs, p.qpos[2:])
					n += copy(obs[n:], p.qvel)
					if v == V5 {
						for i, f := range p.cfrcExt[6:] { // without the first row, which belongs to the world
							obs[n+i] = clip(f, 1)
						}
					}
				}),
			}
		},
	}
}

// contactEffort returns Σ f² of forces clipped to ±1. It adds up eight partial sums, which is
// NumPy's order for fewer than 128 numbers.
func contactEffort(force []float64) float64 {
	var s [8]float64
	n := len(force) / 8 * 8
	for i, f := range force[:n] {
		f = clip(f, 1)
		s[i%8] += f * f
	}
	sum := ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
	for _, f := range force[n:] {
		f = clip(f, 1)
		sum += f * f
	}
	return sum
}
