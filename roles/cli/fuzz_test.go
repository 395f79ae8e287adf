package cli

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestCheckOfAnything: rlinf check has a verdict or messages for any configuration, and never a panic. Placements, task
// types and sections are changed at random, 250 times (30 times with -short), or for five minutes with
// RLINF_TEST_FULL=1.
func TestCheckOfAnything(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "texts.jsonl")
	test.OK(t, os.WriteFile(data, []byte(strings.Repeat(`{"prompt": "the hen", "answer": "42"}`+"\n", 8)),
		0o666))
	bases := []string{fmt.Sprintf(textsYAML, languageFolder(t), data)}
	for _, name := range []string{"cartpole_ppo", "cartpole_grpo", "cartpole_reward", "cartpole_inference",
		"pendulum_async_sac", "pendulum_dagger", "pendulum_iql"} {
		text := readFile(t, filepath.Join("../../configs", name+".yaml"))
		bases = append(bases, text)
	}
	deadline, least := time.Now().Add(5*time.Minute), uint64(250)
	if testing.Short() {
		least = 30
	}
	verdicts := map[string]int{}
	for seed := uint64(0); seed < least || os.Getenv("RLINF_TEST_FULL") != "" && time.Now().Before(deadline); seed++ {
		s := &spoiler{rand.New(rand.NewPCG(seed, 1))}
		var root map[string]any
		test.OK(t, yaml.Unmarshal([]byte(pick(s, bases)), &root))
		for range 1 + s.IntN(4) {
			s.spoil(root)
		}
		text, _ := yaml.Marshal(root)
		file := filepath.Join(dir, "spoilt.yaml")
		test.OK(t, os.WriteFile(file, text, 0o666))
		code, verdict, err := checkOrPanic(t, file)
		if err == nil && code != loop.ExitOK && code != loop.ExitConfig {
			err = fmt.Errorf("exit code %d", code)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		verdicts[verdict]++
	}
	if verdicts["runs"] == 0 || len(verdicts) < 4 {
		t.Errorf("verdicts: %v, expected some of several kinds", verdicts)
	}
}

// checkOrPanic returns the exit code of check and the verdict's headline. The error is a panic.
func checkOrPanic(t *testing.T, file string) (code int, verdict string, err error) {
	stdout, stderr := os.Stdout, os.Stderr
	defer func() {
		if p := recover(); p != nil {
			os.Stdout, os.Stderr = stdout, stderr
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	code, out, errs := run(t, "check", "-c", file)
	_, verdict, found := strings.Cut("\n"+out+errs, "\nverdict: ")
	if !found {
		return code, "", errors.New("no verdict\n" + out + errs)
	}
	verdict, _, _ = strings.Cut(verdict, "\n")
	return code, verdict, nil
}

// textsYAML is a job of the task reasoning, or of sft: the folder of its model, its data.
const textsYAML = `
cluster: {component_placement: {"actor,rollout,reward": 0}}
runner: {task_type: reasoning, seq_length: 96, max_steps: 1}
data: {train_data_paths: %[2]s, val_data_paths: %[2]s, rollout_batch_size: 2, max_prompt_length: 32}
algorithm: {adv_type: grpo, loss_type: actor, group_size: 2, n_minibatches: 1, kl_beta: 0.1}
rollout: {max_running_requests: 8}
actor: {micro_batch_size: 1, global_batch_size: 4, model: {model_type: qwen2, model_path: %[1]s}, optim: {lr: 1.0e-5}}
`

// A spoiler changes configurations.
type spoiler struct{ *rand.Rand }

func pick[T any](s *spoiler, of []T) T { return of[s.IntN(len(of))] }

// spoil makes one change.
func (s *spoiler) spoil(root map[string]any) {
	switch s.IntN(6) {
	case 0, 1:
		s.section(root, "cluster")["component_placement"] = s.placement()
	case 2:
		s.section(root, "runner")["task_type"] = pick(s, []any{"embodied", "embodied_eval", "sft", "reasoning",
			"reasoning_eval", "offline",
			"coding_online_rl", "sfft", "", nil, 3, []any{}})
	case 3:
		delete(root, pick(s, keysOf(root)))
	default:
		s.change(root)
	}
}

// placement places some components, most of which there are.
func (s *spoiler) placement() any {
	names := []string{"actor", "rollout", "env", "reward", "inference", "critic", "agent_loop", "rolout", ""}
	places := []any{0, 1, "0", "0-99999999999", 1 << 30, "0-1", "all", "0:0-1", "0-1:0", "1-0", "x", nil, "",
		map[string]any{"node_group": "node", "placement": "0"},
		map[string]any{"node_group": "none", "placement": "all"}, []any{0, 1}}
	placement := map[string]any{}
	for range s.IntN(4) {
		var joined []string
		for range 1 + s.IntN(3) {
			joined = append(joined, pick(s, names))
		}
		place := any(0)
		if s.IntN(3) == 0 {
			place = pick(s, places)
		}
		placement[strings.Join(joined, ",")] = place
	}
	return placement
}

// change removes something below root or gives it another value.
func (s *spoiler) change(at map[string]any) {
	if len(at) == 0 {
		return
	}
	key := pick(s, keysOf(at))
	if below, ok := at[key].(map[string]any); ok && s.IntN(8) > 0 {
		s.change(below)
		return
	}
	if s.IntN(2) == 0 {
		delete(at, key)
		return
	}
	at[key] = pick(s, []any{nil, 0, -1, 1, 7, 1 << 40, 0.5, true, false, "", "x", "${a.b}", "0x1f", []any{},
		[]any{1, "x"}, map[string]any{},
		map[string]any{"x": 1}})
}

// section returns the map at key, which is made where there is none.
func (s *spoiler) section(root map[string]any, key string) map[string]any {
	if m, ok := root[key].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	root[key] = m
	return m
}

func keysOf(m map[string]any) []string {
	if len(m) == 0 {
		return []string{"x"}
	}
	return slices.Sorted(maps.Keys(m))
}
