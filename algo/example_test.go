package algo_test

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
)

// One environment takes three steps; the episode ends with the second. Nothing is bootstrapped
// there, and the third step begins anew.
func ExampleGAE() {
	tr := &algo.Trajectory{
		T: 3, N: 1,
		Reward:     []float32{1, 1, 1},
		Value:      []float32{0.5, 0.5, 0.5},
		Next:       []float32{0.5, 9, 0.5}, // after a termination it does not count
		Terminated: []uint8{0, 1, 0},
		Truncated:  []uint8{0, 0, 0},
	}
	adv, ret := make([]float32, 3), make([]float32, 3)
	algo.GAE(adv, ret, tr, 1, 0.5)
	fmt.Println(adv, ret)
	// Output: [1.25 0.5 1] [1.75 1 1.5]
}
