package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// Parts as another module would bring them, one of each kind.
type (
	ownAlgorithm struct {
		Coef float32 `yaml:"my_coef" doc:"Weight of the entropy."`
	}
	ownPolicy struct {
		Width int `yaml:"my_width" doc:"Width of the hidden layer."`
	}
	ownWeather struct {
		Wind  float32 `yaml:"wind" doc:"Wind is subtracted from every reward."`
		Gusts struct {
			Every int `yaml:"every" doc:"Steps from one gust to the next."`
		} `yaml:"gusts"`
	}
	ownReward struct {
		Coef float32 `yaml:"my_coef" doc:"Weight of the score."`
	}
)

func (p ownAlgorithm) Check(want algo.Want) { want(p.Coef >= 0, "my_coef", p.Coef, "a number >= 0") }
func (p ownPolicy) Check(want func(ok bool, key string, value any, want string)) {
	want(p.Width > 0, "my_width", p.Width, "a width > 0")
}
func (p *ownWeather) Check(want func(ok bool, key string, value any, want string)) {
	want(p.Wind < 1, "wind", p.Wind, "a number < 1")
	want(p.Gusts.Every >= 0, "gusts.every", p.Gusts.Every, "0 or more steps")
}
func (p ownReward) Check(want func(ok bool, key string, value any, want string)) {
	want(p.Coef != 0, "my_coef", p.Coef, "a number other than 0")
}

// made records the arguments of the constructors of own parts, on all ranks.
type made struct {
	mu  sync.Mutex
	all map[string][]any
}

func (m *made) note(part string, own any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string][]any{}
	}
	m.all[part] = append(m.all[part], own)
}

// windy takes the wind from rewards.
type windy struct {
	env.Vec
	wind float32
}

func (w windy) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	err := w.Vec.Step(action, seeds, out)
	for i := range out.Reward.F32() {
		out.Reward.F32()[i] -= w.wind
	}
	return err
}

// withParts returns registries that have the own parts, too, beside others that they take keys from.
func withParts(got *made) config.Registries {
	reg := rolestest.Registries()
	algo.Register(reg.Algorithms, "gae", "my_loss", ownAlgorithm{Coef: 0.01},
		func(s algo.Setup, p ownAlgorithm) (algo.Algorithm, error) {
			got.note("algorithm", p)
			s.Config.LossType, s.Config.EntropyBonus = "actor_critic", p.Coef
			return algo.NewPPO(s)
		})
	policy.Register(reg.Policies, "my_policy", ownPolicy{Width: 8},
		func(cfg policy.Config, p ownPolicy, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy,
			error) {
			got.note("policy", p)
			cfg.HiddenSizes = []int{p.Width}
			return policy.NewMLP(cfg, spec, seed, alloc)
		})
	env.Register(reg.Envs, "Windy-v0", ownWeather{Wind: 0.25},
		func(cfg env.Config, p ownWeather, n int) (env.Vec, error) {
			got.note("env", p)
			cfg.EnvType, cfg.InitParams = "CartPole-v1", env.InitParams{}
			v, err := all.Registry().New(cfg, n)
			return windy{v, p.Wind}, err
		})
	reward.Register(reg.Rewards, "my_reward", ownReward{Coef: 1},
		func(s reward.Setup, p ownReward) (reward.Rule, error) {
			got.note("reward", p)
			return func(score []float32, b *reward.Batch) error {
				for i := range score {
					score[i] = p.Coef * b.Reward[i]
				}
				return nil
			}, nil
		})
	return reg
}

// ownJob writes a job of all own parts, with these lines in their sections.
func ownJob(t *testing.T, algorithm, model, train, reward string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.yaml")
	text := fmt.Sprintf(`cluster: {component_placement: {"actor,env,rollout,reward": 0}}
runner: {max_steps: 2, val_check_interval: 2, save_interval: 2, logger: {log_path: %s}}
algorithm:
  loss_type: my_loss
  normalize_rewards: false
%s
actor:
  micro_batch_size: 16
  global_batch_size: 16
  optim: {lr: 1e-3}
  model:
    model_type: my_policy
%s
env:
  train:
    env_type: Windy-v0
    total_num_envs: 4
    max_steps_per_rollout_epoch: 8
    init_params:
      id: null
%s
reward:
  reward_type: my_reward
%s
`, t.TempDir(), algorithm, model, train, reward)
	writeFile(t, path, text)
	return path
}

const ownFile = "own.yaml"

// TestOwnKeys: each part's constructor gets its keys with values of the defaults, the file and the command line.
func TestOwnKeys(t *testing.T) {
	weather := func(wind float32, every int) (w ownWeather) {
		w.Wind, w.Gusts.Every = wind, every
		return w
	}
	for _, c := range []struct {
		name string
		path string
		args []string
		want map[string]any
	}{
		{"defaults", ownJob(t, "", "", "", ""), nil,
			map[string]any{"algorithm": ownAlgorithm{0.01}, "policy": ownPolicy{8}, "env": weather(0.25, 0),
				"reward": ownReward{1}}},
		{"of the file", ownJob(t, "  my_coef: 0.5", "    my_width: 9", "      wind: 0.5\n      gusts: {every: 3}",
			"  my_coef: ${algorithm.my_coef}"), nil,
			map[string]any{"algorithm": ownAlgorithm{0.5}, "policy": ownPolicy{9}, "env": weather(0.5, 3),
				"reward": ownReward{0.5}}},
		{"of the command line", ownJob(t, "  my_coef: 0.5", "    my_width: 9", "      wind: 0.5", "  my_coef: 2"),
			[]string{"algorithm.my_coef=0.125", "++actor.model.my_width=10", "+env.train.init_params.gusts.every=7",
				"~reward.my_coef"},
			map[string]any{"algorithm": ownAlgorithm{0.125}, "policy": ownPolicy{10}, "env": weather(0.5, 7),
				"reward": ownReward{1}}},
		{"of a default", ownJob(t, "  my_coef: ${reward.my_coef}", "", "", ""), nil,
			map[string]any{"algorithm": ownAlgorithm{1}, "policy": ownPolicy{8}, "env": weather(0.25, 0),
				"reward": ownReward{1}}},
		{"on two ranks", ownJob(t, "  my_coef: 0.5", "    my_width: 9", "      wind: 0.5\n      gusts: {every: 3}",
			"  my_coef: 4"),
			[]string{"cluster.component_placement.actor,env,rollout,reward=0-1", "actor.micro_batch_size=8"},
			map[string]any{"algorithm": ownAlgorithm{0.5}, "policy": ownPolicy{9}, "env": weather(0.5, 3),
				"reward": ownReward{4}}},
	} {
		got := new(made)
		if code, _, stderr := runWith(t, withParts(got),
			append([]string{"-c", c.path}, c.args...)...); code != loop.ExitOK {
			t.Errorf("%s: exit code %d: %s", c.name, code, stderr)
			continue
		}
		for part, want := range c.want {
			if made := got.all[part]; len(made) == 0 || slices.ContainsFunc(made, func(own any) bool {
				return own != want
			}) {
				t.Errorf("%s: %s was made with %+v, want %+v", c.name, part, made, want)
			}
		}
	}
}

// TestOwnKeysMistakes: mistakes in own keys are reported like mistakes in built-in keys.
func TestOwnKeysMistakes(t *testing.T) {
	for _, c := range []struct {
		name, path string
		args, want []string
	}{
		{"types", ownJob(t, "  my_coef: lots", "    my_width: [1]", "      wind: {}\n      gusts: 3",
			"  my_coef: true"), nil, []string{
			"own.yaml:6: algorithm.my_coef: lots: expected a number",
			"own.yaml:13: actor.model.my_width: a list: expected a whole number",
			"own.yaml:21: env.train.init_params.wind: a map: expected a number",
			"own.yaml:22: env.train.init_params.gusts: 3: expected a map of settings",
			"own.yaml:25: reward.my_coef: true: expected a number",
		}},
		{"checks", ownJob(t, "  my_coef: -1", "    my_width: 0", "      wind: 2\n      gusts: {every: -1}",
			"  my_coef: 0"), nil, []string{
			"own.yaml:13: actor.model.my_width: 0: expected a width > 0",
			"own.yaml:6: algorithm.my_coef: -1: expected a number >= 0",
			"own.yaml:25: reward.my_coef: 0: expected a number other than 0",
			"own.yaml:21: env.train.init_params.wind: 2: expected a number < 1",
			"own.yaml:22: env.train.init_params.gusts.every: -1: expected 0 or more steps",
		}},
		{"typos", ownJob(t, "  my_ceof: 1", "    my_witdh: 3", "      wnid: 1\n      gusts: {evry: 2}",
			"  my_coeff: 1"), []string{"algorithm.gama=1"}, []string{
			"own.yaml:6: algorithm.my_ceof: unknown key, did you mean my_coef?",
			"command line: algorithm.gama: unknown key, did you mean gamma?",
			"own.yaml:13: actor.model.my_witdh: unknown key, did you mean my_width?",
			"own.yaml:21: env.train.init_params.wnid: unknown key, did you mean wind?",
			"own.yaml:22: env.train.init_params.gusts.evry: unknown key, did you mean every?",
			"own.yaml:25: reward.my_coeff: unknown key, did you mean my_coef?",
		}},
		{"others' keys", ownJob(t, "  my_coef: 1", "    my_width: 3", "      wind: 0.5", "  my_coef: 1"),
			[]string{"algorithm.loss_type=actor_critic", "actor.model.model_type=mlp_policy",
				"env.train.env_type=CartPole-v1", "reward.reward_type=env"}, []string{
				"own.yaml:6: algorithm.my_coef: a key of loss_type my_loss (with adv_type gae), which is not chosen",
				"own.yaml:13: actor.model.my_width: a key of model_type my_policy, which is not chosen",
				"own.yaml:21: env.train.init_params.wind: a key of env_type Windy-v0, which is not chosen",
				"own.yaml:24: reward.my_coef: a key of reward_type my_reward, which is not chosen",
			}},
		{"names that are not known, whose keys are not reported",
			ownJob(t, "  my_coef: 1", "    my_width: 3", "      wind: 0.5", "  my_coef: 1"),
			[]string{"algorithm.loss_type=my_los", "actor.model.model_type=my_polcy", "env.train.env_type=Windi-v0",
				"reward.reward_type=my_rewards"}, []string{
				"command line: actor.model.model_type: my_polcy: expected one of mlp_policy, cnn_policy, rnn_policy, " +
					"vla_policy, my_policy",
				"command line: env.train.env_type: Windi-v0: expected a known environment: unknown environment " +
					"\"Windi-v0\", did you mean Windy-v0?",
				"command line: reward.reward_type: my_rewards: expected one of env, success, potential, my_reward",
				"command line: algorithm.loss_type: my_los: expected one of actor_critic, actor, " +
					"decoupled_actor_critic, a2c, my_loss (with adv_type gae)",
			}},
	} {
		t.Run(c.name, func(t *testing.T) { refuseOwn(t, c.path, c.args, c.want) })
	}
}

// refuseOwn runs a job with own keys, and compares its errors without the lists of known names.
func refuseOwn(t *testing.T, path string, args, want []string) {
	t.Helper()
	t.Chdir(filepath.Dir(path))
	code, _, stderr := runWith(t, withParts(new(made)), append([]string{"-c", ownFile}, args...)...)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for i := range lines {
		lines[i], _, _ = strings.Cut(lines[i], " Known: ")
	}
	rolestest.Expect(t, "errors", lines, want...)
	test.Equal(t, code, loop.ExitConfig, "exit code")
}

// TestOwnKeysOfEvaluation: if evaluations have another environment, it has keys and defaults of its own.
func TestOwnKeysOfEvaluation(t *testing.T) {
	reg := withParts(new(made))
	env.Register(reg.Envs, "Calm-v0", ownWeather{Wind: -1}, func(cfg env.Config, p ownWeather, n int) (env.Vec, error) {
		return nil, errors.ErrUnsupported
	})
	path := ownJob(t, "", "", "      wind: 0.5\n      gusts: {every: 2}", "")
	for _, c := range []struct {
		override string
		want     float32
	}{{"env.eval.env_type=Calm-v0", -1}, {"env.eval={env_type: Calm-v0, init_params: {wind: -3}}", -3},
		{"env.eval.init_params.wind=-2", -2}} {
		cfg, _, err := config.Load(reg, path, []string{c.override}, false)
		if err != nil {
			t.Errorf("%s: %v", c.override, err)
			continue
		}
		train, eval := cfg.Env.Train.InitParams.Own.Values().(*ownWeather),
			cfg.Env.Eval.InitParams.Own.Values().(*ownWeather)
		if train.Wind != 0.5 || eval.Wind != c.want || eval.Gusts.Every == 2 == (c.want != -2) {
			t.Errorf("%s: train %+v, eval %+v, want a wind of %v there", c.override, *train, *eval, c.want)
		}
	}
	if _, _, err := config.Load(reg, path, []string{"env.eval.env_type=CartPole-v1", "env.eval.init_params.wind=1"},
		false); err == nil ||
		!strings.Contains(err.Error(), "env.eval.init_params.wind: a key of env_type Windy-v0, which is not chosen") {
		t.Errorf("a key of evaluation in another environment: %v", err)
	}
}

// TestOwnKeysResolved: own keys are in the configuration that ranks and later runs read, once each.
func TestOwnKeysResolved(t *testing.T) {
	reg := withParts(new(made))
	cfg, _, err := config.Load(reg, ownJob(t, "  my_coef: 0.5", "    my_width: 9", "      gusts: {every: 3}",
		"  my_coef: 2"), nil, false)
	test.OK(t, err)
	text := string(cfg.Resolved())
	for key, times := range map[string]int{"\n    my_coef: 0.5\n": 1, "\n        my_width: 9\n": 1, "every: 3\n": 2,
		"wind: 0.25\n": 2, "\n    my_coef: 2\n": 1} {
		if got := strings.Count(text, key); got != times {
			t.Errorf("%q %d times, want %d\n%s", key, got, times, text)
		}
	}
	other, _, err := config.Load(reg, ownJob(t, "", "", "", ""), nil, false)
	if got := other.Algorithm.Own.Values().(*ownAlgorithm).Coef; err != nil || got != 0.01 {
		t.Errorf("another configuration has %v (%v), want the default 0.01", got, err)
	}
	again, err := config.Parse(reg, []byte(text))
	if err != nil || string(again.Resolved()) != text {
		t.Errorf("read again (%v):\n%s\nwant\n%s", err, again.Resolved(), text)
	}
}

// TestOwnKeysResume: a run with another value of an own key does not go on from the checkpoint.
func TestOwnKeysResume(t *testing.T) {
	path := ownJob(t, "  my_coef: 0.5", "", "", "")
	if code, _, stderr := runWith(t, withParts(new(made)), "-c", path); code != loop.ExitOK {
		t.Fatal(stderr)
	}
	for override, want := range map[string]string{
		"algorithm.my_coef=0.25":          "algorithm.my_coef: 0.5 then, 0.25 now",
		"actor.model.my_width=7":          "actor.model.my_width: 8 then, 7 now",
		"env.train.init_params.wind=0.75": "env.train.init_params.wind: 0.25 then, 0.75 now",
		"reward.my_coef=3":                "reward.my_coef: 1 then, 3 now",
	} {
		if code, _, stderr := runWith(t, withParts(new(made)), "-c", path, "--resume", "auto",
			override); code != loop.ExitConfig || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s\nwant %s", override, code, stderr, want)
		}
	}
	if code, _, stderr := runWith(t, withParts(new(made)), "-c", path, "--resume", "auto",
		"runner.max_steps=4"); code != loop.ExitOK {
		t.Errorf("the same values: %s", stderr)
	}
}

// TestOwnKeysInCheck: rlinf check has a line for each own key that is given, and says which commands show the others.
func TestOwnKeysInCheck(t *testing.T) {
	t.Chdir(filepath.Dir(ownJob(t, "", "", "      wind: 0.5", "")))
	code, stdout, stderr := runWith(t, withParts(new(made)), "check", "-c", ownFile, "+reward.my_coef=2")
	if code != loop.ExitOK {
		t.Fatal(stderr)
	}
	program := printable.Quote(os.Args[0]) + " config "
	want := "env.train.init_params.wind 0.5 (own.yaml:21) Wind is subtracted from every reward.\n" +
		"env.eval.init_params.wind 0.5 (own.yaml:21) Wind is subtracted from every reward.\n" +
		"reward.my_coef 2 (command line) Weight of the score.\n" +
		"defaults of 4 other keys: " + program + "algorithm, " + program + "env.train.init_params, " +
		program + "env.eval.init_params, " + program + "actor.model\nverdict: "
	var lines []string
	for line := range strings.Lines(stdout) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if got := strings.Join(lines, "\n"); !strings.Contains(got, want) || strings.Contains(got, "(default)") {
		t.Errorf("no lines %q in\n%s", want, got)
	}
}
