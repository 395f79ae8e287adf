package embodied

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied/dataset"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// recordedBy trains for some iterations, records in training and in its evaluations, and returns both files.
func recordedBy(t *testing.T, ranks int, overrides ...string) (files [2][]byte) {
	t.Helper()
	dir := recordIn(t, ranks, nil, overrides...)
	for i, use := range []string{"train", "eval"} {
		file, err := os.ReadFile(filepath.Join(dir, use+"_global_step_0.safetensors"))
		test.OK(t, err)
		files[i] = file
	}
	return files
}

// recordIn trains for some iterations, records in training and in its evaluations, and returns the recordings' folder.
// If stops is not nil, it must stop the run by USR1.
func recordIn(t *testing.T, ranks int, stops session.Scheduler, overrides ...string) string {
	t.Helper()
	dir := t.TempDir()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, append(strings.Fields("runner.max_epochs=4 "+
		"actor.model.hidden_sizes=[8] algorithm.update_epoch=1 "+
		"runner.val_check_interval=2 runner.save_interval=-1 env.train.total_num_envs=8 env.eval.total_num_envs=4 "+
		"env.train.max_steps_per_rollout_epoch=32 actor.global_batch_size=64 actor.micro_batch_size=32 "+
		"env.train.data_collection.enabled=true env.eval.data_collection.enabled=true "+
		"env.eval.data_collection.max_steps=200 env.train.data_collection.save_dir="+dir+
		" env.eval.data_collection.save_dir="+dir+" runner.logger.log_path="+dir), overrides...)...)
	var out bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	s := session.New(session.Options{Registries: rolestest.Registries(), Tasks: task.Tasks{Task{}},
		Asked: asked, Out: &out, Log: &out, Scheduler: stops})
	code, err := s.Start(context.Background(), local.New(ranks), cfg, nil, nil)
	if err != nil || (code == loop.ExitRequeue) != (stops != nil) || stops == nil && code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out.String())
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".recording*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return dir
}

// The recorded files are the same in every placement, and have whole episodes alone.
func TestRecordings(t *testing.T) {
	const place = "cluster.component_placement."
	want := recordedBy(t, 1, place+"actor=0", place+"env=0", place+"rollout=0")
	for i, other := range [][]string{{"env=0-3", "rollout=1"}, {"env=1", "rollout=0-1"}} {
		got := recordedBy(t, []int{4, 2}[i], place+"actor=0", place+other[0], place+other[1],
			fmt.Sprint("rollout.pipeline_stage_num=", 2-i))
		for i, use := range []string{"training", "evaluations"} {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%v: another file of %s", other, use)
			}
		}
	}
	for _, file := range want {
		path := filepath.Join(t.TempDir(), "demos")
		test.OK(t, os.WriteFile(path, file, 0o600))
		d, err := algo.OpenDemos(path)
		test.OK(t, err)
		defer d.Close()
		for _, e := range d.Episodes {
			if e.Return != float64(e.Len) { // CartPole-v1 gives 1 for each step
				t.Errorf("an episode of %+v", e)
			}
		}
	}
}

// Folders of LeRobot are the exported recordings, in every placement.
func TestRecordedFolders(t *testing.T) {
	const place = "cluster.component_placement."
	files := recordIn(t, 1, nil, place+"actor=0", place+"env=0", place+"rollout=0")
	for ranks, envs := range map[int]string{1: "env=0", 2: "env=0-1"} {
		keys := []string{place + "actor=0", place + envs, place + "rollout=0"}
		for _, use := range []string{"train", "eval"} {
			key := "env." + use + ".data_collection."
			keys = append(keys, key+"export_format=lerobot", key+"fps=25", key+"robot_type=cart")
		}
		got := recordIn(t, ranks, nil, keys...)
		for _, use := range []string{"train_global_step_0", "eval_global_step_0"} {
			want := filepath.Join(t.TempDir(), use)
			e := dataset.Export{Version: lerobot.V21, FPS: 25, Robot: "cart"}
			test.OK(t, e.Write(filepath.Join(files, use+".safetensors"), want))
			if got, want := filesIn(t, filepath.Join(got, use)), filesIn(t, want); !reflect.DeepEqual(got, want) {
				t.Errorf("%d ranks, %s: %d files, want %d equal ones", ranks, use, len(got), len(want))
			}
			if _, err := os.Stat(filepath.Join(got, use+".safetensors")); err == nil {
				t.Errorf("%d ranks: %s.safetensors is left", ranks, use)
			}
		}
	}
}

// A stopper asks the run to stop when it hears of a step.
type stopper struct{}

func (stopper) Observe(advice.Iteration)              { syscall.Kill(syscall.Getpid(), syscall.SIGUSR1) }
func (stopper) Decide(int64, int64) *advice.Decision  { return nil }
func (stopper) Moved(*spmd.Placement, int64, float64) {}
func (stopper) Refused()                              {}

// TestStoppedRunRecords: a run that is asked to stop writes what was recorded until then.
func TestStoppedRunRecords(t *testing.T) {
	const place = "cluster.component_placement."
	dir := recordIn(t, 2, stopper{}, "runner.max_epochs=100000", place+"actor=0", place+"env=1", place+"rollout=1")
	d, err := algo.OpenDemos(filepath.Join(dir, "train_global_step_0.safetensors"))
	test.OK(t, err)
	defer d.Close()
	if d.Transitions() < 32 {
		t.Errorf("%d transitions", d.Transitions())
	}
}

// filesIn returns the contents of the files in dir, which must have some.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	test.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	}))
	if len(files) < 5 {
		t.Fatalf("%s: %d files", dir, len(files))
	}
	return files
}
