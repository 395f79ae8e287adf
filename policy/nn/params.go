package nn

import "github.com/rlinf/rlinf/tensor"

// Float is what layers compute in: float32 in training, float64 in gradient checks.
type Float interface{ float32 | float64 }

// Params are all parameters of a network in one flat buffer, with their gradients in another of the same layout, so that
// optimisers and reducers see two slices and no structure. Every tensor starts on 64 bytes; the gaps hold zeros and stay zero.
type Params[T Float] struct {
	Data    []T
	Grad    []T
	Fields  []Field     // in the order of the layout
	Groups  []Group     // ranges of Data that an optimiser may treat apart; they do not overlap and cover Data
	Buffers tensor.Dict // state that is not trained but belongs to the weights, as observation statistics (F64); travels with them
}

// A Field is one named parameter tensor.
type Field struct {
	Name  string // dotted: actor.0.weight
	Shape []int
	Off   int // of its first element in Data
}

// A Group is a range of parameters with a name of its own in the config: "actor", "critic", "shared".
type Group struct {
	Name      string
	Lo, Hi    int
	Trainable bool
}
