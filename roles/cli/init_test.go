package cli

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// TestInit: init writes a configuration of at most 25 lines that can be trained, and overwrites no file.
func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	test.OK(t, os.Rename(languageFolder(t), "qwen"))
	line := `{"prompt": "the hen", "answer": " and the hat"}` + "\n"
	for _, data := range []string{"train.jsonl", "test.jsonl"} {
		writeFile(t, data, strings.Repeat(line, 70))
	}
	for _, c := range []struct {
		args, file, says string
	}{
		{"CartPole-v1", "cartpole-v1.yaml", "PPO on CartPole-v1, which shows state Box("},
		{"--algorithm sac Pendulum-v1", "pendulum-v1.yaml", "SAC on Pendulum-v1, which shows state Box("},
		{"--ranks 4 --out four.yaml Pendulum-v1", "four.yaml", "PPO on Pendulum-v1"},
		{"qwen", "qwen.yaml", "LoRA fine-tuning of qwen; write train.jsonl"},
	} {
		code, out, errs := run(t, append([]string{"init"}, strings.Fields(c.args)...)...)
		if code != loop.ExitOK || !strings.HasPrefix(out, c.file+": "+c.says) {
			t.Errorf("%s: code %d\n%s%s", c.args, code, out, errs)
			continue
		}
		text, err := os.ReadFile(c.file)
		if n := strings.Count(string(text), "\n"); err != nil || n > 25 {
			t.Errorf("%s: %v, %d lines, want at most 25", c.args, err, n)
		}
		for _, args := range [][]string{{"check", "-c", c.file}, {"-c", c.file, "runner.max_steps=2",
			"runner.val_check_interval=2", "runner.save_interval=-1"}} {
			if code, out, errs := run(t, args...); code != loop.ExitOK || strings.Contains(errs, "no effect") {
				t.Errorf("%v: code %d\n%s%s", args, code, out, errs)
			}
		}
		again := "init: " + c.file + " exists: expected another file, as in --out other.yaml\n"
		code, _, errs = run(t, append([]string{"init"}, strings.Fields(c.args)...)...)
		if code != loop.ExitConfig || errs != again {
			t.Errorf("%s again: code %d, %s", c.args, code, errs)
		}
	}
	test.OK(t, os.Mkdir("empty", 0o777))
	for args, want := range map[string]string{
		"":                              "init: expected the command of a simulator, a name of rlinf envs, or",
		"arm.xml":                       "init: arm.xml: an MJCF model needs a task in words, too",
		"CartPol-v1":                    `init: unknown environment "CartPol-v1", did you mean CartPole-v1?`,
		"--algorithm dqn CartPole-v1":   "init: --algorithm dqn: expected ppo or sac",
		"--algorithm sac Acrobot-v1":    "init: --algorithm sac: Acrobot-v1 takes Discrete(3): expected bounded",
		"empty":                         "init: empty: expected the folder of a language model: ",
		"no-such-program boat.py":       "init: no-such-program boat.py: exec:",
		"./nosuch":                      "init: ./nosuch: no such folder",
		"--algorithm sac qwen":          "init: --algorithm sac: expected none with the folder of a language model",
		"--ranks 3 --out /no/x Acrobot": `init: unknown environment "Acrobot"`,
	} {
		code, _, errs := run(t, append([]string{"init"}, strings.Fields(args)...)...)
		if code != loop.ExitConfig || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: code %d, %s, want %s", args, code, errs, want)
		}
	}
	if files, err := filepath.Glob("*.yaml"); err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestInitTexts: the configuration of a language model has the model's positions and its chat template.
func TestInitTexts(t *testing.T) {
	dir := languageFolder(t)
	text := string(test.Must(os.ReadFile(filepath.Join(dir, "config.json")))(t))
	short := strings.Replace(text, `"max_position_embeddings": 512`, `"max_position_embeddings": 64`, 1)
	writeFile(t, filepath.Join(dir, "config.json"), short)
	writeFile(t, filepath.Join(dir, "chat_template.jinja"), "{{ messages }}")
	s := &starter{ranks: 1}
	test.Must(s.languageModel(dir))(t)
	for _, want := range []string{"seq_length: 64 ", "apply_chat_template: true"} {
		if got := s.text.String(); !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
}

// TestInitSuits: the settings suit the spaces, the length of an episode and the ranks.
func TestInitSuits(t *testing.T) {
	number := func(low, high float32) env.Space {
		return env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{low}, High: []float32{high}}
	}
	image := func(height, width int) []env.Field {
		space := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{height, width, 3}}
		return []env.Field{{Name: "image", Space: space}}
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name       string
		spec       env.Spec
		unit       int
		has, hasNo string
	}{
		{"watts", env.Spec{Action: number(0, 50000)}, 1, "action_bound: tanh", "cnn_policy"},
		{"millimetres", env.Spec{Action: number(-0.01, 0.01)}, 1, "action_bound: tanh", "cnn_policy"},
		{"a share", env.Spec{Action: number(0, 1)}, 1, "init_log_std: -0.5", "action_bound"},
		{"torques", env.Spec{Action: number(-2, 2)}, 1, "init_log_std: -0.5", "action_bound"},
		{"no bound", env.Spec{Action: number(5, inf)}, 1, "init_log_std: -0.5", "action_bound"},
		{"no choice", env.Spec{Action: number(9, 9)}, 1, "init_log_std: -0.5", "action_bound"},
		{"a small image", env.Spec{Obs: image(20, 64), Action: number(-1, 1)}, 1, "encoder: impala",
			"update_epoch: 10"},
		{"a large image", env.Spec{Obs: image(64, 36), Action: number(-1, 1)}, 1, "encoder: nature_cnn",
			"update_epoch: 10"},
		{"short episodes", env.Spec{MaxSteps: 40, Action: number(-1, 1)}, 1, "gamma: 0.975", "cnn_policy"},
		{"long episodes", env.Spec{MaxSteps: 4000, Action: number(-1, 1)}, 1, "gamma: 0.99 ", "cnn_policy"},
		{"children of 3", env.Spec{Action: number(-1, 1)}, 3, "total_num_envs: 18 ", "cnn_policy"},
		{"children of 24", env.Spec{Action: number(-1, 1)}, 24, "total_num_envs: 48 ", "cnn_policy"},
	} {
		s := &starter{algorithm: "ppo", ranks: 2}
		s.job(c.spec, "env_type: Any", c.unit)
		if text := s.text.String(); !strings.Contains(text, c.has) || strings.Contains(text, c.hasNo) {
			t.Errorf("%s: expected %q and no %q:\n%s", c.name, c.has, c.hasNo, text)
		}
	}
}
