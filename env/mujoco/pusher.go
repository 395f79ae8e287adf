package mujoco

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// Pusher makes Pusher-v4 and -v5: an arm of seven joints must push a cylinder to a goal on a table. The observation is
// the angles and velocities of the joints, and the positions of the fingertips, the object and the goal. The action is
// 7 torques, clipped to ±2. An episode ends only after 100 steps of 0.05 s.
//
//	reward = -|object - goal| - 0.1 Σ a² - 0.5 |object - tips|,    the distances before the step in v4, after it in v5
//
// The object has almost no mass in v4.
func Pusher(v Version) env.Constructor { return pusher(v).constructor() }

func pusher(v Version) definition {
	return definition{
		name: "Pusher", file: fmt.Sprintf("pusher_v%d.xml", v), version: v, skip: 5, limit: 100,
		task: func(m *model, _ float64) task {
			const arm = 7
			tips, object, goal := m.body("tips_arm"), m.body("object"), m.body("goal")
			apart := func(p *physics, note []float64) {
				note[0], note[1] = distance(p.body(object), p.body(goal)), distance(p.body(object), p.body(tips))
			}
			t := task{
				reset: func(r *philox.Stream, p *physics) {
					for {
						x, y := r.Uniform(-0.3, 0), r.Uniform(-0.2, 0.2)
						if math.Sqrt(x*x+y*y) > 0.17 {
							copy(p.qpos[arm:], []float64{x, y, 0, 0})
							break
						}
					}
					uniform(r, 0.005, p.qvel[:arm])
				},
				memory: 2,
				step: func(p *physics, action []float32, note []float64, _ []float32) (float64, bool) {
					if v == V5 {
						apart(p, note)
					}
					return -note[0] - 0.1*effort(action) - 0.5*note[1], false
				},
				views: stateView(2*arm+9, func(p *physics, obs []float64) {
					copy(obs, p.qpos[:arm])
					copy(obs[arm:], p.qvel[:arm])
					copy(obs[2*arm:], p.body(tips))
					copy(obs[2*arm+3:], p.body(object))
					copy(obs[2*arm+6:], p.body(goal))
				}),
			}
			if v == V4 {
				t.prepare = apart
			}
			return t
		},
	}
}
