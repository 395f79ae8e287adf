package env_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
)

func TestConfigYAML(t *testing.T) {
	cfg := env.DefaultConfig()
	text := `
env_type: maniskill
init_params: {id: PickCube-v1}
total_num_envs: 64
max_steps_per_rollout_epoch: 128
auto_reset: false
group_size: 8
reward_coef: 0.1
step_delay: 2ms
`
	test.OK(t, yaml.Unmarshal([]byte(text), &cfg))
	want := env.DefaultConfig()
	want.EnvType, want.InitParams.ID = "maniskill", "PickCube-v1"
	want.TotalNumEnvs, want.MaxStepsPerRolloutEpoch = 64, 128
	want.AutoReset, want.GroupSize, want.RewardCoef, want.StepDelay = false, 8, 0.1, 2*time.Millisecond
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("%+v, want %+v", cfg, want)
	}
	if cfg.ID() != "PickCube-v1" {
		t.Errorf("ID %q", cfg.ID())
	}
}

func TestConfigCheck(t *testing.T) {
	good := env.DefaultConfig()
	good.EnvType, good.TotalNumEnvs, good.MaxStepsPerRolloutEpoch, good.GroupSize = "CartPole-v1", 8, 16, 4
	for _, c := range []struct {
		spoil func(*env.Config)
		want  string // the invalid keys
	}{
		{func(c *env.Config) {}, ""},
		{func(c *env.Config) { c.EnvType = "" }, "env_type"},
		{func(c *env.Config) { c.TotalNumEnvs = 0 }, "total_num_envs"},
		{func(c *env.Config) { c.TotalNumEnvs = 6 }, "total_num_envs"},
		{func(c *env.Config) { c.RolloutEpoch = 0 }, "rollout_epoch"},
		{func(c *env.Config) { c.MaxStepsPerRolloutEpoch = -1 }, "max_steps_per_rollout_epoch"},
		{func(c *env.Config) { c.MaxEpisodeSteps = -1 }, "max_episode_steps"},
		{func(c *env.Config) { c.GroupSize = 0 }, "group_size"},
		{func(c *env.Config) { c.RewardCoef = 0 }, "reward_coef"},
		{func(c *env.Config) { c.RewardClip = -1 }, "reward_clip"},
		{func(c *env.Config) { c.ActionRepeat = 0; c.FrameStack = 0 }, "action_repeat frame_stack"},
		{func(c *env.Config) { c.TotalNumEnvs = 1e12 }, "total_num_envs"},
		{func(c *env.Config) { c.ActionRepeat = 1e9; c.FrameStack = 1e9 }, "action_repeat frame_stack"},
		{func(c *env.Config) { c.StepDelay = -1 }, "step_delay"},
		{func(c *env.Config) { c.RewardMode = "sparse" }, "reward_mode"},
		{func(c *env.Config) { c.EnvType, c.External.Listen = env.ExternalID, "unix:/tmp/s" }, ""},
		{func(c *env.Config) { c.EnvType, c.External.Listen = env.ExternalID, "unix:" }, "external.listen"},
		{func(c *env.Config) {
			c.EnvType, c.External.Listen = env.ExternalID, "unix:"+strings.Repeat("x", env.MaxSocketPath+1)
		}, "external.listen"},
		{func(c *env.Config) { c.EnvType, c.External.Command = env.ExternalID, env.Command{""} }, "external.command"},
		{func(c *env.Config) {
			c.EnvType, c.External.Command, c.External.TokenFile = env.ExternalID, env.Command{"sim"}, "token"
		}, "external.token_file"},
	} {
		cfg := good
		c.spoil(&cfg)
		var got []string
		cfg.Check(func(ok bool, key string, value any, want string) {
			if !ok {
				got = append(got, key)
			}
		})
		if strings.Join(got, " ") != c.want {
			t.Errorf("complaints about %v, want %q", got, c.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := all.Registry()
	names := r.Names()
	if names[0] != "CartPole-v1" {
		t.Errorf("Names: %v", names)
	}
	made := 0
	for _, name := range names {
		if name == "mujoco" {
			continue // wants a model
		}
		cfg := env.DefaultConfig()
		cfg.EnvType = name
		v, err := r.New(cfg, 3)
		if errors.Is(err, env.ErrNotBuilt) {
			if !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), "scripts/build --tags") {
				t.Errorf("%s: %v, want the build command", name, err)
			}
			continue
		}
		test.OK(t, err)
		made++
		if v.Spec().Name != name || v.Len() != 3 || v.Spec().MaxSteps == 0 {
			t.Errorf("%s: %s of %d, limit %d", name, v.Spec().Name, v.Len(), v.Spec().MaxSteps)
		}
		test.Check(t, v.Close())
	}
	cfg := env.Config{EnvType: "CartPole-v1", ModelPath: "robot.xml", Task: &env.Task{}}
	test.Fails(t, test.Err(r.New(cfg, 1)), "robot.xml", "CartPole with a model")
	for key, cfg := range map[string]env.Config{
		"frame_stack 1000000000 of observation state, 4 numbers: expected at most 4194304": {EnvType: "CartPole-v1",
			FrameStack: 1e9},
		"observations": {EnvType: "CartPole-v1", Observations: []string{"image"}},
		"reward_mode":  {EnvType: "Pendulum-v1", RewardMode: env.RewardOnlySuccess},
	} {
		test.Fails(t, test.Err(r.New(cfg, 1)), key, "with %s", key)
	}
	if made < 5 {
		t.Errorf("made %d environments, want those that need only Go at least", made)
	}
	if _, err := r.New(env.Config{EnvType: "CartPole-v1"}, 0); err == nil {
		t.Error("0 environments gave no error")
	}
}

func TestRegistryUnknown(t *testing.T) {
	for name, near := range map[string]string{"cartpole": "CartPole-v1", "Pendulum-v0": "Pendulum-v1",
		"MountainCarContinous-v0": "MountainCarContinuous-v0", "Zork": ""} {
		_, err := all.Registry().New(env.Config{EnvType: name}, 1)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		msg := err.Error()
		if !strings.Contains(msg, fmt.Sprintf("%q", name)) ||
			!strings.Contains(msg, "Known: CartPole-v1, Pendulum-v1, ") {
			t.Errorf("%s: %s", name, msg)
		}
		if hint := near != "" && strings.Contains(msg, "did you mean "+near+"?"); hint != (near != "") ||
			near == "" && strings.Contains(msg, "did you mean") {
			t.Errorf("%s: %s, want a hint at %q", name, msg, near)
		}
	}
}

func TestRegistryOwnLimit(t *testing.T) {
	r := env.NewRegistry()
	sim := &counter{state: make([]float32, 1)}
	r.Add("Stubborn", func(_ env.Config, n int) (env.Vec, error) { return env.NewEpisodic(sim, env.Config{}), nil })
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps = "Stubborn", 9
	if _, err := r.New(cfg, 1); err == nil || !strings.Contains(err.Error(), "max_episode_steps 9") || !sim.closed {
		t.Errorf("a limit that is not taken: %v, closed %v", err, sim.closed)
	}
	cfg.MaxEpisodeSteps = 5
	if _, err := r.New(cfg, 1); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name twice did not panic")
		}
	}()
	r.Add("Stubborn", nil)
}
