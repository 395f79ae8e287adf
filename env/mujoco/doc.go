// Package mujoco has environments on MuJoCo's physics: InvertedPendulum, Reacher, HalfCheetah,
// Hopper, Walker2d, Ant and Pusher, each as v4 and as v5. It also has a tabletop with objects to
// reach, push, pick up and put elsewhere, and takes any model of your own with a task written in
// YAML (NewModel).
//
// The named ones follow Gymnasium (https://github.com/Farama-Foundation/Gymnasium, 1.4) number for
// number: with MuJoCo 2.2.2, observations and rewards are equal in float64 to the last bit. That
// includes traps: contact forces and positions of bodies are those of the last stage that the
// integrator evaluated, not of the state it left. The contract carries float32, under the name
// "state". Initial states have the same distributions but come from this project's own streams.
//
// The package needs MuJoCo's library and the build tag mujoco (scripts/build --tags mujoco).
// Without the tag the names are known and making one is an env.ErrNotBuilt.
//
// Environments are env.Renderers: what a camera sees (view.c) is drawn by a ray caster of this
// package's own (caster.c) or, with the tag osmesa, by MuJoCo's renderer.
//
// A task is plain Go over views of MuJoCo's memory: one file each. What touches C is batch.go with
// batch.c, where one call steps all environments; simulator.go makes an env.Simulator of both. When
// MuJoCo stops on an error, warns, or leaves a state that is not finite, the step returns a Fault
// that names the first such environment; they are made anew and want a Reset, the others have taken
// their step.
package mujoco
