package main

import "github.com/rlinf/rlinf/reward"

// newThrift makes the reward "thrift": 1 in the step that reaches the goal, minus 0.01 times each squared action.
func newThrift(s reward.Setup) (reward.Rule, error) {
	return func(score []float32, b *reward.Batch) error {
		size := b.Action.Len() / len(score)
		for i := range score {
			score[i] = float32(b.Terminated[i])
			for _, a := range b.Action.F32()[i*size : (i+1)*size] {
				score[i] -= 0.01 * a * a
			}
		}
		return nil
	}, nil
}
