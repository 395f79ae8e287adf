package reward_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/tensor"
)

// A rule of one's own pays for the height after a step. reward.reward_type: high chooses it in a job.
func ExampleRegistry() {
	rules := reward.Builtin()
	rules.Add("high", func(reward.Setup) (reward.Rule, error) {
		return func(score []float32, b *reward.Batch) error {
			height := b.Next.Must("height").F32()
			for i := range score {
				score[i] = height[i]
				if b.Terminated[i] == 1 {
					score[i] -= 10
				}
			}
			return nil
		}, nil
	})
	cfg := reward.DefaultConfig()
	cfg.RewardType = "high"
	rule, err := rules.New(reward.Setup{Config: cfg, Rows: 3})
	if err != nil {
		log.Fatal(err)
	}

	batch := reward.Batch{Terminated: []uint8{0, 0, 1}, Reward: make([]float32, 3)}
	batch.Next.Set("height", tensor.FromF32([]float32{1, 2, 3}, 3, 1))
	score := make([]float32, 3)
	if err := rule(score, &batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(score)
	// Output: [1 2 -7]
}
