package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestCheckPaths: check looks for each file and folder that a run would open, and says whether it belongs to the job.
// A model_path with the folder of a checkpoint loads the checkpoint's weights.
func TestCheckPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	job := strings.Replace(keyJob, "save_at_end: false, ", "", 1)
	test.OK(t, os.WriteFile(file, []byte(job), 0o666))
	reg := standIn{obs: 2, act: 2}.registries()
	train := func(name string, overrides ...string) string {
		t.Helper()
		args := append([]string{"-c", file, "runner.logger.log_path=" + dir, "runner.logger.experiment_name=" + name},
			overrides...)
		if code, _, stderr := runWith(t, reg, args...); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", name, code, stderr)
		}
		return plainMetrics(t, filepath.Join(dir, name, "metrics.jsonl"))
	}
	train("first")
	checkpoint := filepath.Join(dir, "first", "checkpoints", "global_step_4")
	missing := filepath.Join(dir, "first", "checkpoints", "global_step_9")
	for _, tc := range []struct{ overrides, want string }{
		{"runner.resume_dir=" + checkpoint + " runner.max_steps=5", ""},
		{"runner.ckpt_path=" + checkpoint, ""},
		{"actor.model.model_path=" + checkpoint, ""},
		{"runner.resume_dir=auto", ""},
		{"runner.resume_dir=" + missing, "runner.resume_dir: " + missing + ": expected the folder of a checkpoint"},
		{"runner.ckpt_path=" + missing, "runner.ckpt_path: " + missing + ": expected a file of weights or"},
		{"actor.model.model_path=nope", "runner.ckpt_path: nope: expected a file of weights or the folder"},
		{"actor.model.model_path=" + missing, "runner.ckpt_path: " + missing + ": expected a file of weights or"},
		{"runner.only_eval=true runner.ckpt_path=" + missing, "runner.ckpt_path: " + missing + ": expected a file of"},
		{"runner.ckpt_path=" + checkpoint + " actor.model.hidden_sizes=[3]", "runner.ckpt_path: " + checkpoint +
			": expected a state of this job: "},
		{"runner.resume_dir=" + checkpoint + " algorithm.gamma=0.5", "runner.resume_dir: " + checkpoint +
			": expected a state of this job: "},
		{"actor.model.model_path=" + filepath.Join(dir, "first"), "runner.ckpt_path: " + filepath.Join(dir, "first") +
			": expected a state of this job: "},
		{"actor.optim.lr=fast runner.ckpt_path=" + missing, "actor.optim.lr: fast"},
		{"env.train.env_type=Standing-v0 runner.ckpt_path=" + missing, "runner.ckpt_path: " + missing + ": expected"},
		{"+cluster.component_placement.reward=0 reward.use_reward_model=true reward.model.model_path=" + missing,
			"reward.model.model_path: " + missing + ": expected a file of parameters"},
	} {
		args := append([]string{"check", "-c", file}, strings.Fields(tc.overrides)...)
		code, stdout, stderr := runWith(t, reg, args...)
		runs := strings.Contains(stdout, "verdict: runs\n")
		if tc.want == "" && (code != loop.ExitOK || !runs) ||
			tc.want != "" && (code != loop.ExitConfig || runs || !strings.Contains(stderr, tc.want)) {
			t.Errorf("check %s: exit code %d, want %q\n%s%s", tc.overrides, code, tc.want, stdout, stderr)
		}
	}
	scratch := train("scratch")
	weights := train("weights", "runner.ckpt_path="+filepath.Join(checkpoint, "model.safetensors"))
	for _, key := range []string{"runner.ckpt_path", "actor.model.model_path"} {
		if got := train("folder", key+"="+checkpoint); got != weights || got == scratch {
			t.Errorf("%s=%s does not begin with the weights of the checkpoint", key, checkpoint)
		}
	}
}

// TestOutputPaths: check, slurm and the start of a job refuse files and folders that the job could not write, or that
// are the user's own. No file is changed.
func TestOutputPaths(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "logs", "mine", "sub", "notes")
	test.OK(t, os.MkdirAll(filepath.Dir(mine), 0o777))
	test.OK(t, os.WriteFile(mine, []byte("my notes\n"), 0o666))
	test.OK(t, os.WriteFile(file, []byte(keyJob), 0o666))
	reg := standIn{obs: 2, act: 2}.registries()
	const tracer = "cluster.tracer.enable=true cluster.tracer.output_file="
	const video = "runner.val_check_interval=1 env.eval.video_cfg.save_video=true env.eval.video_cfg.video_base_dir="
	const unwritable = ": expected a folder that can be written: write in "
	films, demos := filepath.Join(dir, "films"), filepath.Join(dir, "demos")
	for _, name := range []string{films + "/global_step_3.png", demos + "/train_global_step_0.safetensors",
		demos + "/eval_global_step_0.safetensors"} {
		test.OK(t, os.MkdirAll(filepath.Dir(name), 0o777))
		test.OK(t, os.WriteFile(name, []byte("my notes\n"), 0o666))
	}
	folders := filepath.Join(dir, "folders")
	for _, name := range []string{"train_global_step_0/mine", "eval_global_step_7/meta/info.json"} {
		test.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(folders, name)), 0o777))
		test.OK(t, os.WriteFile(filepath.Join(folders, name), []byte("my notes\n"), 0o666))
	}
	const lerobot = ".data_collection.export_format=lerobot env."
	const foreign = ": this command did not write the file that is there"
	const another = ": expected the name of another file: "
	for _, c := range []struct{ overrides, want string }{
		{"runner.logger.experiment_name=mine", "runner.logger.experiment_name: mine: expected another name: run " +
			"folder " + filepath.Join(dir, "logs", "mine") + `: holds other files ("sub")`},
		{"runner.logger.log_path=/proc/nope", "runner.logger.log_path: /proc/nope/job" + unwritable + "/proc: "},
		{"runner.logger.log_path=" + file, "runner.logger.log_path: " + file + "/job" + unwritable + file + ": "},
		{video + file, "env.eval.video_cfg.video_base_dir: " + file + unwritable + file + ": "},
		{video + films, "env.eval.video_cfg.video_base_dir: " + films + ": expected another folder: " + films +
			"/global_step_3.png" + foreign},
		{"env.train.data_collection.enabled=true env.train.data_collection.save_dir=" + demos,
			"env.train.data_collection.save_dir: " + demos +
				": expected another folder: " + demos + "/train_global_step_0.safetensors" + foreign},
		{"runner.val_check_interval=1 env.eval.data_collection.enabled=true env.eval.data_collection.save_dir=" + demos,
			"env.eval.data_collection.save_dir: " + demos + ": expected another folder: " + demos +
				"/eval_global_step_0.safetensors" + foreign},
		{"env.train.data_collection.enabled=true env.train" + lerobot + "train.data_collection.save_dir=" + folders,
			"env.train.data_collection.save_dir: " + folders + ": expected another folder: " + folders +
				"/train_global_step_0: this program did not write what is there"},
		{"runner.val_check_interval=1 env.eval.data_collection.enabled=true env.eval" + lerobot +
			"eval.data_collection.save_dir=" + folders, "env.eval.data_collection.save_dir: " + folders +
			": expected another folder: " + folders + "/eval_global_step_7: this program did not write what is there"},
		{tracer + file, "cluster.tracer.output_file: " + file + another + "this command did not write the file that"},
		{tracer + dir, "cluster.tracer.output_file: " + dir + another + "there is a folder"},
		{tracer + dir + "/no/x", "cluster.tracer.output_file: " + dir + "/no/x: expected a file in a folder that can " +
			"be written: write in " + dir + "/no: no such file or directory"},
	} {
		for _, command := range []string{"check", "slurm", ""} {
			args := append(strings.Fields(command+" -c "+file+" runner.logger.log_path="+filepath.Join(dir, "logs")+
				" runner.logger.experiment_name=job"), strings.Fields(c.overrides)...)
			code, stdout, stderr := runWith(t, reg, args...)
			if code != loop.ExitConfig || strings.Count(stderr, c.want) != 1 ||
				strings.Contains(stdout, "verdict: runs\n") {
				t.Errorf("%s %s: exit code %d, want %q\n%s%s", command, c.overrides, code, c.want, stdout, stderr)
			}
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != keyJob {
		t.Errorf("the configuration has changed: %v", err)
	}
}
