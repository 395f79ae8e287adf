// Package all registers the environments of this module.
package all

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/env/mujoco"
)

// Registry returns a registry with every environment of this module. To add an environment to this
// module, add a line here. Your own program can add environments to the returned registry.
func Registry() *env.Registry {
	r := env.NewRegistry()
	r.Add("CartPole-v1", classic.NewCartPole)
	r.Add("Pendulum-v1", classic.NewPendulum)
	r.Add("MountainCar-v0", classic.NewMountainCar)
	r.Add("MountainCarContinuous-v0", classic.NewMountainCarContinuous)
	r.Add("Acrobot-v1", classic.NewAcrobot)
	env.Register(r, "BitFlip-v1", classic.BitFlipKeys{Bits: 20}, classic.NewBitFlip)
	// Without the build tag mujoco, these constructors return an error that names the tag.
	r.Add("InvertedPendulum-v4", mujoco.InvertedPendulum(mujoco.V4))
	r.Add("InvertedPendulum-v5", mujoco.InvertedPendulum(mujoco.V5))
	r.Add("Reacher-v4", mujoco.Reacher(mujoco.V4))
	r.Add("Reacher-v5", mujoco.Reacher(mujoco.V5))
	r.Add("HalfCheetah-v4", mujoco.HalfCheetah(mujoco.V4))
	r.Add("HalfCheetah-v5", mujoco.HalfCheetah(mujoco.V5))
	r.Add("Hopper-v4", mujoco.Hopper(mujoco.V4))
	r.Add("Hopper-v5", mujoco.Hopper(mujoco.V5))
	r.Add("Walker2d-v4", mujoco.Walker2d(mujoco.V4))
	r.Add("Walker2d-v5", mujoco.Walker2d(mujoco.V5))
	r.Add("Ant-v4", mujoco.Ant(mujoco.V4))
	r.Add("Ant-v5", mujoco.Ant(mujoco.V5))
	r.Add("Pusher-v4", mujoco.Pusher(mujoco.V4))
	r.Add("Pusher-v5", mujoco.Pusher(mujoco.V5))
	r.Add("TabletopReach-v1", mujoco.TabletopReach)
	r.Add("TabletopPush-v1", mujoco.TabletopPush)
	r.Add("TabletopPick-v1", mujoco.TabletopPick)
	r.Add("TabletopPut-v1", mujoco.TabletopPut)
	r.Add("TabletopLift-v1", mujoco.TabletopLift)
	r.Add("TabletopReachGoal-v1", mujoco.TabletopReachGoal)
	r.Add("TabletopPushGoal-v1", mujoco.TabletopPushGoal)
	r.Add("TabletopSuite-v1", mujoco.TabletopSuite)
	r.Add("mujoco", mujoco.NewModel) // a model of your own: env.train.model_path and env.train.task
	return r
}
