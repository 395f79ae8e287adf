package embodied

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// A losing is a Vec in which the first environments lose every episode.
type losing struct {
	env.Vec
	lost int
}

func (l losing) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	err := l.Vec.Step(action, seeds, out)
	for n := range l.lost {
		out.Truncated.U8()[n], out.Status.U8()[n] = 1, env.Aborted
	}
	return err
}

// evaluationJob returns a job that evaluates a policy with its initial weights, in 5 environments of CartPole-v1. In
// each Vec the first environments lose every episode.
func evaluationJob(t *testing.T, lost int, overrides ...string) (*config.Config, config.Registries) {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole,
		append([]string{"runner.ckpt_path=" + filepath.Join(t.TempDir(), "weights"),
			"env.eval.env_type=losing", "env.eval.total_num_envs=5"}, overrides...)...)
	pol := rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 5), 1, nil)
	test.OK(t, durable.Write(cfg.Runner.CkptPath, func(w io.Writer) error {
		return tensor.WriteSafetensors(w, job.ModelDict(pol.Params()), nil)
	}))
	return cfg, config.Registries{Policies: policy.Builtin(), Algorithms: algo.Builtin(), Rewards: reward.Builtin(),
		Envs: all.Registry().With("losing", func(cfg env.Config, n int) (env.Vec, error) {
			cfg.EnvType = "CartPole-v1"
			v, err := all.Registry().New(cfg, n)
			return losing{v, min(lost, n)}, err
		})}
}

// evaluate runs the job on goroutine ranks, and returns its output and its exit code.
func evaluate(cfg *config.Config, reg config.Registries, ranks int, how task.EvaluationOptions) (string, int) {
	var out bytes.Buffer
	s := session.New(session.Options{Registries: reg, Tasks: task.Tasks{Task{}}, Asked: new(loop.Requests), Out: &out,
		Log: &out, Evaluation: &how})
	code, err := s.Start(context.Background(), local.New(ranks), cfg, nil, nil)
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String(), code
}

// An evaluation reports lost episodes, and fails if all episodes were lost.
func TestEvaluationLost(t *testing.T) {
	for lost, says := range map[int]string{0: "5 episodes of CartPole-v1\n  eval/return",
		2: "3 episodes of CartPole-v1", 5: "CartPole-v1: all 5 episodes were lost"} {
		cfg, reg := evaluationJob(t, lost)
		got, code := evaluate(cfg, reg, 1, task.EvaluationOptions{})
		if !strings.Contains(got, says) || strings.Contains(got, "eval/num_lost       2") != (lost == 2) ||
			(code != 0) != (lost == 5) {
			t.Errorf("%d of 5 lost: exit code %d, %s, want %s", lost, code, got, says)
		}
	}
}

// TestEvaluationOfGroups: an evaluation whose episodes begin in the same states says so.
func TestEvaluationOfGroups(t *testing.T) {
	cfg, reg := evaluationJob(t, 0, "env.eval.group_size=2", "env.eval.total_num_envs=6")
	for want, how := range map[string]task.EvaluationOptions{
		"6 episodes from 3 initial states of CartPole-v1\n": {},
		"7 episodes from 4 initial states of CartPole-v1\n": {Episodes: 7},
		`"initial_states":4`: {Episodes: 7, JSON: true},
	} {
		if got, code := evaluate(cfg, reg, 2, how); code != 0 || !strings.Contains(got, want) {
			t.Errorf("%+v: exit code %d: %s, want %s", how, code, got, want)
		}
	}
}

// The figures are the same on any number of ranks, even if there are more ranks than episodes. The number of episodes
// is the requested one.
func TestEvaluationOnRanks(t *testing.T) {
	cfg, reg := evaluationJob(t, 0)
	for _, how := range []task.EvaluationOptions{{}, {Episodes: 7}, {Episodes: 7, JSON: true}} {
		want, code := evaluate(cfg, reg, 1, how)
		if code != 0 || !strings.Contains(want, fmt.Sprint(max(how.Episodes, 5))) {
			t.Fatalf("%+v: exit code %d: %s", how, code, want)
		}
		for _, ranks := range []int{2, 3, 8} {
			if got, code := evaluate(cfg, reg, ranks, how); got != want || code != 0 {
				t.Errorf("%+v: %d ranks say %swant %s", how, ranks, got, want)
			}
		}
		var figures map[string]any
		if err := json.Unmarshal([]byte(want), &figures); (err == nil) != how.JSON {
			t.Fatalf("%+v: %v: %s", how, err, want)
		}
		if how.JSON && (figures["episodes"] != 7.0 || figures["task"] != "CartPole-v1" ||
			figures["checkpoint"] != cfg.Runner.CkptPath ||
			!(figures["eval/return_min"].(float64) < figures["eval/return"].(float64)) ||
			!(figures["eval/return_std"].(float64) > 0)) {
			t.Errorf("figures %v", figures)
		}
	}
}

// An episode of an evaluation ends at the task's own limit, unless the configuration limits the steps. The length of a
// training rollout does not matter.
func TestEvaluationLastsAsLongAsTheTask(t *testing.T) {
	for arg, want := range map[string]string{"~env.eval.max_steps_per_rollout_epoch": "lasts",
		"env.eval.max_steps_per_rollout_epoch=4": "  eval/episode_len    4\n"} {
		cfg, reg := evaluationJob(t, 0, "env.train.max_steps_per_rollout_epoch=4", arg)
		got, code := evaluate(cfg, reg, 1, task.EvaluationOptions{})
		if cut := strings.Contains(got, "  eval/episode_len    4\n"); code != 0 || cut != (want != "lasts") {
			t.Errorf("%s: exit code %d: %s", arg, code, got)
		}
	}
}

// The recorded file is the same on any number of ranks. It has no lost episodes.
func TestEvaluationRecords(t *testing.T) {
	cfg, reg := evaluationJob(t, 0, "env.eval.rollout_epoch=2")
	var want []byte
	for _, ranks := range []int{1, 2, 3, 8} {
		file := filepath.Join(t.TempDir(), "demos.safetensors")
		says, code := evaluate(cfg, reg, ranks, task.EvaluationOptions{Record: task.RecordOptions{File: file}})
		got, err := os.ReadFile(file)
		if err != nil || code != 0 || !strings.Contains(says, "  record              "+file+": 10 episodes, ") {
			t.Fatalf("%d ranks: exit code %d, %v: %s", ranks, code, err, says)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d ranks record another file", ranks)
		}
	}
	cfg, reg = evaluationJob(t, 2)
	file := filepath.Join(t.TempDir(), "demos.safetensors")
	if says, code := evaluate(cfg, reg, 1, task.EvaluationOptions{Record: task.RecordOptions{File: file}}); code != 0 ||
		!strings.Contains(says, ": 3 episodes, ") {
		t.Errorf("2 of 5 lost: exit code %d: %s", code, says)
	}
	least := 1e6
	record := task.RecordOptions{File: file, DataCollection: env.DataCollection{MinReturn: &least}}
	if says, code := evaluate(cfg, reg, 1, task.EvaluationOptions{Record: record}); code != loop.ExitFailed ||
		!strings.Contains(says, "eval/return") || !strings.Contains(says, "no episode to record: 3 were played") {
		t.Errorf("none is good enough: exit code %d: %s", code, says)
	}
}
