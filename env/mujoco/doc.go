// Package mujoco implements environments with MuJoCo's physics: InvertedPendulum, Reacher, HalfCheetah, Hopper,
// Walker2d, Ant and Pusher, each in the versions v4 and v5. It also has a tabletop with objects to reach, push, pick up
// and place. NewModel makes environments of any MJCF model, with a task written in YAML.
//
// The first seven are Gymnasium's (https://github.com/Farama-Foundation/Gymnasium, 1.4). With
// MuJoCo 2.2.2, observations and rewards in float64 are bit for bit the same. As in Gymnasium,
// contact forces and body positions are those of the integrator's last stage, not of the final
// state. The observation "state" is float32. Initial states have Gymnasium's distributions, but
// come from another random generator.
//
// The package needs MuJoCo's library and the build tag mujoco (scripts/build --tags mujoco).
// Without the tag, the constructors return env.ErrNotBuilt.
//
// Environments implement env.Renderer. Pictures come from this package's ray caster (caster.c), or
// from MuJoCo's renderer with the tag osmesa.
//
// Each task is Go code that reads and writes MuJoCo's memory through views. batch.go and batch.c
// call MuJoCo: one call steps all environments. simulator.go makes an env.Simulator of a task and a
// batch. If an environment fails in a step (see SimulationError), it gets new data and needs a Reset. All
// other environments take the step.
package mujoco
