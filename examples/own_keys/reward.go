package main

import (
	"math"

	"github.com/rlinf/rlinf/reward"
)

// nearKeys are the keys of the reward "near", in the section reward.
type nearKeys struct {
	Width float64 `yaml:"near_width" doc:"How far from 0 a boat may be and still get 0.6 of the score."`
}

func (k nearKeys) Check(want func(ok bool, key string, value any, want string)) {
	want(k.Width > 0, "near_width", k.Width, "a number > 0")
}

// addNear adds the reward "near": a step to x scores exp(-½(x/near_width)²).
func addNear(r *reward.Registry) {
	reward.Register(r, "near", nearKeys{Width: 0.5}, func(_ reward.Setup, keys nearKeys) (reward.Rule, error) {
		return func(score []float32, b *reward.Batch) error {
			for i, x := range b.Next.Must("state").F32() {
				z := float64(x) / keys.Width
				score[i] = float32(math.Exp(-z * z / 2))
			}
			return nil
		}, nil
	})
}
