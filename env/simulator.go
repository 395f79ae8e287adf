package env

import "github.com/rlinf/rlinf/tensor"

// A Simulator is the dynamics of N independent environments, without episodes, time limits and
// chunks. A new environment implements this interface, and NewEpisodic turns it into a Vec.
// Environment n must behave the same for every N. If the Simulator is also a Saver, the Vec can be
// saved and resumed.
type Simulator interface {
	// Spec describes one environment; MaxSteps is the task's usual limit.
	Spec() Spec
	// Len returns N.
	Len() int
	// Reset puts environment n in the initial state that belongs to seed.
	Reset(n int, seed uint64) error
	// Step takes one step of every environment whose turn is not Idle. The tensor action has N·Dim
	// elements, row by row. Choices are in range and numbers are finite, but numbers are not
	// clipped to the Spec's bounds. Step writes only the rows of these environments in reward [N],
	// terminated [N] (0 or 1) and info [N, len(Spec.Info)].
	Step(action tensor.Tensor, turn []Turn, reward []float32, terminated []byte, info []float32) error
	// Observe writes the current observations into the rows of obs where mask is true, or into all
	// rows if mask is nil.
	Observe(mask []bool, obs tensor.Dict)
	Close() error
}

// A Turn is what an environment does in a step of its Simulator.
type Turn uint8

const (
	Idle Turn = iota // it does nothing, because its episode is over
	Live             // it takes a step
	Last             // it takes the last step before the time limit
)
