package e2e

import (
	"bytes"
	"encoding/json"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
)

// drifting is training on the drift of testdata/bridge. Episodes take four steps, and every second iteration ends in
// the middle of episodes.
const drifting = `
cluster: {component_placement: {actor: 0, env: 0, rollout: 0}}
runner: {max_steps: 6, val_check_interval: 3, save_interval: 3, logger: {experiment_name: run}}
env:
  train: {env_type: external, total_num_envs: 4, max_steps_per_rollout_epoch: 10}
  eval: {total_num_envs: 4, max_steps_per_rollout_epoch: 8, video_cfg: {width: 32, height: 32, num_envs: 3}}
algorithm: {gamma: 0.95, gae_lambda: 0.9, update_epoch: 2}
actor: {micro_batch_size: 20, global_batch_size: 20, optim: {lr: 3.0e-3}}
`

// drift returns the command of the drift simulator in Python, or in C.
func drift(t *testing.T, lang string) string {
	t.Helper()
	source, err := filepath.Abs("testdata/bridge/drift." + map[string]string{"Python": "py", "C": "c"}[lang])
	test.OK(t, err)
	if lang == "Python" {
		return python(t) + " " + source
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: scripts/setup test installs it")
	}
	program := filepath.Join(t.TempDir(), "drift")
	if out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I"+root+"/clients/c", "-o", program,
		source, root+"/clients/c/rlb.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// TestChildrenResume: a run that stopped within episodes goes on as if it had not stopped, also on other ranks and with
// other children. If children cannot restore a state, the run says so and begins other episodes. The metrics of an
// episode are means over the whole episode, resumed or not.
func TestChildrenResume(t *testing.T) {
	t.Parallel()
	const warning = "warning: drift cannot save its state: a resumed run will begin new episodes, and not be " +
		"bit-identical"
	for _, lang := range []string{"Python", "C"} {
		t.Run(lang, func(t *testing.T) {
			command, whole := drift(t, lang), t.TempDir()
			writeFile(t, whole, "job.yaml", drifting)
			local.ok(t, whole, 0, "-c", "job.yaml", "env.train.external.command="+command)
			want := readMetrics(t, filepath.Join(whole, "logs", "run"))
			want.checkWhole(t, 6)
			for _, c := range []struct {
				name, argument string
				more           []string // of the half that goes on
				warnings       int      // number of warnings in each half
			}{
				{"the same", "", nil, 0},
				{"two children", "", []string{"env.train.external.n=2"}, 0},
				{"two ranks", "", []string{"cluster.component_placement.env=0-1"}, 0},
				{"no state", " bare", []string{"cluster.component_placement.env=0-1"}, 1},
			} {
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", drifting)
				for _, half := range [][]string{{steps(3)}, append(c.more, steps(6), "--resume", "auto")} {
					args := append([]string{"-c", "job.yaml", "env.train.external.command=" + command + c.argument},
						half...)
					if r := local.ok(t, dir, 0, args...); strings.Count(r.stderr, warning) != c.warnings {
						t.Errorf("%s, %q: want %q %d times in\n%s", c.name, half, warning, c.warnings, r.stderr)
					}
				}
				got := readMetrics(t, filepath.Join(dir, "logs", "run"))
				if diff := got.diff(want); (diff == "") != (c.warnings == 0) {
					t.Errorf("%s: with a state the metrics are those of the undisturbed run, and without others:\n%s",
						c.name, diff)
				}
				for _, m := range got {
					for name, mean := range map[string]json.Number{"info/step": "2.5", "info/last": "0.25"} {
						if m["env/"+name] != mean || m["eval/num_trajectories"] != nil && m["eval/"+name] != mean {
							t.Errorf("%s: step %v: env/%s %v, eval/%[3]s %v, want %v", c.name, m["step"], name,
								m["env/"+name], m["eval/"+name], mean)
						}
					}
				}
				if got[3]["env/info/born"] == got[0]["env/info/born"] {
					t.Errorf("%s: env/info/born of steps 1 and 4 is %v: the episodes of the beginning came again",
						c.name, got[0]["env/info/born"])
				}
			}
		})
	}
}

// TestOtherSimulator: where a simulator has other observations than its run, evaluations and resumes give the numbers.
func TestOtherSimulator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "served.yaml", served)
	writeFile(t, dir, "job.yaml", good)
	simulator := []string{"-c", "job.yaml", "env.train.env_type=external",
		"env.train.external.command=[" + local.program(t, ".") + ",bridge,serve,-c,served.yaml]"}
	local.ok(t, dir, 0, simulator...)
	writeFile(t, dir, "served.yaml", strings.Replace(served, "CartPole-v1", "Acrobot-v1", 1))
	const want = "logs/job/checkpoints/global_step_2: the simulator shows 6 numbers, the run saw 4; the simulator " +
		"takes Discrete(3), the run chose from Discrete(2)"
	for _, args := range [][]string{append([]string{"eval"}, simulator...), append(simulator, "--resume", "auto")} {
		if r := local.run(t, dir, 0, args...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: exit code %d, want 2 and %q in\n%s", args, r.code, want, r.stderr)
		}
	}
}

// TestChildrenFilmed: children draw their initial states and each step, however they are started and share the
// environments. If children cannot draw, the run is refused before it begins.
func TestChildrenFilmed(t *testing.T) {
	t.Parallel()
	film := []string{"-c", "job.yaml", steps(1), "runner.val_check_interval=1", "runner.save_interval=-1",
		"env.eval.video_cfg.save_video=true"}
	for _, lang := range []string{"Python", "C"} {
		t.Run(lang, func(t *testing.T) {
			command := drift(t, lang)
			var first string
			for _, c := range []struct {
				name    string
				args    []string
				connect int // number of simulators that connect
			}{
				{"one child", []string{"env.train.external.command=" + command}, 0},
				{"two children", []string{"env.train.external.command=" + command, "env.train.external.n=2"}, 0},
				{"children of two", []string{"env.train.external.command=" + command + " pair"}, 0},
				{"one that connects for each use", []string{"env.train.external.listen=unix:s"}, 2},
			} {
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", drifting)
				j := local.start(t, dir, 0, append(film, append(c.args, "env.train.external.start_timeout=90s")...)...)
				for range c.connect {
					words := strings.Fields(command)
					child := exec.Command(words[0], words[1:]...)
					child.Dir, child.Env = dir, append(os.Environ(), "RLB_ADDR=unix:s")
					test.OK(t, child.Start())
					defer child.Wait()
				}
				if r := j.result(); r.code != 0 {
					t.Fatalf("%s: exit code %d\n%s%s", c.name, r.code, r.stdout, r.stderr)
				}
				path := filepath.Join(dir, "logs", "run", "videos", "global_step_1.png")
				file := readFile(t, path)
				if first == "" {
					first = file
					checkDriftFilm(t, path)
				} else if file != first {
					t.Errorf("%s: not the film of one child", c.name)
				}
			}

			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", drifting)
			local.ok(t, dir, 0, "render", "-c", "job.yaml", "env.train.external.command="+command+" pair",
				"env.eval.video_cfg.num_envs=1")
			if picture, err := os.ReadFile(filepath.Join(dir, "initial_states.png")); err != nil ||
				!bytes.HasPrefix(picture, []byte("\x89PNG")) {
				t.Errorf("no picture: %v", err)
			}
			bare := local.ok(t, dir, 0, append(film, "env.train.external.command="+command+" bare")...)
			if count(bare.stderr,
				"warning: env.eval.video_cfg.save_video: there is no film, because drift draws no pictures") != 1 {
				t.Errorf("simulators without pictures: %s", bare.stderr)
			}
		})
	}
}

// checkDriftFilm checks that a film of three environments has the first states and four steps, drawn as drift does.
func checkDriftFilm(t *testing.T, path string) {
	t.Helper()
	frames, _ := videotest.Frames(t, path)
	if len(frames) != 5 {
		t.Fatalf("%d frames, want the first states and four steps", len(frames))
	}
	near := func(got uint32, want int) bool { return int(got>>8) == want }
	const caption = 2 * 13 // below each picture
	for step, img := range frames {
		if img.Bounds() != image.Rect(0, 0, 64, 64+2*caption) {
			t.Fatalf("frame %d of %v, want two pictures side by side, and one below", step, img.Bounds())
		}
		var numbers [3]uint32
		for n := range numbers {
			x, y := 32*(n%2)+16, (32+caption)*(n/2)
			red, green, blue, _ := img.At(x, y+6).RGBA()
			if !near(red, 60*step) || !near(green, 0) || !near(blue, 0) {
				t.Errorf("frame %d, environment %d: red, green, blue are %d, %d, %d above, want %d, 0, 0", step, n,
					red>>8, green>>8, blue>>8, 60*step)
			}
			red, green, numbers[n], _ = img.At(x, y+26).RGBA()
			if !near(red, 0) || !near(green, 0) || near(numbers[n], 0) {
				t.Errorf("frame %d, environment %d: red, green, blue are %d, %d, %d below, want blue alone", step, n,
					red>>8, green>>8, numbers[n]>>8)
			}
		}
		if step == 0 && (numbers[0] == numbers[1] || numbers[1] == numbers[2] || numbers[2] == numbers[0]) {
			t.Errorf("episodes that begin with numbers of brightness %d: want three", numbers)
		}
	}
}
