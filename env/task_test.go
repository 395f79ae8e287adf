package env_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

const goodTask = `
frame_skip: 2
observations: [{joint: "*", apply: [cos]}, {site: tip, relative_to: goal}]
actuators: [motor]
rewards: [{body: fore, apply: [norm], weight: -1, rate: true}, {actuator: motor, weight: 1},
	{constant: 1, when: success}]
terminations: [{sensor: touch, high: 3}]
success: [{velocity: hinge, low: -1, high: 1}]
reset_noise: [{joint: hinge, low: -1, high: 1}, {velocity: hinge, std: 0.1}]`

// TestTaskCheck: Check finds mistakes in a task without its model, and names the key.
func TestTaskCheck(t *testing.T) {
	checkTasks(t, []taskCase{
		{func(*env.Task) {}, ""},
		{func(k *env.Task) { k.FrameSkip = -1 }, "frame_skip"},
		{func(k *env.Task) { k.FrameSkip = 1e9 }, "frame_skip"},
		{func(k *env.Task) { k.MaxSteps = -1 }, "max_steps"},
		{func(k *env.Task) { k.Delta = -1 }, "delta"},
		{func(k *env.Task) { k.Delta = math.Inf(1) }, "delta"},
		{func(k *env.Task) { k.Lead = 1 }, "lead"},
		{func(k *env.Task) { k.Delta, k.Lead = 1, math.Inf(1) }, "lead"},
		{func(k *env.Task) { k.Actuators = []string{} }, "actuators"},
		{func(k *env.Task) { k.SuccessSteps, k.Success, k.Rewards = 2, nil, k.Rewards[:2] }, "success_steps"},
		{func(k *env.Task) { k.Observations = nil }, "observations"},
		{func(k *env.Task) { k.Rewards = nil }, "rewards"},
		{func(k *env.Task) { k.Observations[0].Sensor = "touch" }, "observations.0"},
		{func(k *env.Task) { k.Observations[0].Joint = "" }, "observations.0"},
		{func(k *env.Task) { k.Observations[0] = env.Quantity{Actuator: "motor"} }, "observations.0"},
		{func(k *env.Task) { k.Observations[0].Apply[0] = "cosine" }, "observations.0.apply.0"},
		{func(k *env.Task) { k.Observations[0].RelativeTo = "goal" }, "observations.0.relative_to"},
		{func(k *env.Task) { k.Observations[1].Clip = -1 }, "observations.1.clip"},
		{func(k *env.Task) { k.Observations[1].Scale = 1e300 }, "observations.1.scale"},
		{func(k *env.Task) { k.Observations[0].Elements = []int{} }, "observations.0.elements"},
	})
	cfg := env.DefaultConfig()
	cfg.ModelPath = "model.xml"
	if got := complaints(cfg); !slices.Contains(got, "model_path") {
		t.Errorf("a model without a task gave complaints about %v", got)
	}
}

// TestTaskRewardsCheck does the same for rewards, ends and noise.
func TestTaskRewardsCheck(t *testing.T) {
	checkTasks(t, []taskCase{
		{func(k *env.Task) { k.Rewards[0].Weight = 1e40 }, "rewards.0.weight"},
		{func(k *env.Task) { k.Rewards[2].Constant = math.Inf(1) }, "rewards.2.constant"},
		{func(k *env.Task) { k.Rewards[0].Weight = 0 }, "rewards.0.weight"},
		{func(k *env.Task) { k.Rewards[0].Constant = 1 }, "rewards.0.weight"},
		{func(k *env.Task) { k.Rewards[0].Before = true }, "rewards.0.before"},
		{func(k *env.Task) { k.Rewards[1].Rate = true }, "rewards.1.actuator"},
		{func(k *env.Task) { k.Rewards[2].Constant = 0 }, "rewards.2"},
		{func(k *env.Task) { k.Rewards[2].When = "never" }, "rewards.2.when"},
		{func(k *env.Task) { k.Success = nil }, "rewards.2.when"},
		{func(k *env.Task) { k.Terminations[0].High = nil }, "terminations.0.low"},
		{func(k *env.Task) { *k.Success[0].Low = 2 }, "success.0.low"},
		{func(k *env.Task) { k.ResetNoise[0].Velocity = "hinge" }, "reset_noise.0.joint"},
		{func(k *env.Task) { k.ResetNoise[0].Low = 2 }, "reset_noise.0.low"},
		{func(k *env.Task) { k.ResetNoise[0].High = math.Inf(1) }, "reset_noise.0.high"},
		{func(k *env.Task) { k.ResetNoise[0].Low = math.Inf(-1) }, "reset_noise.0.low"},
		{func(k *env.Task) { k.ResetNoise[0].Elements = []int{} }, "reset_noise.0.elements"},
		{func(k *env.Task) { k.ResetNoise[1].Std = math.Inf(1) }, "reset_noise.1.std"},
		{func(k *env.Task) { k.ResetNoise[0].Std = 1 }, "reset_noise.0.std"},
		{func(k *env.Task) { k.ResetNoise[1].Std = 0 }, "reset_noise.1.std"},
	})
}

// A taskCase is a change of a valid task, and the key that Check names, "" for none.
type taskCase struct {
	spoil func(*env.Task)
	want  string
}

func checkTasks(t *testing.T, cases []taskCase) {
	t.Helper()
	for _, c := range cases {
		cfg := env.DefaultConfig()
		cfg.EnvType, cfg.TotalNumEnvs, cfg.MaxStepsPerRolloutEpoch = "mujoco", 1, 1
		cfg.ModelPath, cfg.Task = "model.xml", &env.Task{}
		test.OK(t, yaml.Unmarshal([]byte(goodTask), cfg.Task))
		c.spoil(cfg.Task)
		got := complaints(cfg)
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, "task."+c.want) {
			t.Errorf("complaints about %v, want task.%s", got, c.want)
		}
	}
}

// complaints returns the keys of the mistakes that Check finds.
func complaints(cfg env.Config) (keys []string) {
	cfg.Check(func(ok bool, key string, value any, want string) {
		if !ok {
			keys = append(keys, key)
		}
	})
	return keys
}

// TestTaskBoundsSaid: the error of a low bound above the high bound has both numbers.
func TestTaskBoundsSaid(t *testing.T) {
	low, high := 2.0, 1.0
	cfg := env.DefaultConfig()
	cfg.Task = &env.Task{Terminations: []env.Bounds{{Low: &low, High: &high}}}
	got := ""
	cfg.Check(func(ok bool, key string, value any, want string) {
		if !ok && key == "task.terminations.0.low" {
			got = fmt.Sprintf("%v: expected %s", value, want)
		}
	})
	if want := "2: expected no more than high, 1"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}
