// Package classic has the classic-control tasks: CartPole-v1, Pendulum-v1, MountainCar-v0,
// MountainCarContinuous-v0, Acrobot-v1.
//
// They follow Gymnasium (https://github.com/Farama-Foundation/Gymnasium, 1.4) step for step:
// float64 inside, float32 observations under the name "state". Initial states have the same
// distributions, but random numbers of this project. Each task is one file that defines one
// environment; batch makes N of it.
package classic
