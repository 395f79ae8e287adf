package trainer

import (
	"bytes"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

func newAsyncCollector(t testing.TB, learner policy.Policy, envs int) *AsyncCollector {
	t.Helper()
	cfg := rolestest.EnvConfig("CartPole-v1", envs)
	c := test.Must(NewAsyncCollector(all.Registry(), cfg, learner, rolestest.NewPolicy(t, cfg, 9, nil), 1))(t)
	return c
}

// If the learner does not change, both collectors make the same rollouts. Each rollout stays as it is until the next
// call.
func TestAsyncCollectorCollectsTheSame(t *testing.T) {
	cfg := rolestest.EnvConfig("CartPole-v1", 3)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	want, got := newCollector(t, cfg, pol), newAsyncCollector(t, pol, 3)
	for i, n := range []int{20, 20, 20} {
		w := collect(t, want, n, i == 0)
		g := test.Must(got.Collect(n, i == 0))(t)
		for f := range w.Len() {
			if name, x := w.Entry(f); !bytes.Equal(x.Bytes(), g.Must(name).Bytes()) {
				t.Errorf("rollout %d: other %s", i, name)
			}
		}
	}
	test.OK(t, got.Close())
}

// A rollout is made with the parameters at the return of the call before it, and its version says so.
func TestAsyncCollectorIsOneUpdateBehind(t *testing.T) {
	const n = 4
	cfg := rolestest.EnvConfig("CartPole-v1", 2)
	pol := rolestest.NewPolicy(t, cfg, 1, nil)
	c := newAsyncCollector(t, pol, 2)
	work := pol.NewWork(2)
	before := slices.Clone(pol.Params().Data) // those that the next rollout is made with
	for call, length := range []int{n, n, n, n + 1, n + 1} {
		fresh := call == 0 || length != n && call == 3 // nothing of that length was under way
		if fresh {
			before = slices.Clone(pol.Params().Data)
		}
		r := test.Must(c.Collect(length, call == 0))(t)
		want := int64(call - 1)
		if fresh {
			want = int64(call)
		}
		if v := r.Must("version").I64(); len(v) != 2*length || slices.Min(v) != want || slices.Max(v) != want {
			t.Errorf("call %d: version %v, want %d", call, v, want)
		}
		now := slices.Clone(pol.Params().Data)
		copy(pol.Params().Data, before)
		obs := tensor.Dict{}
		obs.Set("state", r.Must("observation.state").At(0))
		eval := test.Must(pol.Evaluate(work, obs, r.Must("action").At(0)))(t)
		if !slices.Equal(eval.LogProb.F32(), r.Must("sample_log_prob").At(0).F32()) {
			t.Errorf("call %d: the actions are not those of the parameters of one update before", call)
		}
		copy(pol.Params().Data, now)
		before = now
		for i := range pol.Params().Data { // an update
			pol.Params().Data[i] += 0.01
		}
	}
	test.OK(t, c.Close())
	if _, err := c.Collect(0, false); err == nil {
		t.Error("rollouts of no steps")
	}
}

// PPO solves CartPole with rollouts that were made during its updates. A second run has the same figures.
func TestTrainerLearnsFromTheBackground(t *testing.T) {
	const nEnvs, nSteps, nEpochs = 8, 64, 150
	train := func(epochs int) (policy.Policy, float64) {
		cfg := rolestest.EnvConfig("CartPole-v1", nEnvs)
		pol := rolestest.NewPolicy(t, cfg, 1, nil)
		ppo, optim := algo.DefaultConfig(), algo.DefaultOptimConfig()
		ppo.LossType, ppo.Gamma, ppo.GAELambda, ppo.UpdateEpoch, ppo.ValueLossCoef = "decoupled_actor_critic", 0.98,
			0.9, 10, 0.5
		optim.LR, optim.LRScheduler, optim.WeightDecay = 2e-3, "linear", 0
		algorithm := test.Must(algo.NewPPO(algo.Setup{
			Config: ppo, Optim: optim, GlobalBatch: 128, Seed: 1, Iterations: nEpochs, Steps: nSteps, Envs: nEnvs,
			Policy: pol,
		}))(t)
		eval := test.Must(NewEvaluator(all.Registry(), rolestest.EnvConfig("CartPole-v1", 20)))(t)
		collector := newAsyncCollector(t, pol, nEnvs)
		trainer := &Trainer{Policy: pol, Algorithm: algorithm, Collector: collector, Evaluator: eval}
		test.OK(t, trainer.Train(t.Context(), epochs, nSteps, nil))
		test.OK(t, collector.Close())
		s := test.Must(trainer.Evaluate(20, true))(t)
		return pol, s.Return
	}
	one, _ := train(3)
	two, _ := train(3)
	if !slices.Equal(one.Params().Data, two.Params().Data) {
		t.Error("two runs of the same seed have other parameters")
	}
	if _, after := train(nEpochs); after < 400 {
		t.Errorf("evaluation %.1f after %d rounds, want at least 400", after, nEpochs)
	}
}
