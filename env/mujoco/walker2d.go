package mujoco

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// Walker2d makes Walker2d-v4 and -v5: two legs under a torso in a plane must walk forward. The
// observation is the positions of the robot's 9 degrees of freedom without x, and their velocities,
// clipped to ±10. The action is 6 torques, clipped to ±1. An episode has 1000 steps of 0.008 s.
//
//	reward = Δx/Δt + 1 - 0.001 Σ a²,    v5: 1 only while the walker is healthy
//
// The walker is healthy while 0.8 < z < 2 and |angle| < 1; otherwise the episode ends. In v4 the
// right foot slides more easily than the left one; in v5 both have the same friction.
//
// Erez, Tassa and Todorov, "Infinite-horizon model predictive control for periodic tasks with
// contacts", 2011.
func Walker2d(v Version) env.Constructor { return walker2d(v).constructor() }

func walker2d(v Version) definition {
	return definition{
		name: "Walker2d", file: fmt.Sprintf("walker2d_v%d.xml", v), version: v, skip: 4, limit: 1000,
		task: func(m *model, dt float64) task {
			well := func(p *physics) bool {
				z, angle := p.qpos[1], p.qpos[2]
				return 0.8 < z && z < 2 && -1 < angle && angle < 1
			}
			return walker(m, dt, v, well)
		},
	}
}
