package trainer

import (
	"bytes"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// maskedCartPole is CartPole without its velocities.
func maskedCartPole(n int) env.Config {
	cfg := rolestest.EnvConfig("CartPole-v1", n)
	cfg.StateElements = []int{0, 2}
	return cfg
}

// newRecurrent makes a policy that remembers.
func newRecurrent(t testing.TB, cfg env.Config, change func(*policy.Config)) policy.Policy {
	t.Helper()
	net := policy.DefaultConfig()
	net.ModelType, net.ShareTrunk, net.HiddenSizes, net.RNNHiddenSize = "rnn_policy", true, []int{16}, 16
	if change != nil {
		change(&net)
	}
	vec := test.Must(all.Registry().New(cfg, 1))(t)
	pol := test.Must(policy.Builtin().New(net, vec.Spec(), 1, tensor.Heap))(t)
	return pol
}

// A replay steps environments as recordings say, and keeps the policy's hidden state by hand: zeros where an episode
// begins.
type replay struct {
	*testing.T
	pol    policy.Policy
	work   policy.Work
	vec    env.Vec
	seeder *env.Seeder
	out    *env.Step
	memory tensor.Tensor
}

// newReplay begins with the second episodes of n environments.
func newReplay(t *testing.T, cfg env.Config, pol policy.Policy, n int) *replay {
	t.Helper()
	vec := test.Must(all.Registry().New(cfg, n))(t)
	r := &replay{t, pol, pol.NewWork(n), vec, env.NewSeeder(cfg, env.Train, 0, n), vec.Spec().NewStep(n, 1),
		tensor.New(tensor.F32, n, policy.HiddenLen(pol))}
	r.seeder.Started(nil)
	test.OK(t, vec.Reset(nil, r.seeder.Next(), r.out))
	r.seeder.Started(nil)
	return r
}

// value returns the policy's values of observations behind the hidden state.
func (r *replay) value(obs tensor.Dict) []float32 {
	r.Helper()
	v, err := r.pol.Value(r.work, with(obs, r.memory))
	if err != nil {
		r.Fatal(err)
	}
	return slices.Clone(v.F32())
}

// step takes the recorded action. It returns the values before it, those of the last observations, and those of the
// next ones, in which an episode may begin.
func (r *replay) step(action tensor.Tensor) (now, final, next []float32) {
	r.Helper()
	act, err := r.pol.Forward(r.work, with(r.out.Obs, r.memory), policy.Deterministic, policy.Noise{})
	if err != nil {
		r.Fatal(err)
	}
	now = slices.Clone(act.Value.F32())
	r.memory.CopyFrom(act.Hidden)
	var taken tensor.Dict
	taken.Set("action", action)
	if err := r.vec.Step(taken, r.seeder.Next(), r.out); err != nil {
		r.Fatal(err)
	}
	r.seeder.Observe(r.out)
	final = r.value(r.out.FinalObs)
	for e := range r.memory.Dim(0) {
		if _, ended := r.out.Took(e); ended {
			r.memory.At(e).Zero()
		}
	}
	return now, final, r.value(r.out.Obs)
}

// TestMemoryIsRecorded: recordings equal those of a policy whose hidden state is kept by hand: zeros where an episode
// begins, and the state after its last step for the value of its last observation.
func TestMemoryIsRecorded(t *testing.T) {
	const n, steps = 3, 60
	cfg := maskedCartPole(n)
	cfg.MaxEpisodeSteps = 12
	pol := newRecurrent(t, cfg, func(net *policy.Config) { net.RNNType = "lstm" })
	c := newCollector(t, cfg, pol)
	collect(t, c, 7, true) // with a reset, nothing of it is remembered
	d := collect(t, c, steps/2, true)
	rest := collect(t, c, steps/2, false)
	r := newReplay(t, cfg, pol, n)
	cuts := 0
	for at := range steps {
		if at == steps/2 {
			d = rest
		}
		i := at % (steps / 2)
		if !bytes.Equal(d.Must("memory").At(i).Bytes(), r.memory.Bytes()) {
			t.Fatalf("step %d: remembered %v, want %v", at, d.Must("memory").At(i).F32(), r.memory.F32())
		}
		now, final, next := r.step(d.Must("action").At(i))
		if !slices.Equal(d.Must("value").At(i).F32(), now) {
			t.Fatalf("step %d: values %v, want %v", at, d.Must("value").At(i).F32(), now)
		}
		for e := range n {
			if r.out.Terminated.U8()[e] != 0 {
				continue
			}
			want := next[e]
			if r.out.Truncated.U8()[e] != 0 {
				cuts++
				want = final[e]
			}
			if got := d.Must("next_value").At(i).F32()[e]; got != want {
				t.Fatalf("step %d, environment %d: next value %v, want %v", at, e, got, want)
			}
		}
	}
	if cuts == 0 {
		t.Error("no episode was truncated: the test sees too little")
	}
}

// with returns obs and the hidden state.
func with(obs tensor.Dict, memory tensor.Tensor) (d tensor.Dict) {
	rolestest.AddAll(&d, obs)
	d.Set(policy.HiddenState, memory)
	return d
}

// As long as the parameters are those of the rollout, training computes the same log-probs and values as the rollout,
// in sequences of any length. Sequences begin with the recorded hidden state, and episodes may begin within them.
func TestSequencesAreWhatWasPlayed(t *testing.T) {
	const n, steps = 6, 24
	for _, c := range []struct {
		name      string
		auto      bool
		length    int
		algorithm func(*algo.Config)
	}{
		{"whole rollouts", true, 0, func(*algo.Config) {}},
		{"pieces", true, 4, func(c *algo.Config) { c.KLBeta = 0.1 }},
		{"without auto-reset", false, 0, func(*algo.Config) {}},
		{"grpo in pieces", false, 8, func(c *algo.Config) { c.AdvType, c.LossType, c.KLBeta = "grpo", "actor", 0.1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := maskedCartPole(n)
			cfg.MaxEpisodeSteps, cfg.AutoReset, cfg.GroupSize = 15, c.auto, 3
			if !c.auto {
				cfg.MaxEpisodeSteps = 2 * steps // some episodes are cut off with the rollout
			}
			s := algo.Setup{
				Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, GroupSize: 3, Steps: steps,
				Envs: n, GlobalBatch: steps * n,
				MicroBatch: steps * n / 2, Policy: newRecurrent(t, cfg, nil),
			}
			s.Optim.LR, s.Config.SequenceLength = 0.01, c.length
			c.algorithm(&s.Config)
			algorithm := test.Must(algo.Builtin().New(s))(t)
			collector := newCollector(t, cfg, s.Policy)
			for round := range 3 {
				rollout := test.Must(collector.Collect(steps, false))(t)
				if first := rollout.Must("memory").At(0).F32(); !c.auto &&
					slices.ContainsFunc(first, func(x float32) bool { return x != 0 }) {
					t.Errorf("round %d begins with %v, want zeros: so do its episodes", round, first)
				}
				test.OK(t, algorithm.Prepare(&rollout))
				m := test.Must(algorithm.Update(rollout))(t)
				thoughtThen(t, round, m.Names, m.Values)
			}
		})
	}
}

// thoughtThen checks that an update begins with the policy of the rollout, and that later rounds have another policy.
func thoughtThen(t *testing.T, round int, names []string, values []float64) {
	t.Helper()
	for i, name := range names {
		switch x := values[i]; name {
		case "actor/ratio_abs", "actor/approx_kl":
			test.Equal(t, x, 0, "round %d: %s", round, name)
		case "actor/kl_loss":
			if round == 0 && x != 0 || round > 0 && x == 0 {
				t.Errorf("round %d: %s is %v", round, name, x)
			}
		case "actor/grad_norm":
			if !(x > 0) {
				t.Errorf("round %d: %s is %v", round, name, x)
			}
		}
	}
}

func TestRecurrentCollectDoesNotAllocate(t *testing.T) {
	cfg := maskedCartPole(8)
	c := newCollector(t, cfg, newRecurrent(t, cfg, nil))
	if n := testing.AllocsPerRun(5, func() {
		if _, err := c.Collect(500, false); err != nil {
			t.Error(err)
		}
		c.Episodes()
	}); n > 10 {
		t.Errorf("%v allocations in 500 steps", n)
	}
}
