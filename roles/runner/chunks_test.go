package runner

import (
	"slices"
	"testing"
)

// With chunks of actions, at each level, the metrics are the same on any ranks.
func TestChunksOnAnyRanks(t *testing.T) {
	for _, more := range [][]string{
		{"algorithm.reward_type=action_level", "algorithm.logprob_type=token_level", "algorithm.entropy_type=chunk_level", "algorithm.entropy_bonus=0.01"},
		{"algorithm.reward_type=action_level", "env.train.auto_reset=false", "algorithm.normalize_rewards=true"},
		{"algorithm.logprob_type=chunk_level"},
	} {
		asks := slices.Concat(small, more, []string{"actor.model.num_action_chunks=2", "actor.micro_batch_size=8", "actor.global_batch_size=48"})
		_, want := metricsOf(t, 1, "actor: '0:0-1'; env,rollout: 0", 3, asks)
		for _, components := range []string{"actor: 0-1; env: 2; rollout: 3", "actor: 2-3; env: '0-1:0-3'; rollout: 1"} {
			_, got := metricsOf(t, 4, components, 3, append(asks, "rollout.pipeline_stage_num=2"))
			if !slices.EqualFunc(got, want, slices.Equal[[]float64]) || len(got) != 3 {
				t.Errorf("%v, %s: %v\non one rank %v", more, components, got, want)
			}
		}
	}
}
