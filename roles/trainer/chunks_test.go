package trainer

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// Rewards of single actions add up to those of chunks. An end is at its action, and the actions after it have no
// reward.
func TestCollectActionRewards(t *testing.T) {
	const T, N, C = 60, 4, 3
	for _, autoReset := range []bool{true, false} {
		cfg := rolestest.EnvConfig("CartPole-v1", N)
		cfg.AutoReset, cfg.MaxEpisodeSteps = autoReset, 25
		pol := rolestest.NewPolicy(t, cfg, 1, func(c *policy.Config) { c.NumActionChunks, c.ActionValues = C, true })
		chunks := collect(t, newCollector(t, cfg, pol), T, true)
		collector := newCollector(t, cfg, pol)
		collector.CollectActionRewards()
		actions := collect(t, collector, T, true)
		if got, want := fmt.Sprint(actions.Must("reward").Shape(), actions.Must("value").Shape()),
			"[60 4 3] [60 4 3]"; got != want {
			t.Fatalf("reward and value are %s, want %s", got, want)
		}
		early := 0
		for i := range T * N {
			var reward float32
			var terminated, truncated uint8
			ended := false
			for k := i * C; k < (i+1)*C; k++ {
				r, term, trunc := actions.Must("reward").F32()[k], actions.Must("terminated").U8()[k],
					actions.Must("truncated").U8()[k]
				if ended && (r != 0 || term|trunc != 0) {
					t.Fatalf("sample %d: reward %v, flags %d %d behind the end", i, r, term, trunc)
				}
				if term|trunc != 0 && k%C < C-1 && r != 0 {
					early++
				}
				reward, terminated, truncated, ended = reward+r, terminated|term, truncated|trunc, ended ||
					term|trunc != 0
			}
			if reward != chunks.Must("reward").F32()[i] || terminated != chunks.Must("terminated").U8()[i] ||
				truncated != chunks.Must("truncated").U8()[i] {
				t.Fatalf("sample %d: %v %d %d, by chunk %v %d %d", i, reward, terminated, truncated,
					chunks.Must("reward").F32()[i], chunks.Must("terminated").U8()[i], chunks.Must("truncated").U8()[i])
			}
		}
		if early < 3 {
			t.Errorf("auto_reset %v: %d ends within a chunk: the test sees too little", autoReset, early)
		}
		if got, want := actions.Must("next_value"), chunks.Must("next_value"); !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("next values %v, by chunk %v", got.F32(), want.F32())
		}
	}
}

// PPO learns CartPole with chunks of two actions, with rewards and log-probs of actions or of chunks.
func TestChunksLearnCartPole(t *testing.T) {
	for _, c := range []struct{ reward, logProb string }{
		{algo.ChunkLevel, algo.ChunkLevel}, {algo.ChunkLevel, algo.ActionLevel}, {algo.ActionLevel, algo.ActionLevel},
	} {
		t.Run(c.reward+" rewards, "+c.logProb+" log-probs", func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 32,
				Envs: 16, GlobalBatch: 128, Chunk: 2}
			s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch = 0.99, 0.95, 8
			s.Config.RewardType, s.Config.LogProbType = c.reward, c.logProb
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
			cfg := rolestest.EnvConfig("CartPole-v1", s.Envs)
			s.Policy = rolestest.NewPolicy(t, cfg, 1, func(net *policy.Config) {
				net.NumActionChunks, net.LogProbType, net.ActionValues = s.Chunk, c.logProb,
					c.reward == algo.ActionLevel
			})
			before, after := learn(t, all.Registry(), cfg, s, 30)
			if before > 60 || after < 180 {
				t.Errorf("evaluation %.1f before, %.1f after: want at most 60, at least 180", before, after)
			}
		})
	}
}
