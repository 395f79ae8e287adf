// Package classic has the classic-control tasks: CartPole-v1, Pendulum-v1, MountainCar-v0,
// MountainCarContinuous-v0, Acrobot-v1.
//
// They follow Gymnasium (https://github.com/Farama-Foundation/Gymnasium, 1.4) step for step. They
// compute in float64, and their observation "state" is float32. Initial states have the same
// distributions, but other random numbers. Each task is one file that defines one environment, and
// batch makes N environments of it.
package classic
