package digests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

var record = flag.String("record", "", "write the checkpoints in testdata/resumed by this `program`, an older rlinf")

const (
	saved     = 2 // the step of the old checkpoints
	continued = 4 // the last step whose metrics are recorded
	asRLinf   = "RLINF_DIGESTS"
)

// A job that wrote old checkpoints: a configuration in testdata, and further arguments.
type job struct {
	config string
	args   []string
}

// resumed are the kinds of old checkpoints.
var resumed = map[string]job{
	// The rollouts use weights of an earlier step, which the checkpoint also has.
	"ppo":   {"ppo_collocated.yaml", []string{hidden, "runner.weight_sync_interval=3"}},
	"sac":   {"sac.yaml", []string{hidden}},
	"gru":   {"gru.yaml", []string{hidden, "actor.model.rnn_hidden_size=8"}},
	"async": {"async.yaml", []string{hidden}},
	"external": {"ppo_disaggregated.yaml", []string{hidden, "env.train.env_type=external",
		"++env.train.external.command=./rlinf bridge serve -c served.yaml runner.max_steps=1",
		"++env.train.external.n=2"}},
	"sft":  {"sft.yaml", small},
	"lora": {"sft.yaml", append(small, base, adapters, "actor.model.lora_rank=2")},
	"grpo": {"reasoning.yaml", append(small, base, "algorithm.kl_beta=0.1")},
	"critic": {"reasoning.yaml", append(small, base, "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic",
		"algorithm.update_epoch=2", "actor.critic_optim.lr=1e-3")},
}

const (
	hidden   = "actor.model.hidden_sizes=[8]"
	base     = "runner.ckpt_path=base.safetensors"
	adapters = "actor.model.is_lora=true"
)

// small are arguments of language models.
var small = slices.Clip([]string{"actor.model.hidden_size=8", "actor.model.intermediate_size=16",
	"actor.model.num_hidden_layers=1", "actor.tokenizer.tokenizer_model=data/tokenizer",
	"data.train_data_paths=data/train.jsonl", "data.val_data_paths=data/test.jsonl"})

// TestMain is rlinf itself in the processes that TestResumed starts.
func TestMain(m *testing.M) {
	if os.Getenv(asRLinf) != "" {
		os.Exit(roles.Main(os.Args, roles.Registries{Envs: all.Registry(), Policies: policy.Builtin(),
			Algorithms: algo.Builtin(), Rewards: reward.Builtin()}))
	}
	os.Exit(m.Run())
}

// TestResumed: a run that resumes a checkpoint of an older program continues with the metrics of that program.
//
// testdata/resumed/NAME has the checkpoint of step 2, and the metrics of steps 3 and 4. These commands write all of
// them again:
//
//	git worktree add /tmp/older b06bb7fc
//	go build -C /tmp/older -o rlinf .
//	go test ./internal/digests -run TestResumed -record /tmp/older/rlinf
func TestResumed(t *testing.T) {
	if lack := unlike(); lack != "" {
		t.Skipf("the metrics are of amd64 with AVX2 and FMA, without fused sums: %s", lack)
	}
	if *record != "" {
		recordInputs(t)
	}
	for name, job := range resumed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, stored := workFolder(t), absolute(t, filepath.Join("testdata/resumed", name))
			if *record != "" {
				recordCheckpoint(t, dir, stored, job)
			}
			args := []string{"-c", filepath.Join(stored, "config.yaml"), "--resume", stored,
				fmt.Sprint("runner.max_steps=", continued), "runner.logger.experiment_name=new"}
			if !slices.Contains(job.args, adapters) {
				args = append(args, "runner.ckpt_path=") // the checkpoint has all weights
			}
			execute(t, dir, args...)
			run, next := filepath.Join(dir, "logs/new"), filepath.Join(stored, "next")
			if *record != "" {
				must(t, os.MkdirAll(next, 0o777))
				copyFile(t, filepath.Join(next, "metrics.jsonl"), filepath.Join(run, "metrics.jsonl"))
			}
			got, want := unclocked(t, lines(t, run), clocked[name]), unclocked(t, lines(t, next), clocked[name])
			if len(got) != len(want) {
				t.Fatalf("metrics of %d steps, expected %d", len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("the metrics of step %d are\n%s\nexpected those of the older program\n%s", saved+1+i,
						got[i], want[i])
				}
			}
		})
	}
}

// workFolder returns a folder with the files that the jobs name.
func workFolder(t *testing.T) string {
	t.Helper()
	dir, program := t.TempDir(), *record
	if program == "" {
		var err error
		program, err = os.Executable()
		must(t, err)
	}
	must(t, os.Symlink(program, filepath.Join(dir, "rlinf")))
	must(t, os.CopyFS(dir, os.DirFS("testdata/resumed/inputs")))
	return dir
}

// execute runs rlinf in a folder.
func execute(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("./rlinf", args...)
	c.Dir, c.Env = dir, append(os.Environ(), asRLinf+"=1")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("rlinf %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// recordInputs writes what the jobs of language models read: texts, a tokenizer, and a model that is sometimes right.
func recordInputs(t *testing.T) {
	t.Helper()
	const inputs = "testdata/resumed/inputs"
	must(t, os.MkdirAll(inputs, 0o777))
	dir := workFolder(t)
	execute(t, dir, "data", "addition", "--out", "data", "--force", "--train", "40", "--test", "8")
	must(t, os.WriteFile(filepath.Join(dir, "data/train.jsonl"),
		[]byte(strings.Repeat(`{"prompt":"1+1=","answer":"2"}`+"\n", 40)), 0o666))
	execute(t, dir, job{"sft.yaml", append(small, "runner.max_epochs=100")}.command(t, "base", 100)...)
	must(t, os.RemoveAll(inputs))
	must(t, os.MkdirAll(inputs, 0o777))
	copyFile(t, filepath.Join(inputs, "served.yaml"), "testdata/ppo_disaggregated.yaml")
	must(t, os.CopyFS(filepath.Join(inputs, "data"), os.DirFS(filepath.Join(dir, "data"))))
	copyFile(t, filepath.Join(inputs, "base.safetensors"),
		filepath.Join(dir, "logs/base/checkpoints/latest/model.safetensors"))
}

// recordCheckpoint runs a job and keeps its last checkpoint in the folder stored.
func recordCheckpoint(t *testing.T, dir, stored string, job job) {
	t.Helper()
	execute(t, dir, job.command(t, "old", saved)...)
	must(t, os.RemoveAll(stored))
	must(t, os.CopyFS(stored, os.DirFS(filepath.Join(dir, "logs/old/checkpoints", fmt.Sprint("global_step_", saved)))))
}

// command returns the arguments of a run that saves a checkpoint at its last step.
func (j job) command(t *testing.T, name string, steps int) []string {
	t.Helper()
	return append([]string{"-c", absolute(t, filepath.Join("testdata", j.config)), "runner.val_check_interval=2",
		fmt.Sprint("runner.max_steps=", steps), fmt.Sprint("runner.save_interval=", steps),
		"runner.logger.log_path=logs", "runner.logger.experiment_name=" + name, "runner.logger.logger_backends=[]"},
		j.args...)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	must(t, os.WriteFile(to, readFile(t, from), 0o666))
}

func must(t *testing.T, err error) {
	t.Helper()
	test.OK(t, err)
}
