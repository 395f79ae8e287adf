package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestOwnLoopOfSFT: a program that calls the phases of an SFTRunner has the metrics of its Run.
func TestOwnLoopOfSFT(t *testing.T) {
	dir := languageFolderOf(t, func(m *lm.Model) { m.Init(3) })
	file := evaluationOf(t, dir, "sft")
	metrics := map[string]string{}
	for name, program := range map[string]loop.Program{"run": nil, "own": ownSFT} {
		args := []string{"rlinf", "-c", file, "runner.max_steps=3", "runner.val_check_interval=2",
			"runner.logger.experiment_name=" + name}
		if code := Run(args, rolestest.Registries(), tasks(), Own{Program: program}); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d", name, code)
		}
		metrics[name] = plainMetrics(t, filepath.Join(dir, name, "metrics.jsonl"))
	}
	if metrics["own"] != metrics["run"] || strings.Count(metrics["own"], "eval/loss") < 2 {
		t.Errorf("%s\nwant %s", metrics["own"], metrics["run"])
	}
}

// ownSFT is a program that calls the phases of an SFTRunner.
func ownSFT(ctx context.Context, c *loop.Cluster) error {
	g, err := language.LaunchSFT(ctx, c)
	if err != nil {
		return err
	}
	r, err := language.NewSFTRunner(ctx, c, g)
	if err == nil {
		err = r.InitWorkers(ctx)
	}
	for err == nil {
		more, failed := r.Next(ctx)
		if failed != nil || !more {
			return failed
		}
		if err = r.RunTraining(ctx); err == nil {
			err = r.EvaluateIfDue(ctx)
		}
	}
	return err
}

// TestProgramLeavesEarly: a program may end its loop before the last step. The run then ends well, with
// the metrics of the steps that it took and of no other.
func TestProgramLeavesEarly(t *testing.T) {
	for _, c := range []struct {
		name  string
		after int // steps
		lines int
	}{{"before the first step", 0, 0}, {"after two of four", 2, 2}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"rlinf"}, momentary(dir)...)
			program := func(ctx context.Context, cluster *loop.Cluster) error { return train(ctx, cluster, c.after) }
			code := Run(args, rolestest.Registries(), tasks(), Own{Program: program})
			if code != loop.ExitOK {
				t.Fatalf("exit code %d, want %d", code, loop.ExitOK)
			}
			at := filepath.Join(dir, "grid")
			text, err := os.ReadFile(filepath.Join(at, "metrics.jsonl"))
			if lines := strings.Count(string(text), "\n"); lines != c.lines || err != nil && c.lines > 0 {
				t.Errorf("%d lines of metrics (%v), want %d", lines, err, c.lines)
			}
		})
	}
}

// train takes some steps of the loop, and then leaves it.
func train(ctx context.Context, cluster *loop.Cluster, steps int) error {
	groups, err := embodied.LaunchEmbodied(ctx, cluster)
	if err != nil {
		return err
	}
	r, err := embodied.NewEmbodiedRunner(cluster, groups)
	if err != nil {
		return err
	}
	if err := r.InitWorkers(ctx); err != nil {
		return err
	}
	for range steps {
		if more, err := r.Next(ctx); err != nil || !more {
			return err
		}
		for _, phase := range []func(context.Context) error{
			r.UpdateRolloutWeights, r.GenerateRollouts, r.ComputeAdvantagesAndReturns, r.RunTraining, r.EvaluateIfDue,
		} {
			if err := phase(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
