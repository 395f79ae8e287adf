package embodied

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// A fault is an error in the second evaluation of a run.
type fault struct {
	at     string       // environment, reset, policy, or "" for no error
	vecs   atomic.Int32 // number of evaluation Vecs made so far
	resets atomic.Int32 // number of evaluations begun by the first of them
}

// A frail is a Vec of evaluations.
type frail struct {
	env.Vec
	*fault
	number, steps int
}

func (f *frail) Reset(mask []bool, seeds []uint64, out *env.Step) error {
	if f.steps = 0; f.number == 1 && f.resets.Add(1) == 2 && f.at == "reset" {
		return errors.New("the pole is missing")
	}
	return f.Vec.Reset(mask, seeds, out)
}

func (f *frail) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	if f.steps++; f.number == 1 && f.resets.Load() == 2 && f.steps == 3 && f.at == "environment" {
		return errors.New("the pole broke")
	}
	return f.Vec.Step(action, seeds, out)
}

// A frailPolicy fails in the second evaluation.
type frailPolicy struct {
	policy.Policy
	*fault
}

func (p frailPolicy) Forward(w policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act, error) {
	if mode == policy.Deterministic && p.resets.Load() == 2 && p.at == "policy" {
		return policy.Act{}, errors.New("the policy is lost")
	}
	return p.Policy.Forward(w, obs, mode, noise)
}

// train runs a job of six steps with an evaluation after every second one. It returns the output and the exit code.
func train(t *testing.T, at, folder, resume, components string, np int, overrides ...string) (string, int) {
	t.Helper()
	f := &fault{at: at}
	reg := rolestest.Registries()
	reg.Envs = all.Registry().With("frail", func(cfg env.Config, n int) (env.Vec, error) {
		cfg.EnvType = "CartPole-v1"
		v, err := all.Registry().New(cfg, n)
		if n == 1 { // a draft makes one environment to see what it is
			return v, err
		}
		return &frail{Vec: v, fault: f, number: int(f.vecs.Add(1))}, err
	})
	reg.Policies.Add("frail_policy", func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (
		policy.Policy, error) {
		pol, err := policy.NewMLP(cfg, spec, seed, alloc)
		return frailPolicy{pol, f}, err
	})
	cfg, _, err := config.Load(reg, placed(t, "../../configs/cartpole_ppo.yaml", components), slices.Concat(small,
		[]string{"runner.max_steps=6", "runner.save_interval=-1", "runner.val_check_interval=2",
			"env.eval.env_type=frail", "env.eval.total_num_envs=4", "env.eval.max_episode_steps=8",
			"actor.model.model_type=frail_policy",
			"runner.logger.log_path=" + folder, "runner.logger.experiment_name=run",
			"runner.logger.logger_backends=[]"}, overrides), false)
	test.OK(t, err)
	var out bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	s := session.New(session.Options{Registries: reg, Tasks: task.Tasks{Task{}}, Asked: asked, Out: &out,
		Log: &out, Resume: resume, Command: "rlinf"})
	code, err := s.Start(context.Background(), local.New(np), cfg, nil, nil)
	test.Check(t, err)
	return out.String(), code
}

// lines returns the metrics of a run without times.
func lines(t *testing.T, folder string) (all []map[string]any) {
	t.Helper()
	text := test.Must(os.ReadFile(filepath.Join(folder, "run", "metrics.jsonl")))(t)
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		test.OK(t, json.Unmarshal([]byte(line), &m))
		maps.DeleteFunc(m, func(name string, _ any) bool { return !metrics.Repeats(name) })
		all = append(all, m)
	}
	return all
}

// An error of an evaluation ends the job, with a checkpoint of the steps that are done and without a score. A resume
// from it goes on as the job would have.
func TestFailedEvaluationLeavesACheckpoint(t *testing.T) {
	sound := t.TempDir()
	if out, code := train(t, "", sound, "", "actor,env,rollout: 0", 1); code != 0 {
		t.Fatal(out)
	}
	want := lines(t, sound)
	for _, c := range []struct {
		name, at, components string
		np                   int
		says                 string
		more                 []string
	}{
		{"environments of the rollout worker", "environment", "actor,env,rollout: 0", 1,
			": evaluate environments 0-3: the pole broke", nil},
		{"at a step that saves", "reset", "actor,env,rollout: 0", 1,
			": evaluate environments 0-3: the pole is missing", []string{"runner.save_interval=2"}},
		{"policy", "policy", "actor,env,rollout: 0", 1, ": evaluate environments 0-3: the policy is lost", nil},
		{"one of two env workers", "environment", "actor: 0; env: 1-2; rollout: 3", 4, "the pole broke",
			[]string{"runner.save_interval=2"}},
		{"reset, many routes", "reset", "actor: 0; env: 1-2; rollout: 0-3", 4, "the pole is missing", nil},
		{"policies, many routes", "policy", "actor: 0; env: 0-1; rollout: 1-2", 3, "the policy is lost",
			[]string{"runner.weight_sync_interval=3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			out, code := train(t, c.at, folder, "", c.components, c.np, c.more...)
			for _, says := range []string{" step 4: evaluate: ", c.says, "checkpoints/global_step_4\n",
				"--resume auto"} {
				if code != 1 || !strings.Contains(out, says) {
					t.Fatalf("exit code %d, want 1 and %q\n%s", code, says, out)
				}
			}
			last, err := checkpoint.Load(filepath.Join(folder, "run", "checkpoints", "latest"))
			if err != nil || last.Step != 4 {
				t.Fatalf("checkpoint %+v, %v, want step 4", last, err)
			}
			if about, err := os.ReadFile(filepath.Join(last.Dir, "manifest.json")); err != nil ||
				bytes.Contains(about, []byte(`"score"`)) {
				t.Errorf("the checkpoint has a score: %s (%v)", about, err)
			}
			got := lines(t, folder)
			if len(got) != 4 || got[3]["eval/return"] != nil || got[3]["env/return"] == nil {
				t.Fatalf("metrics %v, want four lines, the last one without an evaluation", got)
			}
			if out, code := train(t, "", folder, config.ResumeAuto, c.components, c.np, c.more...); code != 0 {
				t.Fatal(out)
			}
			got = lines(t, folder)
			if c.at != "policy" && fmt.Sprint(got[4:]) != fmt.Sprint(want[4:]) {
				t.Errorf("resumed\n%v\nwant\n%v", got[4:], want[4:])
			}
		})
	}
}
