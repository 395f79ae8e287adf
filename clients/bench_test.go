package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkRoundTrip measures a step of 16 environments of a C child that computes nothing, with and without images, in
// alternating rounds. It reports the median and the least time in µs, and the time of two copies of the images.
// CHILD_CORE, if set, is the core that the children are bound to:
//
//	CHILD_CORE=1 taskset -c 0 go test ./clients -run '^$' -bench RoundTrip
func BenchmarkRoundTrip(b *testing.B) {
	const perRound = 200
	program := filepath.Join(programs, "idle")
	if out, err := exec.Command("gcc", "-std=c99", "-O2", "-o", program, "testdata/idle.c",
		"c/rlb.c").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	hub := external.NewHub(b.Output(), 0)
	defer hub.Close()
	child := func(arguments ...string) func() {
		command := append(env.Command{program}, arguments...)
		if core := os.Getenv("CHILD_CORE"); core != "" {
			command = append(env.Command{"taskset", "-c", core}, command...)
		}
		return idle(b, hub, command)
	}
	from, to := make([]byte, idleEnvs*64*64*3), make([]byte, idleEnvs*64*64*3)
	rounds := []struct {
		name  string
		do    func()
		times []float64
	}{
		{name: "plain", do: child()},
		{name: "images", do: child("images")},
		{name: "two-copies", do: func() { copy(to, from); copy(from, to) }},
	}
	for b.Loop() {
		for i := range rounds {
			start := time.Now()
			for range perRound {
				rounds[i].do()
			}
			rounds[i].times = append(rounds[i].times, float64(time.Since(start).Nanoseconds())/perRound/1000)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, r := range rounds {
		slices.Sort(r.times)
		b.ReportMetric(r.times[len(r.times)/2], r.name+"-µs")
		b.ReportMetric(r.times[0], r.name+"-least-µs")
	}
}

const idleEnvs = 16

// idle starts a child of testdata/idle.c, and returns a function that takes a step of its environments.
func idle(tb testing.TB, hub *external.Hub, command env.Command) func() {
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.Command = command
	cfg.External.MaxRestarts = 0
	vec := test.Must(hub.New(cfg, idleEnvs))(tb)
	out, seeds := vec.Spec().NewStep(idleEnvs, 1), make([]uint64, idleEnvs)
	test.OK(tb, vec.Reset(nil, seeds, out))
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.F32, idleEnvs, 1, 4))
	return func() {
		test.OK(tb, vec.Step(action, seeds, out))
	}
}
