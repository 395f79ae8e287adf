package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// verified repeats all of a run by rlinf verify of a program, in one process. The run may come from other ranks, after
// kills and moves: its numbers must repeat.
func verified(t testing.TB, program, dir, run string) {
	t.Helper()
	r := local.startProgram(t, local.program(t, program), dir, 0, "verify", "--all", "--out",
		filepath.Join(t.TempDir(), "receipt.json"), run).result()
	test.Equal(t, r.code, 0, "%s%s", r.stdout, r.stderr)
}

// TestReplayOfSimulators: a replay shows what the run itself had recorded of a Python simulator: one that saves its
// state, one whose rollouts begin with new episodes, and one that can be repeated from its start alone. Every episode
// has 8 steps, as a rollout.
func TestReplayOfSimulators(t *testing.T) {
	t.Parallel()
	python := python(t)
	here := test.Must(filepath.Abs("testdata"))(t)
	const envs, steps, asked, k = 4, 8, 4, 1
	cnn := []string{"actor.model.model_type=cnn_policy", "actor.model.encoder=nature_cnn"}
	for kind, c := range map[string]struct {
		repeated string // steps, from the checkpoint of step 2 or from the start
		more     []string
	}{
		"image 20000": {"2 steps", cnn},
		"dict":        {"2 steps", []string{"env.train.auto_reset=false"}},
		"box":         {"4 steps", nil},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := python + " " + filepath.Join(here, "kinds.py") + " " + kind
			args := append([]string{"-c", filepath.Join(here, "kinds.yaml"), "env.train.external.command=" + command,
				"runner.max_steps=5", "runner.save_interval=2",
				"runner.keep_checkpoints=0", "runner.val_check_interval=-1", "env.train.total_num_envs=4",
				"env.train.max_steps_per_rollout_epoch=8", "actor.micro_batch_size=32", "actor.global_batch_size=32",
				"algorithm.update_epoch=1"}, c.more...)
			local.ok(t, dir, 0, append(args, "runner.logger.experiment_name=recorded",
				"env.train.data_collection.enabled=true")...)
			local.ok(t, dir, 0, append(args, "runner.logger.experiment_name=asked")...)
			r := local.ok(t, dir, 0, "replay", "logs/asked", "--step", "4", "--env", "1", "--out", "out")
			if want := "repeating " + c.repeated + ","; !strings.Contains(r.stderr, want) {
				t.Errorf("%s, want %s", r.stderr, want)
			}
			read := func(path string) tensor.Dict {
				d, _, err := tensor.ReadSafetensors([]byte(readFile(t, filepath.Join(dir, path))))
				test.OK(t, err)
				return d
			}
			got := read("out/environment_1.safetensors")
			all := read("logs/recorded/demos/train_global_step_0.safetensors")
			compared := 0
			for i := range all.Len() {
				name, x := all.Entry(i)
				y, ok := got.Get(name)
				if !ok {
					continue
				}
				compared++
				each := len(x.Bytes()) / x.Dim(0)
				from := (5*steps*k + steps*(asked-1)) * each
				if !bytes.Equal(y.Bytes(), x.Bytes()[from:from+steps*each]) {
					t.Errorf("%s differs", name)
				}
			}
			if rows := all.Must("reward").Len(); rows != 5*steps*envs || compared < 5 {
				t.Errorf("%d recorded steps, compared %d tensors", rows, compared)
			}
			if c.more != nil {
				return
			}
			// Resumed from the checkpoint of step 4, the run repeats as far as that step.
			local.ok(t, dir, 0, append(args, "runner.logger.experiment_name=asked", "runner.max_steps=6",
				"--resume", "logs/asked/checkpoints/global_step_4")...)
			local.ok(t, dir, 0, "replay", "logs/asked", "--step", "4", "--env", "1")
			r = local.run(t, dir, 0, "replay", "logs/asked", "--step", "5")
			if want := "step 5: run logs/asked was resumed after step 4"; r.code != 2 ||
				!strings.Contains(r.stderr, want) {
				t.Errorf("code %d\n%s, want %s", r.code, r.stderr, want)
			}
			// Another run that began from this checkpoint cannot be repeated at all.
			local.ok(t, dir, 0, append(args, "runner.logger.experiment_name=other", "runner.max_steps=6",
				"--resume", "logs/asked/checkpoints/global_step_4")...)
			r = local.run(t, dir, 0, "verify", "--all", "logs/other")
			if want := "env.train.auto_reset: true: the run began from a checkpoint"; r.code != 2 ||
				!strings.Contains(r.stderr, want) {
				t.Errorf("code %d\n%s%s, want %s", r.code, r.stdout, r.stderr, want)
			}
			r = local.ok(t, dir, 0, "verify", "--all", "logs/asked")
			if want := "steps 1 to 4, repeated on"; !strings.Contains(r.stdout, want) ||
				strings.Contains(r.stdout, "to 5") {
				t.Errorf("%s, want %s and no other steps", r.stdout, want)
			}
		})
	}
}

// TestDiffOfVectors: a program without the vectors of the processor has other sums. A diff names the phase and the
// tensor, and the runs of one program are equal.
func TestDiffOfVectors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := test.Must(filepath.Abs(filepath.Join(root, "internal", "digests", "testdata", "ppo_collocated.yaml")))(t)
	local.ok(t, dir, 0, "-c", config, "runner.max_steps=2", "runner.logger.experiment_name=run")
	rlinf := local.program(t, ".")
	script := "#!/bin/sh\nGODEBUG=cpu.avx2=off,cpu.avx512f=off,cpu.fma=off exec " + rlinf + " \"$@\"\n"
	other := writeFile(t, dir, "other", script)
	test.OK(t, os.Chmod(other, 0o755))
	r := local.run(t, dir, 0, "diff", "logs/run", "--with", other, "--step", "1")
	if want := "they part in step 1: actor[0]: rollout 1: "; r.code != 3 || !strings.Contains(r.stdout, want) {
		t.Errorf("code %d\n%s%s, want %s", r.code, r.stdout, r.stderr, want)
	}
	r = local.ok(t, dir, 0, "diff", "logs/run", "--with", rlinf, "--step", "1")
	if want := "step 1: equal when it is repeated"; !strings.Contains(r.stdout, want) {
		t.Errorf("%s%s, want %s", r.stdout, r.stderr, want)
	}
}
