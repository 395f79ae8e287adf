package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
)

// keyJob is a short job on standIn, for any algorithm.
const keyJob = `
cluster: {component_placement: {"actor,env,rollout": 0}}
runner: {max_steps: 4, save_at_end: false, logger: {logger_backends: []}}
env:
  train: {env_type: StandIn-v0, total_num_envs: 8, max_steps_per_rollout_epoch: 8, max_episode_steps: 8}
actor:
  micro_batch_size: 16
  global_batch_size: 16
  model: {hidden_sizes: [8]}
  optim: {lr: 0.01}
`

// keyJobs are the overrides that make keyJob a job of an algorithm. The second list enables more of its features.
var keyJobs = map[string][2]string{
	"actor_critic": {"actor.model.num_action_chunks=2", "actor.model.num_action_chunks=2 algorithm.update_epoch=2 " +
		"algorithm.kl_beta=0.1 algorithm.normalize_rewards=true algorithm.clip_ratio_high=0.01 " +
		"algorithm.clip_ratio_low=0.01 actor.optim.lr_scheduler=cosine"},
	"gae actor": {"actor.model.num_action_chunks=2", ""},
	"decoupled_actor_critic": {"algorithm.update_epoch=2 algorithm.clip_ratio_high=0.01 " +
		"algorithm.clip_ratio_low=0.01", ""},
	"a2c": {"actor.global_batch_size=64", "actor.global_batch_size=64 algorithm.kl_beta=0.1"},
	"grpo actor": {"env.train.auto_reset=false algorithm.group_size=4",
		"env.train.auto_reset=false algorithm.group_size=4 algorithm.filter_rewards=true " +
			"algorithm.rewards_lower_bound=-12 algorithm.rewards_upper_bound=-3 algorithm.len_reward_penalty=2 " +
			"algorithm.safe_length=1 algorithm.max_length=12 algorithm.normalize_rewards=true"},
	"reinpp actor": {"env.train.auto_reset=false algorithm.group_size=4",
		"env.train.auto_reset=false algorithm.group_size=4 algorithm.reinpp_kl_beta=0.1 algorithm.update_epoch=2"},
	"embodied_sac": {replayJob, replayJob + " algorithm.entropy_tuning.alpha_type=fixed_alpha " +
		"algorithm.critic_actor_ratio=2 actor.critic_optim.lr_scheduler=linear"},
	"embodied_crossq": {replayJob + " actor.model.q_head_type=crossq", ""},
	"embodied_dqn": {"actor.model.add_q_head=true algorithm.update_epoch=5 actor.model.epsilon_steps=200 " +
		"env.train.env_type=CartPole-v1 env.train.max_episode_steps=50 env.train.max_steps_per_rollout_epoch=24 " +
		"algorithm.replay_buffer.sample_window_size=4 algorithm.replay_buffer.min_buffer_size=1", ""},
	"embodied_td3": {replayJob + " actor.model.exploration_noise=0.1",
		replayJob + " actor.model.exploration_noise=0.1 algorithm.target_noise=0"},
	"embodied_dagger": {"algorithm.replay_buffer.sample_window_size=4 algorithm.replay_buffer.min_buffer_size=1", ""},
	"offline_iql": {"actor.model.add_q_head=true algorithm.update_epoch=3 " +
		"algorithm.demo_buffer.load_path=DEMOS", ""},
	"embodied_bc": {"algorithm.update_epoch=3 algorithm.demo_buffer.load_path=DEMOS", ""},
}

const replayJob = "actor.model.add_q_head=true actor.model.num_q_heads=3 algorithm.update_epoch=3 " +
	"algorithm.replay_buffer.sample_window_size=4 algorithm.replay_buffer.min_buffer_size=1"

// keyValues are values of keys whose type does not give another valid value.
var keyValues = map[string]string{
	"algorithm.bootstrap_type":                   "always",
	"algorithm.normalize_advantages":             "none",
	"algorithm.kl_penalty_type":                  "k1",
	"algorithm.loss_agg_func":                    "seq-mean-token-sum",
	"algorithm.clip_ratio_schedule":              "linear",
	"algorithm.clip_log_ratio_min":               "-0.001",
	"algorithm.clip_log_ratio_max":               "0.001",
	"algorithm.clip_ratio_c":                     "1.001",
	"algorithm.logprob_type":                     "token_level",
	"algorithm.entropy_type":                     "token_level",
	"algorithm.reward_type":                      "action_level",
	"algorithm.target_kl":                        "1e-9",
	"algorithm.value_clip":                       "1e-3",
	"algorithm.huber_delta":                      "1e-3",
	"algorithm.agg_q":                            "mean",
	"algorithm.actor_agg_q":                      "mean",
	"algorithm.critic_subsample_size":            "1",
	"algorithm.reward_clip":                      "0.01",
	"algorithm.rewards_lower_bound":              "-3.1",
	"algorithm.rewards_upper_bound":              "-4",
	"algorithm.safe_length":                      "3",
	"algorithm.max_length":                       "20",
	"algorithm.sequence_length":                  "",
	"algorithm.demo_buffer.load_path":            "",
	"algorithm.train_actor_steps":                "3",
	"algorithm.dagger.beta_min":                  "0.9",
	"algorithm.len_reward_penalty":               "1 algorithm.max_length=20",
	"algorithm.adv_type":                         "",
	"algorithm.loss_type":                        "",
	"algorithm.group_size":                       "2",
	"algorithm.staleness_threshold":              "",
	"algorithm.entropy_tuning.alpha_type":        "exp",
	"algorithm.dagger.beta_schedule":             "",
	"algorithm.reinpp_kl_penalty_type":           "k2",
	"actor.model.epsilon_steps":                  "100",
	"actor.optim.lr_scheduler":                   "linear",
	"actor.optim.value_lr":                       "0.03",
	"actor.optim.lr_warmup_steps":                "3",
	"actor.optim.min_lr":                         "1e-3",
	"actor.optim.total_training_steps":           "8",
	"actor.optim.clip_grad":                      "1e-4",
	"actor.optim.adam_eps":                       "0.1",
	"algorithm.demo_buffer.validation_share":     "0.5",
	"algorithm.tau":                              "0.9",
	"algorithm.target_noise":                     "1",
	"algorithm.target_noise_clip":                "0.01",
	"algorithm.replay_buffer.sample_window_size": "2",
	"algorithm.replay_buffer.min_buffer_size":    "2",
}

// unseen has keys that may change no number of keyJob though the algorithm reads them, with the reason.
var unseen = map[string]string{
	"algorithm.recompute_logprobs": "the rollouts of a synchronous job are of the present policy",
	"algorithm.reward_type":        "without chunks of actions its values mean the same",
}

// shownKeys has keys that metrics show though nothing learns with them.
var shownKeys = map[string]bool{"actor.optim.value_lr": true}

// TestAlgorithmKeys changes each key of the sections algorithm and actor.optim, in a job of each algorithm. Either the
// metrics change, or the key is reported as one without effect, or it is a mistake. RLINF_TEST_FULL=1 changes all keys.
func TestAlgorithmKeys(t *testing.T) {
	dir := t.TempDir()
	sim := standIn{obs: 2, act: 2}
	file := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(file, []byte(keyJob), 0o666))
	demos := ""
	for _, pair := range algo.Builtin().Pairs() {
		for variant := range 2 {
			jobs, ok := keyJobs[pair[1]]
			name := pair[1]
			if !ok {
				name = pair[0] + " " + pair[1]
				jobs, ok = keyJobs[name]
			}
			if !ok {
				t.Fatalf("no job of %s", pair)
			}
			if variant > 0 && jobs[variant] == "" {
				continue
			}
			base := append(strings.Fields(jobs[variant]), "algorithm.adv_type="+pair[0], "algorithm.loss_type="+pair[1])
			for i, o := range base {
				if strings.HasSuffix(o, "=DEMOS") {
					demos = cmp.Or(demos, keyDemos(t, sim, dir))
					base[i] = strings.TrimSuffix(o, "DEMOS") + demos
				}
			}
			t.Run(fmt.Sprint(name, " ", variant), func(t *testing.T) { changeKeys(t, sim, file, base) })
		}
	}
}

func keyDemos(t *testing.T, sim standIn, dir string) string {
	t.Helper()
	out := filepath.Join(dir, "demos.safetensors")
	code, _, stderr := runWith(t, sim.registries(), "demos", "-c", filepath.Join(dir, "job.yaml"), "--episodes", "6",
		"--noise", "0.5", "--all", "--out", out)
	if code != loop.ExitOK {
		t.Fatal(stderr)
	}
	return out
}

// changeKeys changes one key after the other in the job of file with the overrides base.
func changeKeys(t *testing.T, sim standIn, file string, base []string) {
	metrics := func(more ...string) (values, warnings string, code int) {
		dir := t.TempDir()
		args := slices.Concat([]string{"-c", file}, base, more, []string{"runner.logger.log_path=" + dir,
			"runner.logger.experiment_name=run"})
		code, _, stderr := runWith(t, sim.registries(), args...)
		return plainMetrics(t, filepath.Join(dir, "run", "metrics.jsonl")), stderr, code
	}
	cfg, _, err := config.Load(sim.registries(), file, base, false)
	test.OK(t, err)
	before, warnings, code := metrics()
	if code != loop.ExitOK || strings.Contains(warnings, "without effect") {
		t.Fatalf("%s: exit code %d\n%s", strings.Join(base, " "), code, warnings)
	}
	for _, f := range yaml.Fields(cfg) {
		value := otherValue(f)
		if value == "" || !sampled(base, f.Key) {
			continue
		}
		after, warnings, code := metrics(strings.Fields(f.Key + "=" + value)...)
		reported := strings.Contains(warnings, " "+f.Key+" ")
		switch changed := before != after; {
		case code == loop.ExitConfig && strings.Contains(warnings, f.Key[strings.LastIndexByte(f.Key, '.')+1:]):
		case code != loop.ExitOK:
			t.Errorf("%s=%s: exit code %d\n%s", f.Key, value, code, warnings)
		case reported && changed && !shownKeys[f.Key]:
			t.Errorf("%s=%s is reported, and the metrics change\n%s", f.Key, value, warnings)
		case !reported && !changed && unseen[f.Key] == "":
			t.Errorf("%s=%s changes nothing, and it is not reported", f.Key, value)
		}
	}
}

// sampled reports whether a test of all keys includes this one.
func sampled(base []string, key string) bool {
	if os.Getenv("RLINF_TEST_FULL") != "" {
		return true
	}
	h := fnv.New32()
	fmt.Fprint(h, base, key)
	return h.Sum32()%64 == 0
}

// otherValue returns a valid value of f that differs from its value, or "" if the test leaves f out.
func otherValue(f yaml.KeyField) string {
	in := func(section string) bool { return strings.HasPrefix(f.Key, section+".") }
	model := slices.Contains([]string{"actor.model.num_q_heads", "actor.model.epsilon_start", "actor.model.epsilon_end",
		"actor.model.epsilon_steps", "actor.model.init_log_std", "actor.recv_drain_max_trajectories"}, f.Key)
	if f.Section || !(in("algorithm") || in("actor.optim") || in("actor.critic_optim") || model) ||
		strings.HasSuffix(f.Key, "use_distributed_optimizer") {
		return ""
	}
	key := f.Key
	for _, section := range []string{"actor.critic_optim.", "algorithm.entropy_tuning.optim."} {
		if name, ok := strings.CutPrefix(key, section); ok {
			key = "actor.optim." + name
		}
	}
	value, special := keyValues[key]
	switch v := f.Value.(type) {
	case bool:
		return fmt.Sprint(!v)
	case algo.ScheduleName:
		if string(v) == value {
			return algo.ScheduleCosine
		}
	case int:
		if !special {
			return fmt.Sprint(v + 1)
		}
	case float32, float64:
		if x := reflect.ValueOf(v).Float(); !special {
			return fmt.Sprint(x/2 + 0.01)
		}
	}
	return value
}

// plainMetrics returns the text of a run's metrics, without those of the clock. It returns "" if there is no file.
func plainMetrics(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		var values map[string]json.RawMessage
		test.OK(t, json.Unmarshal([]byte(line), &values))
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if key != "time" && !strings.HasPrefix(key, "time/") {
				fmt.Fprintf(&out, "%s %s\n", key, values[key])
			}
		}
	}
	return out.String()
}

// languageJobs are the tasks of language models, and the overrides that make jobs of them.
var languageJobs = [][2]string{
	{"sft", ""},
	{"reasoning", ""},
	{"reasoning", "algorithm.adv_type=gae algorithm.loss_type=actor_critic algorithm.kl_beta=0.1"},
	{"reasoning", "algorithm.adv_type=reinpp algorithm.reinpp_kl_beta=0.1 algorithm.use_reinpp_baseline=true"},
}

// TestLanguageKeys is TestAlgorithmKeys for jobs of language models.
func TestLanguageKeys(t *testing.T) {
	dir := languageFolder(t)
	for _, job := range languageJobs {
		file := evaluationOf(t, dir, job[0])
		base := append(strings.Fields(job[1]), "runner.max_steps=2", "runner.save_at_end=false",
			"runner.logger.logger_backends=[]", "actor.optim.lr=0.05")
		if job[0] == "reasoning" {
			base = append(base, "reward.random_reward=true", "data.max_prompt_length=56",
				"algorithm.group_size=4", "algorithm.n_minibatches=2")
		}
		t.Run(strings.Join(job[:], " "), func(t *testing.T) { changeKeys(t, standIn{obs: 2, act: 2}, file, base) })
	}
}
