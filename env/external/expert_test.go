package external_test

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// An adviser is a Pendulum-v1 whose expert answers with something else from call bad on.
type adviser struct {
	env.Vec
	calls, bad int
	says       float32
}

func (a *adviser) Act(action tensor.Tensor) error {
	if a.calls++; a.bad > 0 && a.calls >= a.bad {
		action.F32()[0] = a.says
		return nil
	}
	return env.Act(a.Vec, action)
}

// advised returns n environments of Pendulum-v1 behind the bridge, whose experts are as change says.
func advised(t *testing.T, log *bytes.Buffer, n int, change func(*adviser)) env.Vec {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Listen = env.ExternalID, "unix:"+filepath.Join(t.TempDir(), "s")
	cfg.External.MaxRestarts = 1
	hub := external.NewHub(log, 0)
	t.Cleanup(func() { hub.Close() })
	make := func(maxSteps int, ignore bool) (env.Vec, error) {
		c := env.DefaultConfig()
		c.MaxEpisodeSteps, c.IgnoreTerminations = maxSteps, ignore
		vec, err := classic.NewPendulum(c, 1)
		a := &adviser{Vec: vec}
		change(a)
		return a, err
	}
	for range 3 { // one greets, one plays, one may take its place
		go external.Serve(cfg.External.Listen, "", make)
	}
	var err error
	cfg.External.Greeting, err = hub.Ask(cfg)
	test.OK(t, err)
	if !external.HasExpert(cfg.External) {
		t.Fatal("the greeting has no expert")
	}
	vec, err := hub.New(cfg, n)
	test.OK(t, err)
	return vec
}

// The expert behind the bridge acts as the one in this process, and changes nothing.
func TestExpert(t *testing.T) {
	var log bytes.Buffer
	there := advised(t, &log, 3, func(*adviser) {})
	cfg := env.DefaultConfig()
	here, err := classic.NewPendulum(cfg, 3)
	test.OK(t, err)
	spec := here.Spec()
	results := [2][]float32{}
	for k, vec := range []env.Vec{here, there} {
		out := spec.NewStep(3, 1)
		var action tensor.Dict
		action.Set("action", tensor.New(tensor.F32, 3, 1, 1))
		if k == 1 && env.Act(vec, tensor.New(tensor.F32, 2, 1, 1)) == nil {
			t.Error("actions for 2 of 3 environments")
		}
		test.OK(t, vec.Reset(nil, []uint64{1, 2, 3}, out))
		for step := range 210 { // beyond the end of the episode
			for range 1 + step%2 {
				test.OK(t, env.Act(vec, action.Must("action")))
			}
			results[k] = append(results[k], action.Must("action").F32()...)
			test.OK(t, vec.Step(action, []uint64{4, 5, 6}, out))
			results[k] = append(results[k], out.Obs.Must("state").F32()...)
		}
		if k == 1 {
			if n := testing.AllocsPerRun(20, func() { env.Act(vec, action.Must("action")) }); n > 0 {
				t.Errorf("%v allocations, want none", n)
			}
		}
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("the expert behind the bridge acts in another way")
	}
	test.OK(t, there.Close())
}

// Numbers beyond the bounds are clipped. An expert that says NaN is a failure: the episode is aborted in the next step,
// and another simulator takes over.
func TestExpertFails(t *testing.T) {
	var log bytes.Buffer
	for _, says := range []float32{5, float32(math.NaN())} {
		log.Reset()
		vec := advised(t, &log, 2, func(a *adviser) { a.bad, a.says = 3, says }) // the greeting asks once
		out := vec.Spec().NewStep(2, 1)
		var action tensor.Dict
		action.Set("action", tensor.New(tensor.F32, 2, 1, 1))
		test.OK(t, vec.Reset(nil, []uint64{1, 2}, out))
		for range 3 {
			test.OK(t, env.Act(vec, action.Must("action")))
		}
		if a := action.Must("action").F32()[1]; says == 5 && a != 2 || says != 5 && a != 0 {
			t.Errorf("%v gives %v", says, a)
		}
		test.OK(t, vec.Step(action, []uint64{3, 4}, out))
		if failed := says != 5; out.StatusOf(0) == env.Aborted != failed ||
			strings.Contains(log.String(), "EXPERT: number 0 of the action of environment 0 is NaN") != failed {
			t.Errorf("%v: status %d, %s", says, out.StatusOf(0), log.String())
		}
		test.OK(t, vec.Close())
	}
}

// Simulators without an expert have none.
func TestNoExpert(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Listen = env.ExternalID, "unix:"+filepath.Join(t.TempDir(), "s")
	hub := newHub(t.Output())
	defer hub.Close()
	go external.Serve(cfg.External.Listen, "", newCartPole)
	greeting, err := hub.Ask(cfg)
	test.OK(t, err)
	cfg.External.Greeting = greeting
	vec, err := hub.New(cfg, 1)
	test.OK(t, err)
	if err := env.Act(vec, tensor.New(tensor.I32, 1, 1, 1)); !errors.Is(err, errors.ErrUnsupported) ||
		strings.Contains(greeting, "expert") {
		t.Errorf("%v, greeting %s", err, greeting)
	}
}
