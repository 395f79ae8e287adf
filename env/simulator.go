package env

import "github.com/rlinf/rlinf/tensor"

// A Simulator is the dynamics of N independent environments: no episodes, no time limit, no chunks.
// A new environment implements it, and NewEpisodic makes a Vec of it. Environment n must behave the
// same for every N. If the Simulator is a Saver, too, the Vec can resume.
type Simulator interface {
	// Spec describes one environment; MaxSteps is the task's usual limit.
	Spec() Spec
	// Len returns N.
	Len() int
	// Reset puts environment n in the initial state that belongs to seed.
	Reset(n int, seed uint64) error
	// Step takes one step of every environment whose turn is not Idle. action holds N·Dim elements,
	// row by row. Its choices are in range and its numbers are finite, but they are not clipped to
	// the Spec's bounds. Step writes the rows of these environments in reward [N], terminated [N]
	// (0 or 1) and info [N, len(Spec.Info)], and leaves all other rows alone.
	Step(action tensor.Tensor, turn []Turn, reward []float32, terminated []byte, info []float32) error
	// Observe writes the current observations into the rows of obs where mask is true. A nil mask
	// is true everywhere.
	Observe(mask []bool, obs tensor.Dict)
	Close() error
}

// A Turn says what an environment does in a step of its Simulator.
type Turn uint8

const (
	Idle Turn = iota // nothing: its episode is over
	Live             // a step
	Last             // a step, the last before the time limit
)
