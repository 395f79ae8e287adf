// Package mujoco has environments on MuJoCo's physics: InvertedPendulum, Reacher, HalfCheetah, Hopper,
// Walker2d, Ant and Pusher, each as v4 and as v5. It also has a tabletop with objects to reach, push,
// pick up and place. NewModel makes environments of any MJCF model, with a task written in YAML.
//
// The named environments follow Gymnasium (https://github.com/Farama-Foundation/Gymnasium, 1.4):
// with MuJoCo 2.2.2, observations and rewards are equal in float64 to the last bit. That includes
// one trap: contact forces and positions of bodies are those of the integrator's last stage, not of
// the final state. The observation "state" is float32. Initial states have Gymnasium's
// distributions, but other random numbers.
//
// The package needs MuJoCo's library and the build tag mujoco (scripts/build --tags mujoco).
// Without the tag the names are registered, but constructors return env.ErrNotBuilt.
//
// Environments are env.Renderers. Pictures (view.c) are drawn by the ray caster of this package
// (caster.c) or, with the tag osmesa, by MuJoCo's renderer.
//
// Each task is a file of Go code over views of MuJoCo's memory. batch.go and batch.c call MuJoCo:
// one call steps all environments. simulator.go makes an env.Simulator of a task and a batch. If
// MuJoCo stops on an error, warns, or leaves a state that is not finite, the step returns a Fault
// that names the first such environment. These environments get new data and need a Reset. All
// others have taken their step.
package mujoco
