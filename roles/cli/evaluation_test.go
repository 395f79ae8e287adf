package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
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

// TestEvaluationKeys: an evaluation does what its keys and flags ask for, or says that it does not.
func TestEvaluationKeys(t *testing.T) {
	dir := t.TempDir()
	file, run := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "r")
	if err := os.WriteFile(file, fmt.Appendf(nil, evaluatedYAML, dir), 0o666); err != nil {
		t.Fatal(err)
	}
	sim := standIn{obs: 2, act: 2}
	call := func(args ...string) (code int, figures map[string]any, errs string) {
		code, out, errs := runWith(t, sim.registries(), args...)
		if code == loop.ExitOK && slices.Contains(args, "--json") {
			if err := json.Unmarshal([]byte(out), &figures); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
		return code, figures, out + errs
	}
	if code, _, errs := call("-c", file); code != loop.ExitOK {
		t.Fatal(errs)
	}
	checkpoint := func(step int) string { return filepath.Join(run, "checkpoints", fmt.Sprint("global_step_", step)) }
	eval := []string{"eval", "-c", file, "--json"}
	_, base, _ := call(eval...)
	if base["checkpoint"] != checkpoint(4) || base["episodes"] != 6.0 {
		t.Fatalf("eval: %v", base)
	}

	// what is evaluated
	for _, tc := range []struct {
		args []string
		want string // in what is said; "" where the checkpoint is refused
	}{
		{append(eval, "--checkpoint", checkpoint(2)), checkpoint(2)},
		{append(eval, "runner.resume_dir="+checkpoint(2)), checkpoint(2)},
		{append(eval, "runner.resume_dir="+checkpoint(2), "--checkpoint", checkpoint(4)), checkpoint(4)},
		{append(eval, "runner.resume_dir=auto"), checkpoint(4)},
		{append(eval, "--episodes", "012"), `"episodes":12`},
		{[]string{"-c", file, "runner.only_eval=true"}, checkpoint(4)},
		{[]string{"-c", file, "runner.only_eval=true", "runner.resume_dir=" + checkpoint(2)}, checkpoint(2)},
		{[]string{"-c", file, "runner.only_eval=true", "--resume", checkpoint(2)}, checkpoint(2)},
		{[]string{"-c", file, "runner.only_eval=true", "--resume", "auto"}, checkpoint(4)},
		{[]string{"-c", file, "runner.task_type=embodied_eval", "--resume", checkpoint(2),
			"runner.resume_dir=" + checkpoint(4)}, checkpoint(2)},
		{[]string{"-c", file, "runner.task_type=embodied_eval", "runner.resume_dir=" + checkpoint(2)}, checkpoint(2)},
		{append(eval, "runner.resume_dir="+checkpoint(9)), ""},
		{[]string{"-c", file, "runner.only_eval=true", "--resume", checkpoint(9)}, ""},
		{append(eval, "runner.resume_dir=auto", "runner.logger.experiment_name=none"), ""},
		{append(eval, "--checkpoint", ""), ""},
		{append(eval, "--checkpoint="), ""},
		{[]string{"-c", file, "--resume", ""}, ""},
	} {
		code, _, said := call(tc.args...)
		if tc.want == "" && code != loop.ExitConfig || tc.want != "" &&
			(code != loop.ExitOK || !strings.Contains(said, tc.want)) {
			t.Errorf("%v: exit code %d, expected %q in\n%s", tc.args[2:], code, tc.want, said)
		}
	}
	// A run that began with a checkpoint is evaluated with its newest, by its own configuration.
	if code, _, errs := call("-c", file, "runner.resume_dir="+checkpoint(2),
		"runner.max_steps=6"); code != loop.ExitOK {
		t.Fatal(errs)
	}
	own := []string{"eval", "-c", filepath.Join(run, "config.yaml"), "--json", "--strict"}
	if _, got, said := call(own...); got["checkpoint"] != checkpoint(6) {
		t.Errorf("config.yaml of a resumed run: %v, expected %s", said, checkpoint(6))
	}

	// So is one that began with weights, unless others are named now.
	weights, begun := filepath.Join(checkpoint(2), "model.safetensors"), filepath.Join(dir, "w")
	if code, _, errs := call("-c", file, "runner.ckpt_path="+weights,
		"runner.logger.experiment_name=w"); code != loop.ExitOK {
		t.Fatal(errs)
	}
	own = []string{"eval", "-c", filepath.Join(begun, "config.yaml"), "--json"}
	if _, got, said := call(own...); got["checkpoint"] != filepath.Join(begun, "checkpoints", "global_step_4") {
		t.Errorf("config.yaml of a run that began with weights: %v", said)
	}
	if _, got, said := call(append(own, "runner.ckpt_path="+weights)...); got["checkpoint"] != weights {
		t.Errorf("other weights than the run's: %v", said)
	}

	// A schedule that ends elsewhere in a longer run is said.
	scheduled := []string{"-c", file, "runner.logger.experiment_name=t", "actor.optim.lr_scheduler=linear"}
	if code, _, errs := call(scheduled...); code != loop.ExitOK {
		t.Fatal(errs)
	}
	for steps, want := range map[string]bool{"4": false, "6": true} {
		_, _, said := call(append(scheduled, "--resume", "auto", "runner.max_steps="+steps)...)
		if strings.Contains(said, "actor.optim.total_training_steps fixes its end") != want {
			t.Errorf("resumed with max_steps %s: says that the schedule moves: expected %v\n%s", steps, want, said)
		}
	}

	// how it is evaluated: every key of env.eval
	const works, reported, elsewhere = "works", "reported", "elsewhere"
	keys := map[string]struct{ value, want string }{
		"total_num_envs": {"3", works}, "rollout_epoch": {"2", works}, "max_steps_per_rollout_epoch": {"3", works},
		"max_episode_steps": {"5", works}, "ignore_terminations": {"true", works}, "group_size": {"3", works},
		"seed":          {"7", works},
		"action_repeat": {"2", works}, "reward_mode": {"only_success", works},
		"use_fixed_reset_state_ids": {"true", elsewhere},
		"auto_reset":                {"true", reported}, "use_rel_reward": {"true", reported},
		"reward_coef": {"2", reported}, "reward_clip": {"0.1", reported},
		"instruction_mix": {"success", "refused"}, "split": {"", elsewhere}, "perturb": {"", elsewhere},
		"instructions": {"", elsewhere},
		"observations": {"", elsewhere}, "model_path": {"x", "refused"}, "task": {"{}", "refused"},
		"frame_stack":    {"2", "refused"},
		"state_elements": {"[0]", "refused"}, "env_type": {"CartPole-v1", "refused"},
		"init_params": {"{id: CartPole-v1}", "refused"},
		"external":    {"{command: x}", "refused"}, "video_cfg": {"", elsewhere}, "step_delay": {"", elsewhere},
		"step_delay_max": {"", elsewhere},
	}
	of := reflect.TypeFor[env.Config]()
	for i := range of.NumField() {
		key, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		if _, ok := keys[key]; !ok {
			t.Errorf("env.eval.%s: say in this test whether evaluations follow it", key)
		}
	}
	_, base, _ = call(eval...)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		k := keys[key]
		if k.want == elsewhere {
			continue
		}
		code, got, said := call(append(eval, "++env.eval."+key+"="+k.value)...)
		is := works
		switch {
		case code == loop.ExitConfig:
			is = "refused"
		case strings.Contains(said, "    env.eval."+key+" "):
			is = reported
		case reflect.DeepEqual(got, base):
			is = "ignored without a word"
		}
		if is != k.want {
			t.Errorf("env.eval.%s=%s: %s, expected %s\n%s", key, k.value, is, k.want, said)
		}
	}
	twice := func(more ...string) map[string]any {
		_, got, _ := call(append(append(eval, "env.eval.rollout_epoch=2"), more...)...)
		return got
	}
	if got := twice(); got["episodes"] != 12.0 || got["eval/return"] == base["eval/return"] {
		t.Errorf("rollout_epoch=2: %v, once: %v", got, base)
	}
	if got := twice("env.eval.use_fixed_reset_state_ids=true"); got["episodes"] != 12.0 ||
		got["eval/return_min"] != base["eval/return_min"] {
		t.Errorf("the same twice: %v, once: %v", got, base)
	}
	if got := twice("-np", "3"); !reflect.DeepEqual(got, twice()) {
		t.Errorf("rollout_epoch=2 on three ranks: %v", got)
	}
	// A training evaluates alike.
	const trains = "runner.logger.experiment_name=s"
	for _, placement := range []string{"{'actor,rollout,env': 0}", "{actor: 0, rollout: 1, env: 2}"} {
		if code, _, errs := call("-c", file, "env.eval.rollout_epoch=2", trains, "~cluster.component_placement",
			"++cluster.component_placement="+placement); code != loop.ExitOK {
			t.Fatal(errs)
		}
		metrics, _ := os.ReadFile(filepath.Join(dir, "s", "metrics.jsonl"))
		lines := strings.Split(strings.TrimSpace(string(metrics)), "\n")
		var last map[string]any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatal(err)
		}
		if got := twice(trains); last["eval/num_trajectories"] != 12.0 || got["eval/return"] != last["eval/return"] {
			t.Errorf("%s: training evaluates %v of %v episodes, rlinf eval %v", placement, last["eval/return"],
				last["eval/num_trajectories"], got)
		}
	}
}
