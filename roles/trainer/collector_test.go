package trainer

import (
	"bytes"
	"math"
	"reflect"
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

// trainPendulum trains on Pendulum-v1 with the setup s and the rollouts of collector, for a number of epochs. It
// returns the mean return of 20 episodes.
func trainPendulum(t testing.TB, s algo.Setup, collector Collector, epochs int) float64 {
	t.Helper()
	alg := test.Must(algo.Builtin().New(s))(t)
	evaluator := test.Must(NewEvaluator(all.Registry(), rolestest.EnvConfig("Pendulum-v1", 20)))(t)
	trainer := Trainer{Policy: s.Policy, Algorithm: alg, Collector: collector, Evaluator: evaluator}
	test.OK(t, trainer.Train(t.Context(), epochs, s.Steps, nil))
	sum := test.Must(trainer.Evaluate(20, true))(t)
	return sum.Return
}

func newCollector(t testing.TB, cfg env.Config, pol policy.Policy) *SyncCollector {
	t.Helper()
	c := test.Must(NewSyncCollector(all.Registry(), cfg, pol, 1))(t)
	return c
}

// collect returns a copy of a rollout of n more steps, without the tensors that an algorithm adds.
func collect(t testing.TB, c *SyncCollector, n int, reset bool) (d tensor.Dict) {
	t.Helper()
	rollout := test.Must(c.Collect(n, reset))(t)
	for i := range rollout.Len() {
		if name, x := rollout.Entry(i); name != "advantage" && name != "return" {
			d.Set(name, x.Clone())
		}
	}
	return d
}

// PPO solves CartPole in one process: collect, update, evaluate.
func TestTrainerLearnsCartPole(t *testing.T) {
	const nEnvs, nSteps, nEpochs = 8, 64, 150
	cfg := rolestest.EnvConfig("CartPole-v1", nEnvs)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	ppo, optim := algo.DefaultConfig(), algo.DefaultOptimConfig()
	ppo.Gamma, ppo.GAELambda, ppo.UpdateEpoch, ppo.ValueLossCoef = 0.98, 0.9, 10, 0.5
	optim.LR, optim.LRScheduler, optim.WeightDecay = 2e-3, "linear", 0
	algorithm, err := algo.NewPPO(algo.Setup{
		Config: ppo, Optim: optim, GlobalBatch: 128, Seed: 1, Iterations: nEpochs, Steps: nSteps, Envs: nEnvs,
		Policy: pol,
	})
	test.OK(t, err)
	eval := test.Must(NewEvaluator(all.Registry(), rolestest.EnvConfig("CartPole-v1", 20)))(t)
	trainer := &Trainer{Policy: pol, Algorithm: algorithm, Collector: newCollector(t, cfg, pol), Evaluator: eval}
	before := test.Must(trainer.Evaluate(20, true))(t)
	rounds, episodes := 0, 0
	err = trainer.Train(t.Context(), nEpochs, nSteps, func(s Step) error {
		if s.Epoch != rounds || len(s.Metrics.Names) == 0 {
			t.Errorf("round %d is reported as epoch %d, with %d metrics", rounds, s.Epoch, len(s.Metrics.Names))
		}
		rounds++
		episodes += s.Episodes.NumTrajectories
		return nil
	})
	test.OK(t, err)
	after := test.Must(trainer.Evaluate(20, true))(t)
	t.Logf("evaluation %.1f before, %.1f after %d rounds with %d episodes", before.Return, after.Return, rounds,
		episodes)
	if rounds != nEpochs || episodes == 0 || before.Return > 100 || after.Return < 400 {
		t.Errorf("evaluation %.1f before, %.1f after %d rounds with %d episodes: want it to learn", before.Return,
			after.Return, rounds, episodes)
	}
}

// Two calls of Collect give the same steps as one call of both lengths: episodes, noise and values go on.
func TestCollectGoesOn(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 3)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	whole := collect(t, newCollector(t, cfg, pol), 90, true)
	c := newCollector(t, cfg, pol)
	first, second := collect(t, c, 50, true), collect(t, c, 40, false)
	ends := 0
	for i := range whole.Len() {
		name, w := whole.Entry(i)
		if !bytes.Equal(first.Must(name).Bytes(), w.Slice(0, 50).Bytes()) ||
			!bytes.Equal(second.Must(name).Bytes(), w.Slice(50, 90).Bytes()) {
			t.Errorf("%s of 50 and 40 steps is not that of 90", name)
		}
	}
	for _, e := range whole.Must("terminated").U8() {
		ends += int(e)
	}
	if ends == 0 {
		t.Error("no episode ended: the test sees too little")
	}
	if _, ok := whole.Get("mask"); ok {
		t.Error("there is a mask, but every step counts")
	}
}

// A recorded is a recording of n environments, and environments in which its actions are taken again.
type recorded struct {
	*testing.T
	n, chunk int
	d        tensor.Dict
	pol      policy.Policy
	work     policy.Work
	vec      env.Vec
	seeder   *env.Seeder
	out      *env.Step
	cuts     int // episodes that were truncated
}

// newRecorded collects a recording of a number of steps, and begins to take its actions again.
func newRecorded(t *testing.T, cfg env.Config, pol policy.Policy, n, chunk, steps int) *recorded {
	t.Helper()
	d := collect(t, newCollector(t, cfg, pol), steps, true)
	vec := test.Must(all.Registry().New(cfg, n))(t)
	r := &recorded{T: t, n: n, chunk: chunk, d: d, pol: pol, work: pol.NewWork(n), vec: vec,
		seeder: env.NewSeeder(cfg, env.Train, 0, n), out: vec.Spec().NewStep(n, chunk)}
	test.OK(t, vec.Reset(nil, r.seeder.Next(), r.out))
	r.seeder.Started(nil)
	return r
}

// near checks numbers up to rounding.
func (r *recorded) near(at int, what string, got, want []float32) {
	r.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
			r.Fatalf("step %d: %s %v, want %v", at, what, got, want)
		}
	}
}

// step checks what is recorded before the action of a step, and takes the action.
func (r *recorded) step(at int) {
	r.Helper()
	action := r.d.Must("action").At(at)
	if !bytes.Equal(r.d.Must("observation.state").At(at).Bytes(), r.out.Obs.Must("state").Bytes()) {
		r.Fatalf("step %d: the observation is not what the recorded actions lead to", at)
	}
	ev, err := r.pol.Evaluate(r.work, r.out.Obs, action)
	if err != nil {
		r.Fatal(err)
	}
	r.near(at, "log-probs", r.d.Must("sample_log_prob").At(at).F32(), ev.LogProb.F32())
	r.near(at, "values", r.d.Must("value").At(at).F32(), ev.Value.F32())

	var taken tensor.Dict
	taken.Set("action", action.Clone())
	policy.ClipAction(r.vec.Spec().Action, taken.Must("action"), action)
	if err := r.vec.Step(taken, r.seeder.Next(), r.out); err != nil {
		r.Fatal(err)
	}
	r.seeder.Observe(r.out)
}

// value returns the policy's values of observations.
func (r *recorded) value(obs tensor.Dict) []float32 {
	r.Helper()
	v, err := r.pol.Value(r.work, obs)
	if err != nil {
		r.Fatal(err)
	}
	return slices.Clone(v.F32())
}

// results checks the reward, the ends and the next value of each environment, as they were recorded for a step.
func (r *recorded) results(at int) {
	r.Helper()
	d, next, final := r.d, r.value(r.out.Obs), r.value(r.out.FinalObs)
	for e := range r.n {
		var reward float32
		var terminated, truncated byte
		for k := e * r.chunk; k < (e+1)*r.chunk; k++ {
			reward += r.out.Reward.F32()[k]
			terminated |= r.out.Terminated.U8()[k]
			truncated |= r.out.Truncated.U8()[k]
		}
		i := at*r.n + e
		r.near(at, "reward", d.Must("reward").F32()[i:i+1], []float32{reward})
		if d.Must("terminated").U8()[i] != terminated || d.Must("truncated").U8()[i] != truncated {
			r.Fatalf("step %d, environment %d: flags %d %d, want %d %d", at, e,
				d.Must("terminated").U8()[i], d.Must("truncated").U8()[i], terminated, truncated)
		}
		if truncated != 0 {
			r.cuts++
			next[e] = final[e]
		}
		if terminated == 0 {
			r.near(at, "next value", d.Must("next_value").F32()[i:i+1], next[e:e+1])
		}
	}
}

// TestCollectRecordsWhatHappened: the observations of a recording follow from its actions. Log-probs and values are
// those of the policy, and next values are the values of the next observations.
func TestCollectRecordsWhatHappened(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    string
		change func(*policy.Config)
		c, l   int // actions and log-probs in a chunk
	}{
		{"one choice", "CartPole-v1", nil, 1, 1},
		{"chunks of three", "CartPole-v1", func(p *policy.Config) {
			p.NumActionChunks, p.LogProbType = 3, "chunk_level"
		}, 3, 1},
		{"a log-prob for each of two", "Pendulum-v1", func(p *policy.Config) { p.NumActionChunks = 2 }, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n, steps = 4, 60
			cfg := rolestest.EnvConfig(c.env, n)
			cfg.MaxEpisodeSteps = 15
			r := newRecorded(t, cfg, rolestest.NewPolicy(t, cfg, 1, c.change), n, c.c, steps)
			action, logProb := r.d.Must("action"), r.d.Must("sample_log_prob")
			if action.Dim(2) != c.c || logProb.Dim(2) != c.l {
				t.Fatalf("actions %v with log-probs %v, want chunks of %d with %d", action, logProb, c.c, c.l)
			}
			for at := range steps {
				r.step(at)
				r.results(at)
			}
			if r.cuts == 0 {
				t.Error("no episode was truncated: the test sees too little")
			}
		})
	}
}

func TestCollectWithReset(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 3)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	c := newCollector(t, cfg, pol)
	first := collect(t, c, 5, true)
	for _, e := range c.Episodes() {
		t.Errorf("episode %v ended in 5 steps", e)
	}
	again := collect(t, c, 200, true)
	for i, x := range again.Must("observation.state").At(0).F32() { // Gymnasium starts CartPole within ±0.05
		if x < -0.05 || x > 0.05 || x == first.Must("observation.state").At(0).F32()[i] {
			t.Errorf("element %d of the first observations is %v: not that of a new episode", i, x)
		}
	}
	// The episodes told are those that ended, from their first step on: what 5 steps had begun is dropped.
	var lengths, ends int
	for _, e := range c.Episodes() {
		lengths += e.Len
		if e.Return != float64(e.Len) {
			t.Errorf("episode %+v: want a reward of 1 for each step", e)
		}
		ends++
	}
	var want, wantLengths int
	for e := range 3 {
		for at, length := 0, 0; at < 200; at++ {
			length++
			if again.Must("terminated").At(at).U8()[e] != 0 {
				want++
				wantLengths += length
				length = 0
			}
		}
	}
	if ends != want || lengths != wantLengths || want == 0 {
		t.Errorf("%d episodes with %d steps, want %d with %d", ends, lengths, want, wantLengths)
	}
	if len(c.Episodes()) != 0 {
		t.Error("episodes are reported twice")
	}
}

// Without auto_reset every rollout starts new episodes. Steps after an end are masked. Episodes that go on at the last
// step are truncated.
func TestCollectWithoutAutoReset(t *testing.T) {
	const steps = 16
	cfg := rolestest.EnvConfig("CartPole-v1", 4)
	cfg.AutoReset = false
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	c := newCollector(t, cfg, pol)
	for round := range 2 {
		d := collect(t, c, steps, false)
		idle, cut := 0, 0
		for e := range 4 {
			ended := false
			for at := range steps {
				mask, reward := d.Must("mask").At(at).U8()[e], d.Must("reward").At(at).F32()[e]
				if (mask == 0) != ended || ended && reward != 0 || !ended && reward != 1 {
					t.Errorf("round %d, environment %d, step %d: mask %d, reward %v, ended %v", round, e, at, mask,
						reward, ended)
				}
				if ended {
					idle++
				}
				terminated, truncated := d.Must("terminated").At(at).U8()[e], d.Must("truncated").At(at).U8()[e]
				if !ended && truncated != 0 && at == steps-1 {
					cut++
				}
				ended = ended || terminated|truncated != 0
			}
			if !ended {
				t.Errorf("round %d, environment %d: neither terminated nor truncated at the end", round, e)
			}
		}
		if idle == 0 || cut == 0 {
			t.Errorf("round %d: %d idle steps, %d episodes cut: the test sees too little", round, idle, cut)
		}
		for i, x := range d.Must("observation.state").At(0).F32() {
			if x < -0.05 || x > 0.05 {
				t.Errorf("round %d: element %d of the first observations is %v: not that of a new episode", round, i, x)
			}
		}
	}
}

func TestCollectWithoutCritic(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 2)
	pol := rolestest.NewPolicy(t, cfg, 1, func(p *policy.Config) { p.AddValueHead = false })
	d := collect(t, newCollector(t, cfg, pol), 100, true)
	for i, v := range d.Must("next_value").F32() {
		if v != 0 {
			t.Fatalf("next value %d is %v without a critic", i, v)
		}
	}
}

// TestCollectTransitions: the next observation of a step is the observation of the step after it. If the episode was
// cut off, it is the observation at the cut, which longer episodes with the same beginning have, too.
func TestCollectTransitions(t *testing.T) {
	const T, N, limit = 12, 3, 5
	soft := func(c *policy.Config) { c.AddQHead, c.AddValueHead = true, false }
	run := func(most int) tensor.Dict {
		cfg := rolestest.EnvConfig("Pendulum-v1", N)
		cfg.MaxEpisodeSteps = most
		c := newCollector(t, cfg, rolestest.NewPolicy(t, cfg, 1, soft))
		c.CollectTransitions()
		return collect(t, c, T, true)
	}
	short, long := run(limit), run(100)
	obs, next, whole := short.Must("observation.state"), short.Must("next_observation.state"),
		long.Must("observation.state")
	for step := range T - 1 {
		for n := range N {
			got, follows := next.At(step).At(n), obs.At(step+1).At(n)
			done := short.Must("truncated").At(step).U8()[n] != 0
			if want := (step+1)%limit == 0; done != want {
				t.Fatalf("step %d: truncated %v, want %v", step, done, want)
			}
			if bytes.Equal(got.Bytes(), follows.Bytes()) == done {
				t.Errorf("step %d of environment %d (over: %v): next observation %v, then observed %v", step, n, done,
					got.F32(), follows.F32())
			}
			if step == limit-1 && !bytes.Equal(got.Bytes(), whole.At(limit).At(n).Bytes()) {
				t.Errorf("environment %d was cut off at %v, goes on there to %v", n, got.F32(),
					whole.At(limit).At(n).F32())
			}
		}
	}
}

func learnPendulum(t *testing.T, chunk int) {
	const T, N = 16, 2
	epochs := 200 / chunk
	cfg := rolestest.EnvConfig("Pendulum-v1", N)
	pol := rolestest.NewPolicy(t, cfg, 1, func(c *policy.Config) {
		c.AddQHead, c.AddValueHead, c.Activation, c.NumActionChunks = true, false, "relu", chunk
	})
	collector := newCollector(t, cfg, pol)
	collector.CollectTransitions()
	s := algo.Setup{
		Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 128, Seed: 1, Steps: T, Envs: N,
		Policy: pol, Rollout: collector.Fields(T),
	}
	s.Config.AdvType, s.Config.LossType, s.Config.Gamma, s.Config.UpdateEpoch = "embodied_sac", "embodied_sac", 0.98,
		T*N
	s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: epochs, MinBufferSize: 10}
	s.Config.OffPolicy.EntropyTuning.AlphaType, s.Config.OffPolicy.EntropyTuning.InitialAlpha = algo.AlphaExp, 1
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	got := trainPendulum(t, s, collector, epochs)
	if got < -250 { // -1200 at first, -145 at best
		t.Errorf("return %v after %d actions, want at least -250", got, epochs*T*N*chunk)
	}
}

func TestCollectNothingIsAnError(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 2)
	c := newCollector(t, cfg, rolestest.NewPolicy(t, cfg, 1, nil))
	for _, n := range []int{0, -1} {
		if _, err := c.Collect(n, true); err == nil {
			t.Errorf("%d steps: no error", n)
		}
	}
}

// Every evaluation plays the same episodes, whatever policy was evaluated before.
func TestEvaluatorRepeatsItself(t *testing.T) {
	cfg := rolestest.EnvConfig("Pendulum-v1", 5)
	cfg.MaxEpisodeSteps = 30
	e := test.Must(NewEvaluator(all.Registry(), cfg))(t)
	one := rolestest.NewPolicy(t, cfg, 1, nil)
	other := rolestest.NewPolicy(t, cfg, 2, func(p *policy.Config) { p.NumActionChunks = 3 })
	var sums []env.Summary
	for _, pol := range []policy.Policy{one, one, other, one} {
		s := test.Must(e.Evaluate(pol, 5, true))(t)
		if s.NumTrajectories != 5 || s.EpisodeLen != 30 {
			t.Errorf("%d episodes of %v steps, want 5 of 30", s.NumTrajectories, s.EpisodeLen)
		}
		sums = append(sums, s)
	}
	if !reflect.DeepEqual(sums[0], sums[1]) || !reflect.DeepEqual(sums[0], sums[3]) ||
		sums[0].Return == sums[2].Return {
		t.Errorf("evaluations of policies 1, 1, 2, 1: %+v", sums)
	}
}

// An evaluation plays the requested number of episodes, the first ones always the same, and samples actions on request.
func TestEvaluatorPlaysAsManyAsAskedFor(t *testing.T) {
	cfg := rolestest.EnvConfig("Pendulum-v1", 2)
	cfg.MaxEpisodeSteps = 10
	e := test.Must(NewEvaluator(all.Registry(), cfg))(t)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	evaluate := func(n int, deterministic bool) env.Summary {
		t.Helper()
		s, err := e.Evaluate(pol, n, deterministic)
		if err != nil || s.NumTrajectories != n {
			t.Fatalf("%d episodes: %+v, %v", n, s, err)
		}
		return s
	}
	two, drawn := evaluate(2, true), evaluate(2, false)
	if reflect.DeepEqual(two, drawn) {
		t.Errorf("drawn and most likely actions alike: %+v", two)
	}
	one := evaluate(1, true)
	if one.Return == two.Return {
		t.Errorf("one episode and two: return %v", one.Return)
	}
	if again := evaluate(2, true); !reflect.DeepEqual(again, two) {
		t.Errorf("two episodes: %+v, and again %+v", two, again)
	}
	if again := evaluate(2, false); !reflect.DeepEqual(again, drawn) {
		t.Errorf("two episodes, drawn: %+v, and again %+v", drawn, again)
	}
	if _, err := e.Evaluate(pol, 0, true); err == nil {
		t.Error("0 episodes: no error")
	}
}

// Collecting allocates nothing per step, and little per call.
func TestCollectDoesNotAllocate(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 8)
	c := newCollector(t, cfg, rolestest.NewPolicy(t, cfg, 1, nil))
	if n := testing.AllocsPerRun(5, func() {
		if _, err := c.Collect(1000, false); err != nil {
			t.Error(err)
		}
		c.Episodes()
	}); n > 10 {
		t.Errorf("%v allocations in 1000 steps", n)
	}
}
