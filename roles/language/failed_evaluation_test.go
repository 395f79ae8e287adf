package language

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
)

// An error of one actor's evaluation ends fine-tuning on all ranks, with a checkpoint of the steps that are done and
// without a score. A resume goes on from it.
func TestFailedEvaluationLeavesACheckpoint(t *testing.T) {
	dir := t.TempDir()
	_, err := tokenizer.Train(dir, slices.Values([]string{"1+1=2"}), tokenizer.Training{VocabSize: 257,
		Pattern: "qwen2", MinCount: 2, Special: []string{"<end>"}, EOS: "<end>"})
	test.OK(t, err)
	data := filepath.Join(dir, "data.jsonl")
	test.OK(t, os.WriteFile(data, []byte(strings.Repeat(`{"prompt":"1+1=","answer":"2"}`+"\n", 24)), 0o666))
	train := func(resume string, broken int64) (string, int) {
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/sft.yaml", "data.train_data_paths="+data,
			"data.val_data_paths="+data, "actor.tokenizer.tokenizer_model="+dir, "runner.val_check_interval=2",
			"runner.save_interval=4", "runner.logger.log_path="+dir, "runner.logger.experiment_name=run")
		var out bytes.Buffer
		asked := loop.Watch()
		defer asked.Close()
		program := func(ctx context.Context, c *loop.Cluster) error {
			g, err := LaunchSFT(ctx, c)
			if err != nil {
				return err
			}
			r, err := NewSFTRunner(ctx, c, g)
			if err != nil {
				return err
			}
			breakTexts := func(context.Context) error {
				if r.GlobalStep() == broken && c.World().Rank() == 1 {
					r.plan.Valid.Samples[23].IDs[0] = 999 // the second actor's
				}
				return nil
			}
			r.phases = append(r.phases, breakTexts)
			return loop.InOrder(ctx, r.InitWorkers, r.Run)
		}
		s := session.New(session.Options{Registries: rolestest.Registries(), Tasks: task.Tasks{FineTuning{}},
			Asked: asked, Out: &out, Log: &out, Resume: resume, Command: "rlinf",
			Own: session.UserProgram{Program: program}})
		code := test.Must(s.Start(t.Context(), local.New(2), cfg, nil, nil))(t)
		return out.String(), code
	}
	out, code := train("", 2)
	for _, says := range []string{"evaluate: sft: token ", "is 999: expected 0 to 256", "checkpoints/global_step_2\n"} {
		if code != 1 || !strings.Contains(out, says) {
			t.Fatalf("exit code %d, want 1 and %q\n%s", code, says, out)
		}
	}
	last, err := checkpoint.Load(filepath.Join(dir, "run", "checkpoints", "latest"))
	if err != nil || last.Step != 2 {
		t.Fatalf("checkpoint %+v, %v, want step 2", last, err)
	}
	if about, err := os.ReadFile(filepath.Join(last.Dir, "manifest.json")); err != nil ||
		bytes.Contains(about, []byte(`"score"`)) {
		t.Errorf("the checkpoint has a score: %s (%v)", about, err)
	}
	if out, code := train(config.ResumeAuto, -1); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}
