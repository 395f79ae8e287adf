package python_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// envs is the number of environments in the benchmarks.
const envs = 16

// TestContract: environments in Python keep the contract of package env, over pipes with shared memory. With
// RLINF_TEST_FULL=1, so do environments in arrays, without shared memory.
func TestContract(t *testing.T) {
	python := python(t, "numpy")
	kinds := []string{"single"}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		kinds = append(kinds, "batch")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cfg := config(python, kind)
			cfg.MaxEpisodeSteps = 25
			cfg.External.SharedMemory = kind == "single"
			hub := external.NewHub(t.Output(), 0)
			t.Cleanup(func() { hub.Close() })
			var err error
			if cfg.External.Greeting, err = hub.Ask(cfg); err != nil {
				t.Fatal(err)
			}
			envtest.Run(t, func(n int) (env.Vec, error) { return hub.New(cfg, n) }, envtest.Options{})
		})
	}
}

// TestException: the log has the traceback of an exception once, with the child's name before each line, then the
// exception and its environments.
func TestException(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.MaxRestarts = 0
	cfg.External.Command = env.Command{python(t, "numpy"), "-c", `
import rlb

class Arm:
    observation_space, action_space = rlb.Box(-1, 1, (1,)), rlb.Discrete(2)
    def reset(self, *, seed, options=None):
        return [0], {}
    def step(self, action):
        print("reaching")
        raise RuntimeError("the arm is\nstuck")

rlb.serve(Arm)`}
	t.Setenv("PYTHONPATH", ".")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	var log bytes.Buffer
	vec, seeds, out := begin(t, &log, cfg, 2)
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.I32, 2, 1, 1))
	err := vec.Step(action, seeds, out)
	const says = "environments 0-1 of Arm: simulator 0: error: RuntimeError: the arm is\nstuck (exit status 1)\nthat " +
		"was once in a row"
	if err == nil || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("%v, want %q", err, says)
	}
	const in, raised = "simulator 0:   File \"<string>\", line 10, in step\n",
		"simulator 0: RuntimeError: the arm is\nsimulator 0: stuck\n"
	if got := log.String(); strings.Count(got, "Traceback") != 1 || strings.Count(got, in) != 1 ||
		strings.Count(got, raised) != 1 {
		t.Errorf("want a traceback with %q and %q in the log, once:\n%s", in, raised, got)
	}
}

// config returns the configuration of a child that runs bench/child.py.
func config(python, kind string) env.Config {
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.Command = env.Command{python, "bench/child.py", kind}
	return cfg
}

// BenchmarkStep measures a step of 16 environments behind the bridge, in rounds of 2000, and of the same environments
// in Python alone, in rounds between them. It reports the medians, and the steps behind the bridge per 100 steps alone.
// "seeded" is alone with a seed for every episode, as behind the bridge. CHILD_CORE, if set, is the core that Python is
// bound to:
//
//	CHILD_CORE=1 taskset -c 0 go test ./clients/python -run '^$' -bench Step -benchtime 40x
func BenchmarkStep(b *testing.B) {
	python := python(b, "numpy")
	for _, bb := range []struct {
		kind  string
		alone []string
	}{{"null", nil}, {"images", nil}, {"single", []string{"single", "seeded"}}, {"batch", []string{"batch"}}} {
		b.Run(bb.kind, func(b *testing.B) {
			const steps = 2000
			step := bridged(b, python, bb.kind)
			var alone []func(int) time.Duration
			for _, kind := range bb.alone {
				alone = append(alone, unbridged(b, python, kind))
			}
			took := make([][]float64, 1+len(alone)) // microseconds of a step
			for b.Loop() {
				began := time.Now()
				for range steps {
					step()
				}
				took[0] = append(took[0], time.Since(began).Seconds()*1e6/steps)
				for i, play := range alone {
					took[1+i] = append(took[1+i], play(steps).Seconds()*1e6/steps)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took[0]), "µs")
			for i, kind := range bb.alone {
				b.ReportMetric(median(took[1+i]), "µs-"+kind)
				b.ReportMetric(100*median(took[1+i])/median(took[0]), "%-"+kind)
			}
		})
	}
}

// bridged returns a function that takes a step of environments behind the bridge.
func bridged(b *testing.B, python, kind string) func() {
	cfg := config(python, kind)
	cfg.External.Command = bound(cfg.External.Command...)
	vec, seeds, out := begin(b, b.Output(), cfg, envs)
	actions := make([]tensor.Dict, 4096)
	for i := range actions {
		a := tensor.New(vec.Spec().Action.DType, envs, 1, 1)
		if a.DType() == tensor.I32 {
			for n := range a.I32() {
				a.I32()[n] = int32(rand.IntN(2))
			}
		}
		actions[i].Set("action", a)
	}
	i := 0
	return func() {
		for n := range seeds {
			seeds[n]++
		}
		i = (i + 1) % len(actions)
		test.OK(b, vec.Step(actions[i], seeds, out))
	}
}

// begin returns n environments of cfg that have begun episodes, and the memory of their steps. The output of their
// child goes to log.
func begin(tb testing.TB, log io.Writer, cfg env.Config, n int) (vec env.Vec, seeds []uint64, out *env.Step) {
	tb.Helper()
	hub := external.NewHub(log, 0)
	tb.Cleanup(func() { hub.Close() })
	vec = test.Must(hub.New(cfg, n))(tb)
	tb.Cleanup(func() { vec.Close() })
	seeds, out = make([]uint64, n), vec.Spec().NewStep(n, 1)
	test.OK(tb, vec.Reset(nil, seeds, out))
	return vec, seeds, out
}

// bound returns a command that runs on CHILD_CORE.
func bound(command ...string) []string {
	if core := os.Getenv("CHILD_CORE"); core != "" {
		return append([]string{"taskset", "-c", core}, command...)
	}
	return command
}

// unbridged returns a function that takes steps of bench/alone.py, and returns their time.
func unbridged(b *testing.B, python, kind string) func(steps int) time.Duration {
	command := bound(python, "bench/alone.py", kind)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=.")
	in := test.Must(cmd.StdinPipe())(b)
	out := test.Must(cmd.StdoutPipe())(b)
	test.OK(b, cmd.Start())
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	return func(steps int) time.Duration {
		fmt.Fprintln(in, steps)
		line, err := lines.ReadString('\n')
		seconds, parseErr := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil && err != io.EOF || parseErr != nil {
			b.Fatalf("bench/alone.py %s: %q, %v", kind, line, err)
		}
		return time.Duration(seconds * float64(time.Second))
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
