// Package classic implements the classic-control tasks CartPole-v1, Pendulum-v1, MountainCar-v0,
// MountainCarContinuous-v0 and Acrobot-v1.
//
// Their dynamics are those of Gymnasium 1.4 (https://github.com/Farama-Foundation/Gymnasium).
// Computations are in float64, and the observation "state" is float32. Initial states have
// Gymnasium's distributions, but come from another random generator. Each file defines one task,
// and batch makes N environments of a task.
package classic
