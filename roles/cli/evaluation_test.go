package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

const evaluatedYAML = `
cluster: {component_placement: {"actor,rollout,env": 0}}
runner: {max_steps: 4, save_interval: 2, val_check_interval: 2, logger: {log_path: %s, experiment_name: r}}
env:
  train: {env_type: StandIn-v0, total_num_envs: 4, max_steps_per_rollout_epoch: 8, rollout_epoch: 2, max_episode_steps: 12, reward_coef: 3, seed: 1}
  eval: {total_num_envs: 6}
algorithm: {adv_type: gae, loss_type: actor_critic, clip_ratio_low: 0.2, clip_ratio_high: 0.2, gamma: 0.99}
actor: {micro_batch_size: 32, global_batch_size: 64, optim: {lr: 5.0e-2}, model: {model_type: mlp_policy, hidden_sizes: [8]}}
`

// An evaluationJob has a configuration and a run r with checkpoints of the steps 2 and 4.
type evaluationJob struct {
	dir, file string // of the runs, and of the configuration
}

// trainedJob trains the job of evaluatedYAML.
func trainedJob(t *testing.T) evaluationJob {
	t.Helper()
	dir := t.TempDir()
	j := evaluationJob{dir, filepath.Join(dir, "job.yaml")}
	test.OK(t, os.WriteFile(j.file, fmt.Appendf(nil, evaluatedYAML, dir), 0o666))
	j.train(t)
	return j
}

// train runs the job with overrides, to its end.
func (j evaluationJob) train(t *testing.T, overrides ...string) {
	t.Helper()
	if code, _, said := j.call(t, append([]string{"-c", j.file}, overrides...)...); code != loop.ExitOK {
		t.Fatal(said)
	}
}

// call is a command line; the figures are those that --json prints.
func (j evaluationJob) call(t *testing.T, args ...string) (code int, figures map[string]any, said string) {
	t.Helper()
	sim := standIn{obs: 2, act: 2}
	code, out, errs := runWith(t, sim.registries(), args...)
	if code == loop.ExitOK && slices.Contains(args, "--json") {
		if err := json.Unmarshal([]byte(out), &figures); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return code, figures, out + errs
}

// eval returns the command line that evaluates the job, with more arguments behind it.
func (j evaluationJob) eval(args ...string) []string {
	return append([]string{"eval", "-c", j.file, "--json"}, args...)
}

// checkpoint returns the folder of a checkpoint of the run.
func (j evaluationJob) checkpoint(run string, step int) string {
	return filepath.Join(j.dir, run, "checkpoints", fmt.Sprint("global_step_", step))
}

// TestEvaluatedCheckpoint: the newest checkpoint is evaluated where no flag and no key names another one.
func TestEvaluatedCheckpoint(t *testing.T) {
	j := trainedJob(t)
	second, fourth, missing := j.checkpoint("r", 2), j.checkpoint("r", 4), j.checkpoint("r", 9)
	if _, got, said := j.call(t, j.eval()...); got["checkpoint"] != fourth || got["episodes"] != 6.0 {
		t.Fatalf("eval: %v, expected 6 episodes with %s", said, fourth)
	}
	only := []string{"-c", j.file, "runner.only_eval=true"}
	task := []string{"-c", j.file, "runner.task_type=embodied_eval"}
	both := []string{"--resume", second, "runner.resume_dir=" + fourth}
	for name, c := range map[string]struct {
		args []string
		want string // in what is said; "" where the checkpoint is refused
	}{
		"flag":                 {j.eval("--checkpoint", second), second},
		"key":                  {j.eval("runner.resume_dir=" + second), second},
		"flag before key":      {j.eval("runner.resume_dir="+second, "--checkpoint", fourth), fourth},
		"auto":                 {j.eval("runner.resume_dir=auto"), fourth},
		"decimal episodes":     {j.eval("--episodes", "012"), `"episodes":12`},
		"only_eval":            {only, fourth},
		"only_eval, key":       {slices.Concat(only, []string{"runner.resume_dir=" + second}), second},
		"only_eval, flag":      {slices.Concat(only, []string{"--resume", second}), second},
		"only_eval, auto":      {slices.Concat(only, []string{"--resume", "auto"}), fourth},
		"task, flag and key":   {slices.Concat(task, both), second},
		"task, key":            {slices.Concat(task, []string{"runner.resume_dir=" + second}), second},
		"missing, key":         {j.eval("runner.resume_dir=" + missing), ""},
		"missing, flag":        {slices.Concat(only, []string{"--resume", missing}), ""},
		"auto without a run":   {j.eval("runner.resume_dir=auto", "runner.logger.experiment_name=none"), ""},
		"no name, two words":   {j.eval("--checkpoint", ""), ""},
		"no name, one word":    {j.eval("--checkpoint="), ""},
		"no name, in training": {[]string{"-c", j.file, "--resume", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, said := j.call(t, c.args...)
			wantCode := loop.ExitOK
			if c.want == "" {
				wantCode = loop.ExitConfig
			}
			if code != wantCode || !strings.Contains(said, c.want) {
				t.Errorf("%v: exit code %d, expected %d and %q in\n%s", c.args, code, wantCode, c.want, said)
			}
		})
	}
}

// TestEvaluatedByOwnConfiguration: with its own config.yaml, a run that began with a checkpoint or with weights is
// evaluated at its newest checkpoint, unless the command line names other weights.
func TestEvaluatedByOwnConfiguration(t *testing.T) {
	j := trainedJob(t)
	j.train(t, "runner.resume_dir="+j.checkpoint("r", 2), "runner.max_steps=6")
	own := []string{"eval", "-c", filepath.Join(j.dir, "r", "config.yaml"), "--json", "--strict"}
	if _, got, said := j.call(t, own...); got["checkpoint"] != j.checkpoint("r", 6) {
		t.Errorf("config.yaml of a resumed run: %v, expected %s", said, j.checkpoint("r", 6))
	}
	weights := filepath.Join(j.checkpoint("r", 2), "model.safetensors")
	j.train(t, "runner.ckpt_path="+weights, "runner.logger.experiment_name=w")
	own = []string{"eval", "-c", filepath.Join(j.dir, "w", "config.yaml"), "--json"}
	if _, got, said := j.call(t, own...); got["checkpoint"] != j.checkpoint("w", 4) {
		t.Errorf("config.yaml of a run that began with weights: %v", said)
	}
	if _, got, said := j.call(t, append(own, "runner.ckpt_path="+weights)...); got["checkpoint"] != weights {
		t.Errorf("other weights than the run's: %v", said)
	}
}

// TestMovedSchedule: a longer run warns if the schedule of its learning rate gets another end.
func TestMovedSchedule(t *testing.T) {
	j := trainedJob(t)
	scheduled := []string{"runner.logger.experiment_name=t", "actor.optim.lr_scheduler=linear"}
	j.train(t, scheduled...)
	for _, steps := range []int{4, 6} { // 6 trains on, so it comes last
		again := []string{"-c", j.file, "--resume", "auto", fmt.Sprint("runner.max_steps=", steps)}
		_, _, said := j.call(t, append(again, scheduled...)...)
		if want := steps == 6; strings.Contains(said, "actor.optim.total_training_steps fixes its end") != want {
			t.Errorf("resumed with max_steps %d: says that the schedule moves: expected %v\n%s", steps, want, said)
		}
	}
}

// TestEvaluationKeys: an evaluation uses, reports or refuses each key of env.eval. Keys with the mark elsewhere have
// tests of their own.
func TestEvaluationKeys(t *testing.T) {
	const works, reported, refused, elsewhere = "works", "reported", "refused", "elsewhere"
	keys := map[string]struct{ value, want string }{
		"total_num_envs": {"3", works}, "rollout_epoch": {"2", works}, "max_steps_per_rollout_epoch": {"3", works},
		"max_episode_steps": {"5", works}, "ignore_terminations": {"true", works}, "group_size": {"3", works},
		"seed": {"7", works}, "action_repeat": {"2", works}, "reward_mode": {"only_success", works},
		"auto_reset": {"true", reported}, "use_rel_reward": {"true", reported}, "person": {"{share: 0.5}", reported},
		"reward_coef": {"2", reported},
		"reward_clip": {"0.1", reported}, "instruction_mix": {"success", refused}, "model_path": {"x", refused},
		"task": {"{}", refused}, "frame_stack": {"2", refused}, "state_elements": {"[0]", refused},
		"env_type": {"CartPole-v1", refused}, "init_params": {"{id: CartPole-v1}", refused},
		"external": {"{command: x}", refused}, "use_fixed_reset_state_ids": {"true", elsewhere},
		"split": {"", elsewhere}, "perturb": {"", elsewhere}, "instructions": {"", elsewhere},
		"observations": {"", elsewhere}, "video_cfg": {"", elsewhere}, "step_delay": {"", elsewhere},
		"step_delay_max": {"", elsewhere}, "data_collection": {"{enabled: true}", works},
	}
	for f := range reflect.TypeFor[env.Config]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if _, ok := keys[key]; !ok {
			t.Errorf("env.eval.%s: say in this test whether evaluations follow it", key)
		}
	}
	j := trainedJob(t)
	_, base, _ := j.call(t, j.eval()...)
	for key, k := range keys {
		if k.want == elsewhere {
			continue
		}
		t.Run(key, func(t *testing.T) {
			code, got, said := j.call(t, j.eval("++env.eval."+key+"="+k.value)...)
			is := works
			switch {
			case code == loop.ExitConfig:
				is = refused
			case strings.Contains(said, "    env.eval."+key+" "):
				is = reported
			case reflect.DeepEqual(got, base):
				is = "ignored without a word"
			}
			if is != k.want {
				t.Errorf("env.eval.%s=%s: %s, expected %s\n%s", key, k.value, is, k.want, said)
			}
		})
	}
}

// TestEvaluatedTwice: with rollout_epoch 2 an evaluation has twice the episodes. They begin with new states, unless the
// states are fixed, and are the same on any number of ranks and in training.
func TestEvaluatedTwice(t *testing.T) {
	j := trainedJob(t)
	_, base, _ := j.call(t, j.eval()...)
	twice := func(more ...string) map[string]any {
		_, got, _ := j.call(t, append(j.eval("env.eval.rollout_epoch=2"), more...)...)
		return got
	}
	if got := twice(); got["episodes"] != 12.0 || got["eval/return"] == base["eval/return"] {
		t.Errorf("rollout_epoch=2: %v, once: %v", got, base)
	}
	fixed := twice("env.eval.use_fixed_reset_state_ids=true")
	if fixed["episodes"] != 12.0 || fixed["eval/return_min"] != base["eval/return_min"] {
		t.Errorf("the same twice: %v, once: %v", fixed, base)
	}
	if got := twice("-np", "3"); !reflect.DeepEqual(got, twice()) {
		t.Errorf("rollout_epoch=2 on three ranks: %v", got)
	}
	const trains = "runner.logger.experiment_name=s"
	for _, placement := range []string{"{'actor,rollout,env': 0}", "{actor: 0, rollout: 1, env: 2}"} {
		t.Run("training with "+placement, func(t *testing.T) {
			j.train(t, "env.eval.rollout_epoch=2", trains, "~cluster.component_placement",
				"++cluster.component_placement="+placement)
			metrics, _ := os.ReadFile(filepath.Join(j.dir, "s", "metrics.jsonl"))
			lines := strings.Split(strings.TrimSpace(string(metrics)), "\n")
			var last map[string]any
			test.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
			got := twice(trains)
			if last["eval/num_trajectories"] != 12.0 || got["eval/return"] != last["eval/return"] {
				t.Errorf("training evaluates %v of %v episodes, rlinf eval %v",
					last["eval/return"], last["eval/num_trajectories"], got)
			}
		})
	}
}
