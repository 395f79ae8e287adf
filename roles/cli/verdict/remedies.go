package verdict

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
)

// remedies returns the overrides that mend mistakes of cfg, each once.
func remedies(cfg *config.Config, mistakes []*yaml.FieldError) (overrides []string) {
	seen := map[string]bool{}
	for _, e := range mistakes {
		for _, o := range remedy(cfg, e) {
			if !seen[o] {
				seen[o] = true
				overrides = append(overrides, o)
			}
		}
	}
	return overrides
}

// only matches what is valid where that is one value, with a reason behind it: "want true
// (loss_type embodied_sac)".
var only = regexp.MustCompile(`^want ([A-Za-z0-9_.-]+) \(`)

// null matches what is said of a null that takes a default away.
var null = regexp.MustCompile(`^want a value; without the key it is (\S+)$`)

// remedy returns the overrides that mend e; none if they cannot be told.
func remedy(cfg *config.Config, e *yaml.FieldError) []string {
	switch {
	case e.Key == "algorithm.staleness_threshold" && !cfg.Runner.Async:
		return []string{"runner.async=true"}
	case cfg.Reward.UseRewardModel && (strings.HasPrefix(e.Key, "reward.model.") || e.Key == "reward.reward_mode"):
		return []string{"reward.use_reward_model=false", "reward.reward_mode=per_step"} // the environment's own reward
	case e.Key == "algorithm.demo_buffer.load_path" && e.Value == "not set":
		return []string{demos}
	case e.Key == "algorithm.loss_type" && e.Value == "offline_iql" && !cfg.Actor.Model.AddQHead:
		return []string{"actor.model.add_q_head=true", "actor.model.add_value_head=false"}
	case e.Key == "cluster.component_placement" && strings.Contains(e.Want, "set cluster.allow_idle_ranks"):
		return []string{"cluster.allow_idle_ranks=true"}
	case e.Key == "cluster.component_placement.reward_server": // of a reward model
		return []string{"~" + e.Key}
	case e.Key == "algorithm.replay_buffer.sample_window_size":
		return window(e)
	case e.Key == "actor.global_batch_size":
		return batchSize(cfg)
	}
	if m := only.FindStringSubmatch(e.Want); m != nil && e.Key != "" {
		return []string{e.Key + "=" + m[1]}
	}
	if m := null.FindStringSubmatch(e.Want); m != nil {
		return []string{e.Key + "=" + m[1]}
	}
	return nil
}

// demos gives demonstrations to an algorithm that learns from them.
const demos = "algorithm.demo_buffer.load_path=demos.safetensors"

// atMost matches the greatest window that fits into the memory.
var atMost = regexp.MustCompile(`^want at most (\d+): `)

// window returns the override of a window of the replay buffer, a power of ten, that fits into half
// of the memory.
func window(e *yaml.FieldError) []string {
	m := atMost.FindStringSubmatch(e.Want)
	if m == nil {
		return nil
	}
	most, _ := strconv.Atoi(m[1])
	n := 1
	for 10*n <= most/2 {
		n *= 10
	}
	return []string{fmt.Sprintf("%s=%d", e.Key, n)}
}

// batchSize returns the override of the greatest global batch that divides the samples of an
// iteration and is no more than cfg's, in micro-batches of the greatest size that divides it.
func batchSize(cfg *config.Config) []string {
	samples, _ := cfg.Samples()
	for n := min(cfg.Actor.GlobalBatchSize, samples); n > 0; n-- {
		if samples%n == 0 && (cfg.Actor.MicroBatchSize <= 0 || n%cfg.Actor.MicroBatchSize == 0) {
			return []string{fmt.Sprintf("actor.global_batch_size=%d", n)}
		}
	}
	return nil
}
