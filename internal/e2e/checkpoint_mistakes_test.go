package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestCheckpointMistakes starts from paths without a checkpoint, or with the checkpoint of another job, in each way to
// name a checkpoint.
func TestCheckpointMistakes(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	writeFile(t, made, "job.yaml", good)
	local.ok(t, made, 0, "-c", "job.yaml")
	for _, c := range checkpointMistakes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			test.OK(t, os.CopyFS(dir, os.DirFS(made)))
			if c.damage != nil {
				c.damage(t, dir)
			}
			args := strings.Fields(c.args)
			at := 0
			if args[0] == "eval" {
				at = 1
			}
			refused(t, local, dir, 0, c.want, slices.Insert(args, at, "-c", "job.yaml")...)
		})
	}
}

// A checkpointMistake damages a checkpoint (nil: it does not), and has the arguments and the expected error.
type checkpointMistake struct {
	name   string
	damage func(*testing.T, string)
	args   string
	want   string
}

func checkpointMistakes() []checkpointMistake {
	const newest = "logs/job/checkpoints/global_step_2"
	damage := func(file string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(newest, file)
			writeFile(t, dir, path, string(change([]byte(readFile(t, filepath.Join(dir, path))))))
		}
	}
	flipped := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	cut := func(b []byte) []byte { return b[:len(b)-7] }
	return []checkpointMistake{
		{"flipped bit, resume", damage("model.safetensors", flipped), "--resume " + newest,
			"checkpoint %: model.safetensors%: %"},
		{"flipped bit, eval", damage("model.safetensors", flipped), "eval --checkpoint " + newest,
			"checkpoint %: model.safetensors%: %"},
		{"truncated file, resume", damage("trainer.safetensors", cut), "--resume " + newest,
			"checkpoint %: trainer.safetensors%: %"},
		{"truncated manifest, resume", damage("manifest.json", cut), "--resume " + newest,
			"checkpoint %: manifest.json%: %"},
		{"truncated manifest, eval", damage("manifest.json", cut), "eval",
			"checkpoint %: manifest.json%: %"},
		{"truncated weights, ckpt_path", damage("model.safetensors", cut),
			"runner.ckpt_path=" + newest + "/model.safetensors",
			"runner.ckpt_path: " + newest + "/model.safetensors: %"},
		{"truncated weights, eval", damage("model.safetensors", cut), "eval runner.ckpt_path=" + newest +
			"/model.safetensors",
			"runner.ckpt_path: " + newest + "/model.safetensors: %"},
		{"text for weights", nil, "runner.ckpt_path=job.yaml", "runner.ckpt_path: job.yaml: %"},
		{"another network, resume", nil, "actor.model.hidden_sizes=[16] --resume " + newest,
			"checkpoint %: was written with another configuration:\n  actor.model.hidden_sizes.0: 8 then, 16 now"},
		{"another network, resume auto", nil, "actor.model.hidden_sizes=[16] --resume auto",
			"checkpoint %: was written with another configuration:\n  actor.model.hidden_sizes.0: 8 then, 16 now"},
		{"another network, eval", nil, "eval actor.model.hidden_sizes=[16]",
			"%/global_step_2: model: % is F32[%], this policy's is F32[%]"},
		{"another network, ckpt_path", nil,
			"actor.model.hidden_sizes=[16] runner.ckpt_path=" + newest + "/model.safetensors",
			newest + "/model.safetensors: model: % is F32[%], this policy's is F32[%]"},
		{"deeper network, only_eval", nil, "runner.only_eval=true actor.model.hidden_sizes=[8,8]",
			"%/global_step_2: model: %"},
		{"optimiser's state for weights", nil, "runner.ckpt_path=" + newest + "/trainer.safetensors",
			newest + "/trainer.safetensors: model: %"},
		{"another task, eval", nil, "eval env.train.env_type=Acrobot-v1",
			"%/global_step_2: model: % is F32[4 8], this policy's is F32[6 8]"},
		{"weights beside a checkpoint", nil, "runner.ckpt_path=a runner.resume_dir=b",
			"command line: runner.ckpt_path: a: expected no weights beside those of resume_dir"},
	}
}
