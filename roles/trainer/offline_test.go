package trainer

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// pendulumDemos returns whole episodes of Pendulum-v1's expert, with noise of that deviation in its actions, and the
// mean of their returns.
func pendulumDemos(t testing.TB, episodes int, noise float64) (demos tensor.Dict, mean float64) {
	t.Helper()
	d := Demonstration{Episodes: episodes, Noise: noise, All: true, Seed: 1}
	demos = written(t, &d, all.Registry(), rolestest.EnvConfig("Pendulum-v1", episodes))
	for _, r := range demos.Must("reward").F32() {
		mean += float64(r) / float64(episodes)
	}
	return demos, mean
}

// learnOffline trains pol on demonstrations of Pendulum-v1 for a number of iterations. It returns the mean return of 20
// episodes and the last metrics.
func learnOffline(t testing.TB, pol policy.Policy, demos tensor.Dict, iterations int,
	change func(*algo.Setup)) (float64, algo.Metrics) {
	t.Helper()
	collector := newCollector(t, rolestest.EnvConfig("Pendulum-v1", 1), pol)
	collector.CollectTransitions()
	s := algo.Setup{
		Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 256, Seed: 1, Policy: pol,
		Rollout: collector.Fields(1), Demos: demos,
	}
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 1e-3, 0, 0
	change(&s)
	s.CriticOptim = s.Optim
	alg := test.Must(algo.Builtin().New(s))(t)
	evaluator := test.Must(NewEvaluator(all.Registry(), rolestest.EnvConfig("Pendulum-v1", 20)))(t)
	var m algo.Metrics
	trainer := Trainer{Policy: pol, Algorithm: alg, Evaluator: evaluator}
	test.OK(t, trainer.Train(t.Context(), iterations, 0, func(s Step) error { m = s.Metrics; return nil }))
	sum := test.Must(trainer.Evaluate(20, true))(t)
	return sum.Return, m
}

func metric(t testing.TB, m algo.Metrics, name string) float64 {
	t.Helper()
	for i, n := range m.Names {
		if n == name {
			return m.Values[i]
		}
	}
	t.Fatalf("no metric %s in %v", name, m.Names)
	return 0
}

// criticOf returns a copy of the parameters of the group critic.
func criticOf(p *nn.Params[float32]) (data []float32) {
	for _, g := range p.Groups {
		if g.Name == "critic" {
			data = append(data, p.Data[g.Lo:g.Hi]...)
		}
	}
	return data
}

// TestReadDemos: a written file can be read. An error names the tensor that does not fit the environment.
func TestReadDemos(t *testing.T) {
	demos, _ := pendulumDemos(t, 2, 0.5)
	c := newCollector(t, rolestest.EnvConfig("Pendulum-v1", 1),
		rolestest.NewPolicy(t, rolestest.EnvConfig("Pendulum-v1", 1), 1, nil))
	c.CollectTransitions()
	fields := c.Fields(1)
	got := test.Must(algo.ReadDemos(rolestest.WriteDemos(t, demos), fields))(t)
	var transitions tensor.Dict
	for i := range demos.Len() {
		if n, x := demos.Entry(i); !strings.HasPrefix(n, "episode.") {
			transitions.Set(n, x)
		}
	}
	test.Check(t, rolestest.SameDict(got, transitions))
	without := func(name string) (d tensor.Dict) {
		for i := range demos.Len() {
			if n, x := demos.Entry(i); n != name {
				d.Set(n, x)
			}
		}
		return d
	}
	with := func(name string, x tensor.Tensor) tensor.Dict {
		d := without(name)
		d.Set(name, x)
		return d
	}
	flag := demos.Must("truncated").Clone()
	flag.U8()[3] = 2
	nan := demos.Must("action").Clone()
	nan.F32()[7] = float32(math.NaN())
	for _, c := range []struct {
		name  string
		demos tensor.Dict
		want  string
	}{
		{"no actions", without("action"), "no tensor action: expected F32[400 1 1]"},
		{"no rewards", without("reward"), "reward is Tensor{}: expected F32[M]"},
		{"another environment's", with("observation.state", tensor.New(tensor.F32, 400, 4)),
			"observation.state is F32[400 4]: expected F32[400 3]"},
		{"a tensor too short", with("terminated", tensor.New(tensor.U8, 399)),
			"terminated is U8[399]: expected U8[400]"},
		{"discrete actions", with("action", tensor.New(tensor.I32, 400, 1, 1)),
			"action is I32[400 1 1]: expected F32[400 1 1]"},
		{"nothing", demos.Slice(0, 0), "reward is F32[0]: expected F32[M] of M > 0 transitions"},
		{"a flag of 2", with("truncated", flag), "truncated is 2 in transition 3: expected 0 or 1"},
		{"a NaN", with("action", nan), "action is NaN in transition 7"},
	} {
		if _, err := algo.ReadDemos(rolestest.WriteDemos(t, c.demos), fields); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := algo.ReadDemos(filepath.Join(t.TempDir(), "none"), fields); err == nil {
		t.Error("no file: no error")
	}
}
