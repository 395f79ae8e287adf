// Package all lists the environments of this module.
package all

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
)

// Registry returns a registry of every environment of this module. A new environment is a line here; a program of your own adds its
// own to the value it gets.
func Registry() *env.Registry {
	r := env.NewRegistry()
	r.Add("CartPole-v1", classic.NewCartPole)
	r.Add("Pendulum-v1", classic.NewPendulum)
	r.Add("MountainCar-v0", classic.NewMountainCar)
	r.Add("MountainCarContinuous-v0", classic.NewMountainCarContinuous)
	r.Add("Acrobot-v1", classic.NewAcrobot)
	return r
}
