package cli

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/bench"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

const initUsage = `rlinf init [--algorithm sac] [--ranks 4] -- python3 boat.py    # a simulator in a program of its own
rlinf init Pendulum-v1                                         # an environment of rlinf envs
rlinf init FOLDER                                              # a language model of Hugging Face`

const initDescription = "init asks for the spaces, and writes a configuration that trains into the current folder:\n" +
	"boat.yaml for boat.py. It overwrites no file."

func initFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "algorithm", Value: "ppo", Usage: "ppo, or sac for continuous actions"},
		args.Int(cli.IntFlag{Name: "ranks", Usage: "place all components on `N` ranks",
			DefaultText: "on all ranks of a start"}, 1, config.MaxRanks),
		&cli.StringFlag{Name: "out", Usage: "`FILE` to write", DefaultText: "named after the simulator"},
	}
}

// A starter writes the first configuration of a job.
type starter struct {
	algorithm string
	ranks     int    // 0: all ranks of a start
	name      string // of the file, without ending
	lacksData bool   // the user writes the data later, so the job cannot be checked
	text      strings.Builder
}

// runInit writes a configuration for a simulator, an environment or a language model.
func runInit(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub) error {
	words := c.Args().Slice()
	s := &starter{algorithm: c.String("algorithm"), ranks: c.Int("ranks")}
	var about string
	var err error
	switch info, missing := os.Stat(strings.Join(words, "")); {
	case len(words) == 0:
		return config.Usagef("init: expected the command of a simulator, a name of rlinf envs, or the folder of a " +
			"language model, as in rlinf init -- python3 boat.py")
	case len(words) == 1 && missing != nil && strings.Contains(words[0], "/") && reg.Envs.Find(words[0]) != nil:
		return config.Usagef("init: %s: no such folder", words[0])
	case len(words) == 1 && missing == nil && info.IsDir() && c.IsSet("algorithm"):
		return config.Usagef("init: --algorithm %s: expected none with the folder of a language model, which init "+
			"fine-tunes; docs/reasoning.md has the task reasoning", s.algorithm)
	case s.algorithm != "ppo" && s.algorithm != "sac":
		return config.Usagef("init: --algorithm %s: expected ppo or sac", s.algorithm)
	case len(words) == 1 && missing == nil && info.IsDir():
		about, err = s.languageModel(words[0])
	default:
		about, err = s.environment(words, reg, hub)
	}
	if err != nil {
		return config.UsageError{Err: err}
	}
	out := c.String("out")
	out = cmp.Or(out, s.name+".yaml")
	if _, err := os.Lstat(out); err == nil {
		return config.Usagef("init: %s exists: expected another file, as in --out other.yaml", out)
	}
	if err := durable.Writable(filepath.Dir(out)); err != nil {
		return config.Usagef("init: --out %s: expected a file in a folder that can be written: %w", out, err)
	}
	if !s.lacksData {
		if err := s.check(out, reg, tasks); err != nil {
			return config.UsageError{Err: fmt.Errorf("init: %w", err)}
		}
	}
	if err := durable.WriteFile(out, []byte(s.text.String())); err != nil {
		return err
	}
	program := printable.Quote(thisProgram())
	fmt.Fprintf(c.App.Writer, "%s: %s\n", printable.Line(out), printable.Line(about))
	for _, next := range []string{"check -c", "-c", "eval -c"} {
		fmt.Fprintf(c.App.Writer, "  %s %s %s\n", program, next, printable.Quote(out))
	}
	return nil
}

// check returns the mistakes of the configuration, which is not written yet.
func (s *starter) check(path string, reg config.Registries, tasks task.Tasks) error {
	cfg, _, err := config.LoadText(reg, path, []byte(s.text.String()), nil, false)
	if err != nil {
		return err
	}
	if err := cfg.Err(); err != nil {
		return err
	}
	_, err = tasks.Plan(cfg, reg, make([]int, s.startRanks()))
	return err
}

// startRanks returns the number of ranks on which the job starts here.
func (s *starter) startRanks() int {
	if s.ranks > 0 {
		return s.ranks
	}
	return min(runtime.NumCPU(), config.MaxRanks)
}

// line adds a line to the configuration. A comment begins in column 50.
func (s *starter) line(text, comment string) {
	if comment != "" {
		last := text[strings.LastIndexByte(text, '\n')+1:]
		text += strings.Repeat(" ", max(0, 48-len(last))) + "  # " + comment
	}
	s.text.WriteString(text + "\n")
}

// environment writes a job for an environment of this program, or for an external simulator with the command words.
func (s *starter) environment(words []string, reg config.Registries, hub *external.Hub) (about string, err error) {
	cfg := env.DefaultConfig()
	source, unit := "env_type: "+words[0], 1
	cfg.EnvType, s.name = words[0], strings.ToLower(words[0])
	if unknown := reg.Envs.Find(words[0]); unknown != nil || len(words) > 1 {
		if _, err := exec.LookPath(words[0]); err != nil && len(words) == 1 {
			if filepath.Ext(words[0]) == ".xml" {
				return "", fmt.Errorf("init: %s: an MJCF model needs a task in words, too: copy "+
					"configs/pendulum_own.yaml, and see docs/mjcf.md", words[0])
			}
			return "", fmt.Errorf("init: %w", unknown)
		}
		cfg.EnvType, cfg.External.Command, s.name = env.ExternalID, words, programName(words)
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = fmt.Sprintf("%q", w)
		}
		source = "env_type: external\n    external: { command: [" + strings.Join(quoted, ", ") + "] }"
		if cfg.External.Greeting, err = hub.Ask(cfg); err != nil {
			return "", fmt.Errorf("init: %w", err)
		}
		if unit, err = external.EnvsPerChild(cfg.External); err == nil {
			err = bench.TryEnv(reg, cfg, max(unit, 1))
		}
		if err != nil {
			return "", fmt.Errorf("init: %w", err)
		}
	}
	spec, err := reg.Probe(cfg)
	if err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	if low, high := bounds(spec.Action); s.algorithm == "sac" && low >= high {
		return "", fmt.Errorf("init: --algorithm sac: %s takes %v: expected bounded numbers, or --algorithm ppo",
			spec.Name, spec.Action)
	}
	if s.algorithm == "sac" && smallestImage(spec) > 0 {
		return "", fmt.Errorf("init: --algorithm sac: %s shows images: expected numbers, or --algorithm ppo", spec.Name)
	}
	s.job(spec, source, unit)
	return fmt.Sprintf("%s on %s, which shows %s and takes %v", strings.ToUpper(s.algorithm), spec.Name, shows(spec),
		spec.Action), nil
}

// job writes the sections of a job in environments. Each worker has a multiple of unit environments.
func (s *starter) job(spec env.Spec, source string, unit int) {
	sac, model, epochs := s.algorithm == "sac", "model: { ", 10
	if smallest := smallestImage(spec); smallest >= 36 { // pixels, which nature_cnn needs; impala is slow on more
		model, epochs = "model: { model_type: cnn_policy, encoder: nature_cnn, ", 4
	} else if smallest > 0 {
		model, epochs = "model: { model_type: cnn_policy, encoder: impala, ", 4
	}
	longest := spec.MaxSteps
	longest = cmp.Or(longest, 1000)
	per := max(unit, 1) * s.startRanks()
	envs := (16 + per - 1) / per * per
	s.line("# "+strings.ToUpper(s.algorithm)+" on "+spec.Name+": `rlinf help KEY` explains a key, "+
		"`rlinf check -c FILE` the job.", "")
	if s.ranks > 0 {
		s.line(fmt.Sprintf("cluster: { component_placement: { \"actor,env,rollout\": 0-%d } }", s.ranks-1), "")
	}
	steps, iterations := 128, 100
	if sac {
		steps, iterations = 1, 10000
	}
	s.line(fmt.Sprintf("runner: { max_steps: %d, val_check_interval: %d, save_interval: %[2]d }", iterations,
		iterations/10), "iterations")
	s.line("env:\n  train:\n    "+source, "")
	s.line(fmt.Sprintf("    total_num_envs: %d", envs), "simulated side by side, as many on each rank")
	s.line(fmt.Sprintf("    max_steps_per_rollout_epoch: %d", steps), "steps of each in an iteration")
	s.line(fmt.Sprintf("  eval: { total_num_envs: %d, max_steps_per_rollout_epoch: %d }", envs, longest),
		"an episode each, of at most so many steps")
	s.line("algorithm:", "")
	s.line(fmt.Sprintf("  gamma: %.3g", min(max(1-1/float64(longest), 0.95), 0.99)),
		"what a reward of the next step is worth now")
	if sac {
		s.line("  adv_type: embodied_sac\n  loss_type: embodied_sac", "")
		s.line("  update_epoch: 4", "updates of an iteration")
		s.line("  replay_buffer: { sample_window_size: 10000, min_buffer_size: 100 }", "in iterations")
		s.line("actor:\n  model: { hidden_sizes: [256, 256], activation: relu, add_q_head: true }", "")
		s.line("  optim: { lr: 1.0e-3, weight_decay: 0, clip_grad: 0 }", "")
		return
	}
	s.line(fmt.Sprintf("  gae_lambda: 0.95\n  update_epoch: %d", epochs), "passes over each iteration's samples")
	s.line("  normalize_advantages: minibatch\n  normalize_rewards: true", "any scale of rewards")
	model += "hidden_sizes: [64, 64]"
	if spec.Action.Kind == env.Box {
		model += ", init_log_std: -0.5"
	}
	if low, high := bounds(spec.Action); low < high && (high-low < 0.5 || high-low > 5 || low > 1 || high < -1) {
		model += ", action_bound: tanh" // clipped actions of about ±1 would hardly explore this range
	}
	s.line(fmt.Sprintf("actor:\n  global_batch_size: %d", envs*steps/16), "samples of an optimiser step")
	s.line("  "+model+", normalize_observations: true }", "")
	s.line("  optim: { lr: 1.0e-3, lr_scheduler: linear, weight_decay: 0, clip_grad: 0.5 }", "")
}

// smallestImage returns the shortest side of the images that spec shows, in pixels, or 0 if there is none.
func smallestImage(spec env.Spec) (side int) {
	for _, f := range spec.Obs {
		if f.DType != tensor.U8 || len(f.Shape) != 3 || f.Text {
			continue
		}
		if short := min(f.Shape[0], f.Shape[1]); side == 0 || short < side {
			side = short
		}
	}
	return side
}

// bounds returns the least lower bound and the greatest upper bound of a. They are 0 if an element of a is no number
// between two bounds.
func bounds(a env.Space) (low, high float32) {
	if a.Kind != env.Box {
		return 0, 0
	}
	for i := range a.Low {
		if l, h := a.Low[i], a.High[i]; !(l < h) || math.IsInf(float64(h)-float64(l), 0) {
			return 0, 0
		}
	}
	return slices.Min(a.Low), slices.Max(a.High)
}

// languageModel writes the fine-tuning of the model in a folder.
func (s *starter) languageModel(folder string) (about string, err error) {
	model, err := hf.ReadConfig(folder)
	if err != nil {
		return "", fmt.Errorf("init: %s: expected the folder of a language model: %w", folder, err)
	}
	s.name, s.lacksData = strings.ToLower(filepath.Base(filepath.Clean(folder))), true
	s.line("# LoRA fine-tuning. A line of train.jsonl is {\"prompt\": \"…\", \"answer\": \"…\"}.", "")
	if s.ranks > 0 {
		s.line(fmt.Sprintf("cluster: { component_placement: { actor: 0-%d } }", s.ranks-1), "")
	}
	s.line("runner:\n  task_type: sft\n  max_epochs: 3", "passes over train.jsonl")
	length := 512
	if most := model.MaxPositions; most > 0 {
		length = min(length, most)
	}
	s.line(fmt.Sprintf("  seq_length: %d", length), "the most tokens of a text, prompt and answer")
	s.line("  val_check_interval: 50\n  save_interval: 50", "steps")
	s.line("data:\n  train_data_paths: train.jsonl\n  val_data_paths: test.jsonl", "")
	s.line("  prompt_key: prompt\n  answer_key: answer", "the keys in a line")
	if k, err := tokenizer.Load(folder); err == nil {
		if _, err := k.ChatTemplate(""); err == nil {
			s.line("  apply_chat_template: true", "the model's folder has a template")
		}
	}
	s.line(fmt.Sprintf("actor:\n  global_batch_size: %d", (64+s.startRanks()-1)/s.startRanks()*s.startRanks()),
		"texts of a step")
	s.line("  micro_batch_size: 1", "texts that a rank trains on at once")
	s.line(fmt.Sprintf("  model: { model_type: %s, model_path: %q, is_lora: true, lora_rank: 16 }", model.Family,
		folder), "")
	s.line("  optim: { lr: 2.0e-4, lr_scheduler: cosine, lr_warmup_steps: 10 }", "")
	return "LoRA fine-tuning of " + folder + "; write train.jsonl and test.jsonl first (docs/tutorials/fine-tuning.md)",
		nil
}

// programName returns the name of a simulator for its configuration: that of the script or program, without its ending.
func programName(words []string) string {
	name := filepath.Base(words[0])
	for _, w := range words[1:] {
		if info, err := os.Stat(w); err == nil && info.Mode().IsRegular() {
			name = filepath.Base(w)
			break
		}
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// shows lists the observations of spec.
func shows(spec env.Spec) string {
	var all []string
	for _, f := range spec.Obs {
		all = append(all, f.Name+" "+f.Space.String())
	}
	return strings.Join(all, ", ")
}
