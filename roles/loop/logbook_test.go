package loop_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
)

// reportOf returns the report of an iteration: a loss of step+1, step mod 3 episodes, another figure from the fifth
// iteration on, and sometimes evaluations and lost episodes.
func reportOf(step int64, evaluates bool) loop.RankReport {
	x := float64(step + 1)
	r := loop.RankReport{Times: make([]float64, len(loop.Phases)), Names: []string{"actor/loss"}, Values: []float64{x},
		Rollouts: step + 1}
	r.Times[loop.WholeStep] = x / 2
	if step >= 4 {
		r.Names, r.Values = append(r.Names, "rollout/late"), append(r.Values, -x)
	}
	for range step % 3 {
		r.Episodes = env.AppendRows(r.Episodes, []env.Episode{{Env: int(x), Len: 1, Return: 10 * x}})
	}
	if evaluates { // the rate of the line leaves out this second
		r.Times[loop.WholeStep]++
		r.Times[loop.Evaluating] = 1
		r.Evals = env.AppendRows(nil,
			[]env.Episode{{Len: 1, Return: 100 * x}, {Aborted: step == 3, Len: 1, Return: 100 * x}})
	}
	if step == 3 || step >= 8 {
		r.Episodes = env.AppendRows(r.Episodes, []env.Episode{{Aborted: true, Len: 1}, {Aborted: true}})
	}
	return r
}

// cartpoleLogbook plans a job on one rank, and opens its logbook in a folder of its own.
func cartpoleLogbook(t *testing.T, overrides ...string) (*loop.JobPlan, *loop.Logbook, *runfolder.Folder) {
	t.Helper()
	placed := append(overrides, "cluster.component_placement={actor: 0, env: 0, rollout: 0}")
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, placed...)
	j := test.Must(task.Tasks{embodied.Task{}}.Plan(cfg, rolestest.Registries(), make([]int, 1)))(t)
	folder := test.Must(runfolder.Open(t.TempDir(), ""))(t)
	t.Cleanup(func() { folder.Close() })
	book := test.Must(loop.OpenLogbook(folder, &j.JobPlan, loop.StartState{},
		metrics.NewProgressLine(io.Discard, metrics.Options{}), time.Time{}))(t)
	return &j.JobPlan, book, folder
}

// With log_interval 3 a line has the means of three iterations. Evaluations, checkpoints (here every 4th iteration) and
// the end also write a line, with the means since the line before.
func TestLogInterval(t *testing.T) {
	j, book, folder := cartpoleLogbook(t, "runner.max_epochs=12", "runner.logger.log_interval=3",
		"runner.val_check_interval=4", "runner.save_interval=4", "runner.logger.logger_backends=[]")
	for step := range int64(10) {
		r := reportOf(step, j.EvaluatesAt(step+1))
		test.OK(t, book.Record(step+1, &r))
	}
	if err := book.Sync(); err != nil { // as before a checkpoint that a signal asks for
		t.Fatal(err)
	}
	if last, ok := metrics.LastStep(folder.Metrics()); last != 10 || !ok {
		t.Errorf("before a checkpoint of step 10 the last line is of step %d", last)
	}
	book.Set("time/replan", 1) // by a move that no iteration follows
	test.OK(t, book.Close())
	got, want := linesOf(t, folder.Metrics(), float64(stepsOf(j))), []string{
		fmt.Sprint(3.0, 3.0, 2.0, nil, 3.0, nil, 1.0, 1.0, nil, nil),
		fmt.Sprint(4.0, 4.0, 4.0, nil, 0.0, 400.0, 3.0, 0.5, 2.0, 1.0),
		fmt.Sprint(6.0, 6.0, 5.5, -5.5, 3.0, nil, 2.75, 1/2.75, nil, nil),
		fmt.Sprint(8.0, 8.0, 7.5, -7.5, 1.0, 800.0, 4.25, 1/3.75, nil, nil),
		fmt.Sprint(9.0, 9.0, 9.0, -9.0, 2.0, nil, 4.5, 1/4.5, 2.0, nil),
		fmt.Sprint(10.0, 10.0, 10.0, -10.0, 0.0, nil, 5.0, 1/5.0, 2.0, nil),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("lines:\n%q\nwant\n%q", got, want)
	}
}

// TestMeansOfUnmeasured: a line has the means over the iterations that have measured a metric. A metric that no
// iteration has measured is not in the line. A metric that was computed and is NaN is null.
func TestMeansOfUnmeasured(t *testing.T) {
	_, book, folder := cartpoleLogbook(t, "runner.max_epochs=6", "runner.logger.log_interval=3",
		"runner.val_check_interval=0", "runner.save_interval=0", "runner.logger.logger_backends=[]")
	for step := range int64(6) {
		never, late, sometimes, broken := algo.None(), algo.None(), float64(step), 0.0
		if step >= 4 {
			late = float64(step)
		}
		if step%2 == 0 {
			sometimes = algo.None()
		}
		if step == 1 {
			broken = math.NaN()
		}
		r := loop.RankReport{Times: make([]float64, len(loop.Phases)),
			Names: []string{"never", "late", "sometimes", "broken"}, Values: []float64{never, late, sometimes, broken}}
		test.OK(t, book.Record(step+1, &r))
	}
	test.OK(t, book.Close())
	text := test.Must(os.ReadFile(folder.Metrics()))(t)
	want := []map[string]any{{"sometimes": 1.0, "broken": nil}, {"late": 4.5, "sometimes": 4.0, "broken": 0.0}}
	for line := range bytes.Lines(text) {
		var all map[string]any
		test.OK(t, json.Unmarshal(line, &all))
		got := map[string]any{}
		for name, x := range all {
			if name, ok := strings.CutPrefix(name, "train/"); ok {
				got[name] = x
			}
		}
		if len(want) == 0 || !reflect.DeepEqual(got, want[0]) {
			t.Fatalf("line %s, want %v", line, want)
		}
		want = want[1:]
	}
}

// linesOf returns ten figures of each line of metrics; those of environment steps are divided by the steps of an
// iteration.
func linesOf(t *testing.T, path string, steps float64) (all []string) {
	t.Helper()
	text := test.Must(os.ReadFile(path))(t)
	for line := range bytes.Lines(text) {
		var m map[string]any
		test.OK(t, json.Unmarshal(line, &m))
		all = append(all, fmt.Sprint(m["step"], m["env/steps"].(float64)/steps, m["train/actor/loss"],
			m["rollout/late"], m["env/num_trajectories"], m["eval/return"], m["time/step"],
			m["time/env_steps_per_second"].(float64)/steps, m["env/num_lost"], m["eval/num_lost"]))
	}
	return all
}

// TensorBoard's x axis has iterations or environment steps. Its file has the configuration as a text.
func TestTensorBoardAxis(t *testing.T) {
	for axis, want := range map[string]int64{"step": 1, "env_steps": 0} {
		j, book, folder := cartpoleLogbook(t, "runner.logger.logger_backends=[tensorboard]",
			"runner.logger.tensorboard_axis="+axis)
		r := loop.RankReport{Times: make([]float64, len(loop.Phases)), Rollouts: 1}
		test.OK(t, book.Record(1, &r))
		test.OK(t, book.Close())
		if want == 0 {
			want = stepsOf(j)
		}
		files, _ := filepath.Glob(filepath.Join(folder.TensorBoard(), "events*"))
		if len(files) != 1 {
			t.Fatalf("event files %q", files)
		}
		text := test.Must(os.ReadFile(files[0]))(t)
		// An event is its time, its step, a varint behind the byte 16, and its values behind the byte 42.
		step := append(binary.AppendUvarint([]byte{16}, uint64(want)), 42)
		if !bytes.Contains(text[bytes.LastIndex(text, []byte("    ")):], step) ||
			!bytes.Contains(text, []byte("    runner:\n")) {
			t.Errorf("axis %s: no event of step %d, or no configuration", axis, want)
		}
	}
}

// stepsOf returns how many environment steps an iteration of a plan of test has.
func stepsOf(p *loop.JobPlan) int64 {
	return int64(p.Config.Env.Train.TotalNumEnvs * p.Config.Env.Train.MaxStepsPerRolloutEpoch)
}
