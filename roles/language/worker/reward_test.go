package worker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
)

// TestRewardsAreFinite: a reward that is not finite ends the job.
func TestRewardsAreFinite(t *testing.T) {
	dir := t.TempDir()
	k := test.Must(tokenizer.Train(dir, slices.Values([]string{"2 + 2"}), tokenizer.Training{VocabSize: 280,
		Pattern: "qwen2", MinCount: 2, Special: []string{"<end>"}, EOS: "<end>"}))(t)
	for reward, want := range map[float64]string{0.5: "<nil>", math.NaN(): "answer 1 has NaN, expected a finite number",
		math.Inf(-1): "answer 1 has -Inf, expected a finite number"} {
		rules := &answer.Registry{}
		rules.Add("own", func(answer.Setup) (answer.Rule, error) {
			return answer.Each(func(r *answer.Response) (g answer.Grade) {
				if r.Sample == 1 {
					g.Reward = float32(reward)
				}
				return g
			}), nil
		})
		g := test.Must(rules.New(answer.Setup{Type: "own", Config: answer.DefaultConfig()}))(t)
		a := &answers{tokens: []int32{1, 2, 3}, lengths: []int32{2, 1}, ended: []uint8{0, 1}}
		if got := fmt.Sprint(a.judge(g, &plan.Plan{Tokenizer: k})); !strings.Contains(got, want) {
			t.Errorf("reward %v: %s, want %s", reward, got, want)
		}
	}
}
