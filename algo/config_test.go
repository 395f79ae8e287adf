package algo_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

func TestDefaultsAreValid(t *testing.T) {
	want := func(ok bool, key string, value any, want string) {
		if !ok {
			t.Errorf("%s: %v: want %s", key, value, want)
		}
	}
	c, o := algo.DefaultConfig(), algo.DefaultOptimConfig()
	o.LR = 1e-3
	c.Check(want)
	o.Check(want)
	algo.Builtin().Check(c, want)
}

// Every key that has a limit is checked, under its own name.
func TestCheckNamesTheKey(t *testing.T) {
	for text, key := range map[string]string{
		"gamma: 1.1": "gamma", "gae_lambda: -0.1": "gae_lambda", "bootstrap_type: never": "bootstrap_type",
		"normalize_advantages: rollout": "normalize_advantages", "reward_clip: -1": "reward_clip",
		"update_epoch: 0": "update_epoch",
		"target_kl: -1":   "target_kl", "clip_ratio_low: 0": "clip_ratio_low",
		"clip_ratio_high: -0.2": "clip_ratio_high", "clip_ratio_c: 1": "clip_ratio_c",
		"clip_ratio_schedule: cosine": "clip_ratio_schedule", "clip_log_ratio_min: 1": "clip_log_ratio_min",
		"clip_log_ratio_max: -1":   "clip_log_ratio_max",
		"logprob_type: word_level": "logprob_type", "entropy_bonus: -1": "entropy_bonus",
		"value_clip: -1": "value_clip", "huber_delta: -1": "huber_delta",
		"value_loss_coef: -1": "value_loss_coef", "gamma: .nan": "gamma", "adv_type: gea": "adv_type",
		"loss_type: critic": "loss_type",
	} {
		c := algo.DefaultConfig()
		test.OK(t, yaml.Unmarshal([]byte(text), &c))
		var got []string
		want := func(ok bool, key string, value any, want string) {
			if !ok {
				got = append(got, key)
			}
		}
		c.Check(want)
		algo.Builtin().Check(c, want)
		if !slices.Equal(got, []string{key}) {
			t.Errorf("%s: problems with %v, want %s", text, got, key)
		}
	}
	for text, key := range map[string]string{
		"lr: 0": "lr", "value_lr: -1": "value_lr", "vision_lr: -1": "vision_lr", "adam_beta1: 1": "adam_beta1",
		"adam_beta2: -1": "adam_beta2", "adam_eps: 0": "adam_eps",
		"weight_decay: -1": "weight_decay", "clip_grad: -1": "clip_grad", "lr_scheduler: exponential": "lr_scheduler",
		"{lr_warmup_steps: 10, total_training_steps: 10}": "lr_warmup_steps", "min_lr: 2": "min_lr",
		"{value_lr: 0.1, min_lr: 0.5}": "min_lr",
		"critic_warmup_steps: -1":      "critic_warmup_steps", "lr: .nan": "lr",
	} {
		c := algo.DefaultOptimConfig()
		c.LR = 1
		test.OK(t, yaml.Unmarshal([]byte(text), &c))
		var got []string
		c.Check(func(ok bool, key string, value any, want string) {
			if !ok && !slices.Contains(got, key) {
				got = append(got, key)
			}
		})
		if !slices.Contains(got, key) || len(got) > 1 && text != "lr: .nan" && text != "lr: 0" {
			t.Errorf("%s: problems with %v, want %s", text, got, key)
		}
	}
}

// Every number is finite, except for the bounds of rewards.
func TestCheckWantsFiniteNumbers(t *testing.T) {
	c := algo.DefaultConfig()
	c.OffPolicy.ReplayBuffer.SampleWindowSize, c.OffPolicy.EntropyTuning.Optim.LR = 100, 1
	var each func(v reflect.Value, section string)
	each = func(v reflect.Value, section string) {
		for i := range v.NumField() {
			f, tag := v.Field(i), v.Type().Field(i).Tag.Get("yaml")
			key := strings.TrimPrefix(section+"."+tag, ".")
			switch f.Kind() {
			case reflect.Struct:
				each(f, strings.TrimSuffix(key, ",inline"))
			case reflect.Float32, reflect.Float64:
				was := f.Float()
				for _, sign := range []int{1, -1} {
					f.SetFloat(math.Inf(sign))
					var got []string
					want := func(ok bool, key string, value any, want string) {
						if !ok {
							got = append(got, key)
						}
					}
					c.Check(want)
					c.OffPolicy.Check(want, false)
					if found, free := slices.Contains(got, key), strings.HasPrefix(key, "rewards_"); found == free {
						t.Errorf("%s %v: problems with %v", key, f, got)
					}
				}
				f.SetFloat(was)
			}
		}
	}
	each(reflect.ValueOf(&c).Elem(), "")
}

func TestNormalizationReadsRLinfsBooleans(t *testing.T) {
	for text, want := range map[string]algo.Normalization{
		"true": algo.NormalizeBatch, "false": algo.NormalizeNone, "batch": algo.NormalizeBatch,
		"minibatch": algo.NormalizeMinibatch, "none": algo.NormalizeNone,
	} {
		var c algo.Config
		if err := yaml.Unmarshal([]byte("normalize_advantages: "+text), &c); err != nil ||
			c.NormalizeAdvantages != want {
			t.Errorf("%s: %v, %v; want %v", text, c.NormalizeAdvantages, err, want)
		}
	}
}

func TestRegistryNamesWhatItKnows(t *testing.T) {
	var got string
	c := algo.Config{AdvType: "gae", LossType: "critic"}
	algo.Builtin().Check(c, func(ok bool, key string, value any, want string) {
		if !ok {
			got += key + ": expected " + want
		}
	})
	want := "loss_type: expected one of actor_critic, actor, decoupled_actor_critic, a2c (with adv_type gae)"
	test.Equal(t, got, want)
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "gae with actor twice") {
			t.Errorf("panic %q", text)
		}
	}()
	algo.Builtin().Add("gae", "actor", nil)
}

// Every field has a yaml key, so that no setting is out of reach.
func TestEveryFieldHasAKey(t *testing.T) {
	for _, c := range []reflect.Type{reflect.TypeFor[algo.Config](), reflect.TypeFor[algo.OptimConfig]()} {
		for i := range c.NumField() {
			if f := c.Field(i); f.Tag.Get("yaml") == "" {
				t.Errorf("%v.%s has no key", c, f.Name)
			}
		}
	}
}
