package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// A build with the tag cuda, whose device is the interpreter of PTX; alone and with each MPI.
var (
	cuda = (&platform{name: "cuda", build: []string{"--tags", "cuda"}, install: "apt-get install gcc"}).
		with("RLINF_CUDA=interpreter")
	cudaOn = []*platform{cuda, withCUDA(openmpi), withCUDA(mpich)}
)

// withCUDA returns p in a build with the tag cuda.
func withCUDA(p *platform) *platform {
	return (&platform{name: p.name + "-cuda", build: append([]string{"--tags", "mpi cuda"}, p.build[2:]...),
		names: p.names, says: p.says, flags: p.flags, install: p.install}).with("RLINF_CUDA=interpreter")
}

// deviceJobs are jobs whose actors can compute on a device.
var deviceJobs = []struct{ name, yaml string }{
	{"PPO", components("actor,env,rollout: 0-1") + `
env: {train: {env_type: CartPole-v1, total_num_envs: 8, max_episode_steps: 12, max_steps_per_rollout_epoch: 16}}
comm: {bucket_bytes: 64}
algorithm: {update_epoch: 2, normalize_advantages: minibatch, entropy_bonus: 0.01}
actor: {micro_batch_size: 16, global_batch_size: 64, model: {hidden_sizes: [12, 8]}, optim: {lr: 3.0e-3}}
`},
	{"SAC", components("actor,env,rollout: 0") + `
env: {train: {env_type: Pendulum-v1, total_num_envs: 4, max_episode_steps: 10, max_steps_per_rollout_epoch: 8}}
algorithm:
  {adv_type: embodied_sac, loss_type: embodied_sac, update_epoch: 2,
  replay_buffer: {sample_window_size: 9, min_buffer_size: 1}}
actor:
  {micro_batch_size: 8, global_batch_size: 16, model: {hidden_sizes: [12, 8], add_q_head: true}, optim: {lr: 3.0e-3}}
`},
	{"SFT", components("actor: 0-1") + `
runner: {task_type: sft, seq_length: 16, val_check_interval: 1}
comm: {bucket_bytes: 4096}
data: {train_data_paths: data/train.jsonl, val_data_paths: data/test.jsonl}
` + fmt.Sprintf(deviceModel, "global_batch_size: 6", "")},
	{"GRPO", components("actor: 0") + `
runner: {task_type: reasoning, seq_length: 16}
data: {train_data_paths: data/train.jsonl, val_data_paths: data/test.jsonl, rollout_batch_size: 2, max_prompt_length: 9}
algorithm: {adv_type: grpo, loss_type: actor, group_size: 2, entropy_bonus: 0.01, kl_beta: 0.1}
` + fmt.Sprintf(deviceModel, "seed: 1", "is_lora: true, lora_rank: 2, ")},
	{"actor-critic", components("actor: 0") + fmt.Sprintf(deviceAnswers, "entropy_bonus: 0.01") +
		fmt.Sprintf(deviceModel, "seed: 1", "")},
	{"inference and critic", components(`{actor: 0, "inference,critic": 1}`) +
		fmt.Sprintf(deviceAnswers, "recompute_logprobs: true, kl_beta: 0.1") + fmt.Sprintf(deviceModel, "seed: 1", "")},
	{"PPO from images", ""}, // see deviceImages
}

// deviceAnswers is a job with a critic of answers, with a place for keys of the algorithm.
const deviceAnswers = `
runner: {task_type: reasoning, seq_length: 12}
data: {train_data_paths: data/train.jsonl, val_data_paths: data/test.jsonl, rollout_batch_size: 1, max_prompt_length: 9}
algorithm: {adv_type: gae, loss_type: actor_critic, group_size: 2, %s}
`

// deviceModel is a small language model, with places for keys of the actor and of the model.
const deviceModel = `
actor:
  %s
  micro_batch_size: 2
  tokenizer: {tokenizer_model: data/tokenizer}
  model:
    {%smodel_type: qwen2, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2,
    num_key_value_heads: 1, tie_word_embeddings: true}
  optim: {lr: 1.0e-2}
`

// deviceImages returns a job of PPO on images, which takes long in the interpreter.
func deviceImages(t *testing.T) (yaml string, args []string) {
	here := test.Must(filepath.Abs("testdata"))(t)
	return readFile(t, filepath.Join(here, "kinds.yaml")), []string{"env.train.external.command=" + python(t) + " " +
		filepath.Join(here, "kinds.py") + " image 20000", "env.train.total_num_envs=2",
		"env.train.max_steps_per_rollout_epoch=2", "actor.micro_batch_size=2", "actor.global_batch_size=4",
		"actor.model.model_type=cnn_policy", "algorithm.update_epoch=1", "runner.val_check_interval=-1"}
}

// TestDevice: a job whose actors compute on a device has the metrics and the checkpoints of the same job on the CPU in
// a build without the tag. A run that begins on one goes on on the other, or with one actor on each.
func TestDevice(t *testing.T) {
	t.Parallel()
	on := cudaOn
	if !full {
		on = on[:1]
	}
	for _, p := range on {
		for _, job := range deviceJobs {
			if job.yaml == "" && !full {
				continue
			}
			t.Run(p.name+"/"+job.name, func(t *testing.T) {
				t.Parallel()
				p.program(t, ".") // or skip the test
				yaml, more, np, other := job.yaml, []string(nil), 1, "cuda"
				if yaml == "" {
					yaml, more = deviceImages(t)
				} else if strings.Contains(yaml, "0-1") {
					np, other = 2, "cuda,cpu"
				} else if strings.Contains(yaml, "inference") {
					np = 2
				}
				run := func(dir string, p *platform, device string, steps int) metrics {
					t.Helper()
					if strings.Contains(yaml, "data/train.jsonl") {
						local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "12", "--test", "3")
					}
					args := more
					if strings.Contains(yaml, "inference") {
						args = []string{"inference.device=" + device, "critic.device=" + device}
					}
					p.ok(t, dir, np, append([]string{"-c", writeFile(t, dir, "job.yaml", yaml), "--resume", "auto",
						"runner.save_interval=1", fmt.Sprint("runner.max_steps=", steps), "actor.device=" + device,
						"runner.logger.experiment_name=run", "runner.logger.logger_backends=[]"}, args...)...)
					return readMetrics(t, filepath.Join(dir, "logs", "run"))
				}
				host, device := t.TempDir(), t.TempDir()
				run(host, local, "cpu", 2)
				run(device, p, "cuda", 2).same(t, readMetrics(t, filepath.Join(host, "logs", "run")), "on the device")
				sameCheckpoint(t, device, host, 2)
				run(device, p, "cpu", 3).same(t, run(host, p, other, 3), "each after a resume on the other")
				sameCheckpoint(t, device, host, 3)
				args := append([]string{"check", "-c", "job.yaml", "actor.device=cuda", "runner.max_steps=1"}, more...)
				if strings.Contains(yaml, "inference") {
					args = append(args, "inference.device=cuda", "critic.device=cuda")
				}
				check := p.ok(t, device, np, args...)
				if faster := "a core is probably faster than a GPU"; !strings.Contains(check.stdout, faster) {
					t.Errorf("no %q in %s", faster, check.stdout)
				}
				row := regexp.MustCompile(`(?m)^\d .* interpreter of PTX .* \d+\.\d MiB$`)
				if len(row.FindAllString(check.stdout, -1)) != np {
					t.Errorf("not all ranks have a GPU: %s", check.stdout)
				}
				record := readFile(t, filepath.Join(device, "logs", "run", "provenance.json"))
				if !strings.Contains(record, "interpreter of PTX, CUDA 12.0") {
					t.Errorf("no device in the provenance: %s", record)
				}
			})
		}
	}
}

// sameCheckpoint checks that two runs have the same files of tensors in a checkpoint.
func sameCheckpoint(t *testing.T, dir, like string, step int) {
	t.Helper()
	last := filepath.Join("logs", "run", "checkpoints", fmt.Sprint("global_step_", step))
	want := test.Must(filepath.Glob(filepath.Join(like, last, "*.safetensors")))(t)
	got := test.Must(filepath.Glob(filepath.Join(dir, last, "*.safetensors")))(t)
	test.Equal(t, len(got), len(want), "files of %s", last)
	if len(want) < 2 { // model and trainer
		t.Errorf("files of a checkpoint: %v", want)
	}
	for _, file := range want {
		name := filepath.Base(file)
		if readFile(t, filepath.Join(dir, last, name)) != readFile(t, file) {
			t.Errorf("%s of step %d: other bytes", name, step)
		}
	}
}

// TestDeviceMistakes: what a device cannot do is exit code 2, before any work.
func TestDeviceMistakes(t *testing.T) {
	t.Parallel()
	cuda.program(t, ".") // or skip the test
	for name, c := range map[string]struct {
		on   *platform
		args []string
		says string
	}{
		"no tag": {local, nil, "command line: actor.device: cuda: expected cpu: this build cannot find GPUs: it " +
			"lacks the build tag cuda (scripts/build --tags \"mpi cuda\")"},
		"too many": {cuda, []string{"actor.device=[cuda,cpu,cuda]"},
			"command line: actor.device: cuda,cpu,cuda: expected one value, or as many as actors: 2"},
		"unknown": {cuda, []string{"actor.device=[cuda,tpu]"},
			"command line: actor.device: cuda,tpu: expected cpu, or cuda for policies and language models"},
		"no kernel": {cuda, []string{"actor.model={model_type: rnn_policy, share_trunk: true}"},
			"command line: actor.device: cuda: expected cpu: gru has no device kernel"},
		"too little memory": {cuda, []string{"actor.model.hidden_sizes=[8192,8192]"},
			"actor.device: cuda: actors need %MiB on GPU 0 of node 0 (interpreter of PTX), which has 1024.0 MiB: " +
				"expected smaller micro-batches, a smaller policy or more nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := append([]string{"-c", writeFile(t, dir, "job.yaml", deviceJobs[0].yaml), "actor.device=cuda",
				"runner.max_steps=1"}, c.args...)
			refused(t, c.on, dir, 2, c.says, args...)
		})
	}
}

// TestDeviceMoves: actors that move between ranks, and actors that stay while others move, keep computing on a device.
func TestDeviceMoves(t *testing.T) {
	t.Parallel()
	cuda.program(t, ".") // or skip the test
	for _, n := range []*nomad{
		{name: "PPO", yaml: deviceJobs[0].yaml, members: map[string]int{"actor": 2, "env": 2, "rollout": 2}},
		{name: "GRPO", yaml: deviceJobs[3].yaml, members: map[string]int{"actor": 2, "rollout": 2}},
		{name: "inference and critic", yaml: deviceJobs[5].yaml, args: []string{"data.rollout_batch_size=2"},
			members: map[string]int{"actor": 2, "rollout": 2, "inference": 2, "critic": 1}},
	} {
		if n.name != "PPO" && !full {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			draw := draws(t, 1)
			c, start := newCamp(t, n), n.place(draw)
			same := c.settle(t, start, steps(8))
			args := []string{steps(8), "actor.device=cuda"}
			if n.members["inference"] > 0 {
				args = append(args, "inference.device=cuda,cpu", "critic.device=cuda") // one of two on the CPU
			}
			j := c.start(t, cuda, "walk", start, args...)
			c.wander(j, "walk", start, draw).end(t, j, 2)
			same(t, "walk")
		})
	}
}
