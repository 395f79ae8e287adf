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
	want, data := cloning(t, lerobotData+"demos.safetensors"), lerobotData
	_, unread := exec.LookPath("ffmpeg")
	modules := test.NodeModules("@duckdb/node-api", "hyparquet-writer")
	if modules != "" && unread == nil { // the folders are made anew
		data = t.TempDir() + "/"
		runProgram(t, []string{"NODE_PATH=" + modules}, "node", lerobotData+"make.mjs", data)
	}
	for _, folder := range []string{"v30", "v21", "video"} {
		if folder == "video" && unread != nil {
			t.Logf("no video is read: %v", unread)
			continue
		}
		if got := cloning(t, data+folder); got != want {
			t.Errorf("%s: another model than from demos.safetensors", folder)
		}
	}
}

// TestConvert: a file of demonstrations as a folder and back is the same file, and cloning from the folder gives the
// same model. Nothing is replaced that the user may need.
func TestConvert(t *testing.T) {
	const demos = lerobotData + "demos.safetensors"
	folder, back := filepath.Join(t.TempDir(), "folder"), filepath.Join(t.TempDir(), "back.safetensors")
	code, stdout, _ := run(t, "data", "convert", demos, "--out", folder, "--lerobot", "v2.1", "--fps", "30")
	if want := folder + ": 4 episodes, 17 transitions\n"; code != loop.ExitOK || stdout != want {
		t.Errorf("exit code %d, %s, expected %s", code, stdout, want)
	}
	for range 2 { // a file of this command may be replaced
		if code, _, stderr := run(t, "data", "convert", folder, "--out", back); code != loop.ExitOK {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	}
	if readFile(t, back) != readFile(t, demos) {
		t.Error("another file after folder and back")
	}
	if cloning(t, folder) != cloning(t, demos) {
		t.Error("another model than from demos.safetensors")
	}
	const plain = lerobotData + "v30" // as other programs write it
	for args, want := range map[string]string{
		demos + " --out " + folder:         "--out " + folder + ": expected a folder that does not exist",
		demos + " --out x --lerobot v1.6":  "--lerobot v1.6: expected v3.0 or v2.1",
		folder + " --out x --lerobot v2.1": "--lerobot: expected none, because " + folder + " is a folder",
		folder + " --out " + folder:        "there is a folder: expected the name of a file",
		demos + " --out x --name action":   "--name action: expected TENSOR=COLUMN",
		demos + " --out x --name image=top": "--name image: expected names among action, observation.image, " +
			"observation.proprio, observation.text, reward, terminated, truncated",
		plain + " --out x --name act=action": "--name act: expected names among action, observation.image, " +
			"observation.proprio, reward, terminated",
		plain + " --out x --name observation.state=top": "--name observation.state=top: no such column: expected one " +
			"of action, ",
		demos:                                   "expected one file or folder, and --out",
		"none --out x":                          "stat none: no such file",
		"testdata/lerobot --out " + back:        "info.json: no such file or directory: expected a folder of LeRobot",
		"testdata/lerobot/v30 --out /nowhere/x": "--out /nowhere/x: expected a file in a folder that can be written",
	} {
		code, _, stderr := run(t, append([]string{"data", "convert"}, strings.Fields(args)...)...)
		if code == loop.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, expected %s", args, code, stderr, want)
		}
	}
}

// TestLeRobotChecked: check says what the images take. Errors say where, what was found and what is valid.
func TestLeRobotChecked(t *testing.T) {
	const load = "algorithm.demo_buffer.load_path="
	damaged := filepath.Join(t.TempDir(), "damaged")
	test.OK(t, os.CopyFS(damaged, os.DirFS(lerobotData+"v30")))
	test.OK(t, os.Remove(filepath.Join(damaged, "data/chunk-000/file-001.parquet")))
	large := filepath.Join(t.TempDir(), "large")
	test.OK(t, os.CopyFS(large, os.DirFS(lerobotData+"v21")))
	for file, edit := range map[string][2]string{"info.json": {`"total_frames": 17`, `"total_frames": 4000000000013`},
		"episodes.jsonl": {`square"],"length":4}` + "\n{\"episode_index\":3", `square"],"length":4000000000000}` +
			"\n{\"episode_index\":3"}} {
		file = filepath.Join(large, "meta", file)
		text := strings.Replace(readFile(t, file), edit[0], edit[1], 1)
		test.OK(t, os.WriteFile(file, []byte(text), 0o666))
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{load + large, loop.ExitConfig, "/large: its tensors take"},
		{load + large, loop.ExitConfig, "free: expected a smaller folder"},
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
