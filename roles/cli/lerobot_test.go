package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env/envtest/squares"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// lerobotData has demonstrations in Squares-v0, and the same as folders of LeRobot by writers that are not ours.
const lerobotData = "testdata/lerobot/"

// withSquares returns registries with Squares-v0, whose observations are an image, a text and numbers.
func withSquares() config.Registries {
	reg := rolestest.Registries()
	reg.Envs.Add("Squares-v0", squares.New)
	return reg
}

// cloning clones in Squares-v0, and measures the loss of episodes that it sets aside. It returns the model.
func cloning(t *testing.T, load string) string {
	t.Helper()
	dir := t.TempDir()
	code, _, stderr := runWith(t, withSquares(), "-c", lerobotData+"job.yaml", "--strict",
		"algorithm.demo_buffer.load_path="+load, "runner.logger.log_path="+dir)
	if code != loop.ExitOK {
		t.Fatalf("%s: exit code %d: %s", load, code, stderr)
	}
	return readFile(t, filepath.Join(dir, "run/checkpoints/latest/model.safetensors"))
}

// TestLeRobot: cloning from a folder of LeRobot equals cloning from our file, to the bit. The folders are of version
// 3.0 with images in the table and in a video, and of version 2.1.
func TestLeRobot(t *testing.T) {
	want := cloning(t, lerobotData+"demos.safetensors")
	for _, folder := range []string{"v30", "v21", "video"} {
		if folder == "video" {
			if _, err := exec.LookPath("ffmpeg"); err != nil {
				t.Logf("no video is read: %v", err)
				continue
			}
		}
		if got := cloning(t, lerobotData+folder); got != want {
			t.Errorf("%s: another model than from demos.safetensors", folder)
		}
	}
}

// TestLeRobotChecked: check says what the images take. Errors say where, what was found and what is valid.
func TestLeRobotChecked(t *testing.T) {
	const load = "algorithm.demo_buffer.load_path="
	damaged := filepath.Join(t.TempDir(), "damaged")
	test.OK(t, os.CopyFS(damaged, os.DirFS(lerobotData+"v30")))
	test.OK(t, os.Remove(filepath.Join(damaged, "data/chunk-000/file-001.parquet")))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", loop.ExitOK, "demonstrations: 17 transitions of testdata/lerobot/v30; encoded images take 0.0 MiB on " +
			"each rank"},
		{"algorithm.demo_buffer.names={action: act}", loop.ExitConfig, "no column act for action: expected one of " +
			"action, episode_index, frame_index, index, next.done, next.reward, observation.images.image, " +
			"observation.proprio, task_index, timestamp, task"},
		{"algorithm.demo_buffer.names={observation.image: observation.proprio}", loop.ExitConfig,
			"column observation.proprio is float32[2]: expected U8[16 16 3] for observation.image"},
		{"algorithm.demo_buffer.names={observation.x: action}", loop.ExitConfig, "demo_buffer.names has " +
			"observation.x: expected names among action, observation.image, observation.proprio, observation.text, " +
			"reward, terminated"},
		{"algorithm.demo_buffer.names={reward: observation.proprio}", loop.ExitConfig,
			"column observation.proprio is float32[2]: expected F32[] for reward"},
		{"algorithm.demo_buffer.fps=30", loop.ExitConfig, "10 frames per second: expected 30, as demo_buffer.fps says"},
		{"env.train.env_type=CartPole-v1\nactor.model.model_type=mlp_policy\nactor.model.encoder=", loop.ExitConfig,
			"no column for observation.state: expected its name in demo_buffer.names, one of action"},
		{load + lerobotData + "demos.safetensors\nalgorithm.demo_buffer.fps=10", loop.ExitConfig,
			"algorithm.demo_buffer.fps: 10: expected none: load_path is a file, and only folders of LeRobot have it"},
		{load + damaged, loop.ExitConfig, "open " + damaged + "/data/chunk-000/file-001.parquet: no such file"},
	} {
		args := []string{"check", "-c", lerobotData + "job.yaml", load + lerobotData + "v30"}
		if c.args != "" {
			args = append(args, strings.Split(c.args, "\n")...)
		}
		code, stdout, stderr := runWith(t, withSquares(), args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit code %d, %s%s, expected %d and %s", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}
