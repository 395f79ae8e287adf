package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
)

// TestEval evaluates one policy in every supported way. All ways give the metrics of the last evaluation in the run.
func TestEval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", strings.Replace(good, "  eval:\n", "  eval:\n    total_num_envs: 12\n", 1))
	local.ok(t, dir, 0, "-c", "job.yaml", "runner.val_check_interval=1", "runner.max_steps=4", "actor.optim.lr=0.01")
	run := filepath.Join(dir, "logs", "job")
	last := readMetrics(t, run)[3]
	length := test.Must(last["eval/return"].(json.Number).Float64())(t)
	want := []string{
		"%, 12 episodes of CartPole-v1",
		fmt.Sprintf("  eval/return         %.4g", length),
		"  eval/return_std     %",
		"  eval/return_min     %",
		fmt.Sprintf("  eval/episode_len    %.4g", length),
		"  eval/success_once   0",
		"  eval/success_at_end 0",
	}
	before := contents(t, dir)
	const model = "logs/job/checkpoints/global_step_4/model.safetensors"
	for _, args := range []string{
		"eval -c job.yaml",
		"eval -c job.yaml --checkpoint logs/job/checkpoints/global_step_4 env.train.total_num_envs=64",
		"eval runner.ckpt_path=" + model + " -c job.yaml",
		"-c job.yaml runner.only_eval=true",
		"-c job.yaml runner.task_type=embodied_eval runner.ckpt_path=" + model,
	} {
		r := local.ok(t, dir, 0, strings.Fields(args)...)
		if got := strings.Split(strings.TrimSpace(r.stdout), "\n"); !slices.EqualFunc(got, want, like) ||
			r.stderr != "" {
			t.Errorf("%s says\n%s%s\nwant\n%s", args, r.stdout, r.stderr, strings.Join(want, "\n"))
		}
	}
	if r := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "--checkpoint",
		"logs/job/checkpoints/global_step_2"); strings.Contains(r.stdout, want[1]) {
		t.Errorf("an earlier policy plays the same: %s", r.stdout)
	}
	// If all ranks play, the metrics are those of one rank.
	one := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "--episodes", "9", "--json")
	for _, args := range []string{"eval -c job.yaml", "-c job.yaml runner.only_eval=true"} {
		if r := mpich.ok(t, dir, 2, strings.Fields(args)...); !slices.EqualFunc(
			strings.Split(strings.TrimSpace(r.stdout), "\n"), want, like) || r.stderr != "" {
			t.Errorf("under a launcher, %s: %s%s", args, r.stdout, r.stderr)
		}
	}
	if r := mpich.ok(t, dir, 2, "eval", "-c", "job.yaml", "--episodes", "9", "--json"); r.stdout != one.stdout ||
		!strings.Contains(r.stdout, `"episodes":9`) {
		t.Errorf("nine episodes under a launcher: %swant %s", r.stdout, one.stdout)
	}
	if after := contents(t, dir); !slices.Equal(after, before) {
		t.Errorf("evaluation changed files: %q", after)
	}
}

// TestFilms: each evaluation is filmed, on whatever ranks it runs, and rlinf render draws the initial states.
func TestFilms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	for _, where := range []string{"cluster.component_placement={actor: 0-1, env: 0, rollout: 1}",
		"cluster.component_placement={actor: 0-1, env: 0-1, rollout: 0-1}"} {
		args := []string{"-c", "job.yaml", "runner.val_check_interval=1",
			"env.eval.video_cfg={save_video: true, width: 24, height: 16, num_envs: 2}", where}
		local.ok(t, dir, 0, args...)
		run := filepath.Join(dir, "logs", "job")
		for step, line := range readMetrics(t, run) {
			film, _ := videotest.Frames(t, filepath.Join(run, "videos", fmt.Sprintf("global_step_%d.png", step+1)))
			// Poles of untrained policies fall at similar times, so a film is about as long as the mean episode.
			length, _ := line["eval/episode_len"].(json.Number).Float64()
			if frames := float64(len(film)); frames < length/2 || frames > 3*length {
				t.Errorf("%s: a film of %v frames of episodes of %v steps", where, frames, length)
			}
		}
		test.OK(t, os.RemoveAll(run))
		local.ok(t, dir, 0, args...)
	}
	r := local.ok(t, dir, 0, "eval", "-c", "job.yaml", "env.eval.video_cfg={save_video: true, video_base_dir: films}")
	if _, err := os.Stat(filepath.Join(dir, "films", "global_step_2.png")); err != nil ||
		!strings.Contains(r.stdout, "films/global_step_2.png") {
		t.Errorf("%v; %s", err, r.stdout)
	}
	local.ok(t, dir, 0, "render", "-c", "job.yaml", "--out", "first.png")
	if text, err := os.ReadFile(filepath.Join(dir, "first.png")); err != nil ||
		!bytes.HasPrefix(text, []byte("\x89PNG")) {
		t.Errorf("no picture: %v", err)
	}
}

// TestFirstWeights trains from the weights of another run. With a learning rate of about 0 the last weights are equal
// to the first.
func TestFirstWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	local.ok(t, dir, 0, "-c", "job.yaml")
	model := func(name string, step int) []byte {
		b := test.Must(os.ReadFile(filepath.Join(dir, "logs", name, "checkpoints", fmt.Sprintf("global_step_%d", step),
			"model.safetensors")))(t)
		return b
	}
	for _, p := range []*platform{local, mpich} {
		r := p.ok(t, dir, 2, "-c", "job.yaml", "runner.ckpt_path=logs/job/checkpoints/global_step_2/model.safetensors",
			"actor.optim.lr=1e-30", "runner.logger.experiment_name="+p.name)
		if !strings.HasPrefix(r.stdout,
			"starting from the weights in logs/job/checkpoints/global_step_2/model.safetensors\n") {
			t.Errorf("%s says %s", p.name, r.stdout)
		}
		if len(readMetrics(t, filepath.Join(dir, "logs", p.name))) != 2 {
			t.Errorf("%s: not two steps", p.name)
		}
		if !bytes.Equal(model(p.name, 2), model("job", 2)) || bytes.Equal(model("job", 1), model("job", 2)) {
			t.Errorf("%s: trained from other weights", p.name)
		}
	}
}
