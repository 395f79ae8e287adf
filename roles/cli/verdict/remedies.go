package verdict

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
)

// classified names the file of a classifier of images: docs/success-from-images.md.
const classified = "reward.model.model_path=CLASSIFIER"

// weights names the folder with the weights of a frozen ResNet-10: docs/algorithms/sac.md.
const weights = "actor.model.model_path=RESNET10"

// labelled stands for a file of labelled frames.
const labelled = "FRAMES"

// remedies returns overrides that fix mistakes of cfg, without repetitions.
func remedies(cfg *config.Config, mistakes []*yaml.FieldError) (overrides []string) {
	for _, e := range mistakes {
		for _, o := range remedy(cfg, e) {
			if !slices.Contains(overrides, o) {
				overrides = append(overrides, o)
			}
		}
	}
	return overrides
}

// singleValue matches the message about a key with a single valid value, such as "expected true (loss_type
// embodied_sac)".
var singleValue = regexp.MustCompile(`^expected ([A-Za-z0-9_.-]+) \(`)

// nullValue matches the message about a key that is null but needs a value.
var nullValue = regexp.MustCompile(`^expected a value; without the key it is (\S+)$`)

// quotedValue matches the message about a number or boolean that should have no quotes.
var quotedValue = regexp.MustCompile(`; drop the quotes: (\S+)$`)

// remedy returns the overrides that fix e. It returns nil if no remedy is known.
func remedy(cfg *config.Config, e *yaml.FieldError) []string {
	_, images := cfg.Reward.Images()
	switch {
	case cfg.ReadsTexts() && strings.HasPrefix(e.Key, "env."):
		return nil // a language model has no environments
	case e.Key == "algorithm.staleness_threshold" && !cfg.Runner.Async:
		return []string{"runner.async=true"}
	case e.Key == "actor.model.model_path" && cfg.Actor.Model.ModelType == "cnn_policy":
		return []string{weights}
	case e.Key == "reward.model.model_path" && images && (cfg.Reward.Model.ModelPath == "" || missing(e)):
		return []string{classified}
	case e.Key == "reward.model.model_path" && e.Value != "not set":
		return nil // the file is missing or does not fit
	case cfg.Reward.UseRewardModel && (strings.HasPrefix(e.Key, "reward.model.") || e.Key == "reward.reward_mode"):
		return []string{"reward.use_reward_model=false", "reward.reward_mode=per_step"} // the environment's reward
	case cfg.Classifies() && strings.HasPrefix(e.Key, "data."):
		return []string{e.Key + "=" + labelled}
	case cfg.Classifies() && e.Key == "actor.model.pretrained":
		return []string{"actor.model.pretrained=false"}
	case e.Key == "algorithm.demo_buffer.load_path" && missing(e):
		return []string{demos}
	case e.Key == "algorithm.loss_type" && e.Value == "offline_iql" && !cfg.Actor.Model.AddQHead:
		return []string{"actor.model.add_q_head=true", "actor.model.add_value_head=false"}
	case e.Key == "cluster.component_placement" && strings.Contains(e.Want, "set cluster.allow_idle_ranks"):
		return []string{"cluster.allow_idle_ranks=true"}
	case e.Key == "runner.logger.logger_backends" && (e.Value == "wandb" || e.Value == "swanlab"):
		return []string{e.Key + "=tensorboard"}
	case e.Key == "cluster.component_placement.reward_server": // RLinf's component of reward models
		return []string{"~" + e.Key}
	case e.Key == "algorithm.replay_buffer.sample_window_size":
		return window(e)
	case e.Key == "runner.seq_length":
		if m := textLength.FindStringSubmatch(e.Want); m != nil {
			return []string{e.Key + "=" + m[1]}
		}
	case e.Key == "rollout.return_logprobs":
		return []string{e.Key + "=true"}
	case e.Key == "algorithm.early_stop_imp_ratio" && strings.HasPrefix(e.Want, "expected 0 with"):
		return []string{e.Key + "=0"}
	case e.Key == "data.rollout_batch_size":
		return multiple(e)
	case e.Key == "actor.global_batch_size":
		return batchSize(cfg, e)
	}
	if m := singleValue.FindStringSubmatch(e.Want); m != nil && e.Key != "" {
		return []string{e.Key + "=" + m[1]}
	}
	if strings.HasPrefix(e.Want, "expected a multiple of ") {
		return multiple(e)
	}
	for _, p := range []*regexp.Regexp{nullValue, quotedValue} {
		if m := p.FindStringSubmatch(e.Want); m != nil {
			return []string{e.Key + "=" + m[1]}
		}
	}
	return nil
}

// missing reports whether e is about a file that does not exist or that the configuration does not name.
func missing(e *yaml.FieldError) bool {
	return e.Value == "not set" || strings.Contains(e.Want, "no such file")
}

// demos is an override that names a file of demonstrations, for algorithms that need them.
const demos = "algorithm.demo_buffer.load_path=demos.safetensors"

// windowLimit matches the message with the largest window that fits into the memory.
var windowLimit = regexp.MustCompile(`^expected at most (\d+): `)

// textLength matches the message with the length of the longest text.
var textLength = regexp.MustCompile(`^expected at least (\d+), the tokens of the longest text`)

// window returns the override of the replay buffer's window. It sets the largest power of ten that is at most half of
// the maximum in the message.
func window(e *yaml.FieldError) []string {
	m := windowLimit.FindStringSubmatch(e.Want)
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

// unit and samples match the numbers in the message about a global batch size. The size must be a multiple of the unit,
// and divide the number of samples.
var (
	unit    = regexp.MustCompile(`a multiple of (\d+)`)
	samples = regexp.MustCompile(`the samples of an iteration, (\d+)`)
)

// batchSize returns the override of the global batch size. The new size is close to the size in cfg, and satisfies the
// condition in e.
func batchSize(cfg *config.Config, e *yaml.FieldError) []string {
	number := func(pattern *regexp.Regexp) (n int) {
		if m := pattern.FindStringSubmatch(e.Want); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		return n
	}
	size, step, total := cfg.Actor.GlobalBatchSize, number(unit), number(samples)
	switch {
	case step > 0 && total > 0:
		size = nearest(size, step, total)
	case step > 0:
		size = max(size/step, 1) * step
	default:
		size = config.GCD(size, total) // a micro-batch size that divides both arguments divides the result
	}
	if size <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s=%d", e.Key, size)}
}

// multiple returns the override that rounds the number in e down to a multiple of the unit in e, but to at least one
// unit.
func multiple(e *yaml.FieldError) []string {
	m := unit.FindStringSubmatch(e.Want)
	size, err := strconv.Atoi(e.Value)
	if m == nil || err != nil {
		return nil
	}
	step, _ := strconv.Atoi(m[1])
	return []string{fmt.Sprintf("%s=%d", e.Key, max(size/step, 1)*step)}
}

// nearest returns the largest n <= size that is a multiple of step and divides total. If no such n exists, it returns
// the smallest such n > size, or 0.
func nearest(size, step, total int) (found int) {
	for n := step; n <= total && (n <= size || found == 0); n += step {
		if total%n == 0 {
			found = n
		}
	}
	return found
}
