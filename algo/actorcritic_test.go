package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

var _ algo.ObservationStats = (*policy.ActorCritic)(nil)

// PPO with a network, normalised observations and CartPole learns in some 20,000 steps. The first pass over a rollout
// has the policy that acted, so its ratios are exactly 1.
func TestPPOBalancesCartPole(t *testing.T) {
	const T, N = 64, 16
	r := newCartPoleRun(t, T, N)
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Steps, s.Envs, s.GlobalBatch = r.pol, T, N, 256
		s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.ClipRatioC = 0.99, 0.95, 8, 0
		s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad, s.Optim.AdamEps = 1e-3, 0, 0.5, 1e-5
	}))
	ends := 0.0 // episodes that end in the last five iterations
	for iteration := range 25 {
		if n := r.play(t); iteration >= 20 {
			ends += n
		}
		if iteration == 0 {
			checkRatios(t, r)
		}
		p.learn(t, &r.rollout)
	}
	if length := 5 * T * N / max(ends, 1); length < 100 {
		t.Errorf("episodes of %.0f steps after %d steps of training, want ≥ 100", length, 20*T*N)
	} else {
		t.Logf("episodes of %.0f steps", length)
	}
	if count := r.pol.Params().Buffers.Must("obs.count").F64()[0]; count != 25*T*N {
		t.Errorf("the policy's statistics are of %v observations, want %d", count, 25*T*N)
	}
}

// checkRatios checks that the policy has ratios of 1 in its own rollout.
func checkRatios(t *testing.T, r *cartPoleRun) {
	t.Helper()
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy = struct{ policy.Policy }{r.pol} // without the methods for statistics
		s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = r.steps, r.envs, r.steps*r.envs, 1
		s.Optim.LR, s.Optim.WeightDecay = 1e-30, 0 // no parameter moves
	}))
	rollout := r.rollout
	m := p.learn(t, &rollout)
	within(t, "ratio", metric(t, m, "actor/ratio"), 1, 0)
	within(t, "ratio_abs", metric(t, m, "actor/ratio_abs"), 0, 0)
}

// A cartPoleRun plays CartPole with a network.
type cartPoleRun struct {
	steps, envs int // of a rollout
	vec         env.Vec
	out         env.Step
	pol         policy.Policy
	work        policy.Work
	rollout     tensor.Dict

	seeds, index, taken []uint64 // of each environment: seeds of the next episode, number, steps taken
}

func newCartPoleRun(t *testing.T, steps, envs int) *cartPoleRun {
	t.Helper()
	vec := test.Must(classic.NewCartPole(env.DefaultConfig(), envs))(t)
	t.Cleanup(func() { vec.Close() })
	cfg := policy.DefaultConfig()
	cfg.NormalizeObservations = true
	pol := test.Must(policy.NewMLP(cfg, vec.Spec(), 1, tensor.Heap))(t)
	r := &cartPoleRun{steps: steps, envs: envs, vec: vec, pol: pol, work: pol.NewWork(envs),
		rollout: algo.NewRollout(steps, envs, 4),
		seeds:   make([]uint64, envs), index: make([]uint64, envs), taken: make([]uint64, envs),
		out: env.Step{Reward: tensor.New(tensor.F32, envs, 1), Terminated: tensor.New(tensor.U8, envs, 1),
			Truncated: tensor.New(tensor.U8, envs, 1), Info: tensor.New(tensor.F32, envs, 1, len(vec.Spec().Info))}}
	r.out.Obs.Set("state", tensor.New(tensor.F32, envs, 4))
	r.out.FinalObs.Set("state", tensor.New(tensor.F32, envs, 4))
	for n := range r.seeds {
		r.seeds[n], r.index[n] = uint64(n), uint64(n)
	}
	test.OK(t, vec.Reset(nil, r.seeds, &r.out))
	return r
}

// play fills the rollout, and returns the number of episodes that ended.
func (r *cartPoleRun) play(t *testing.T) (ends float64) {
	t.Helper()
	var action tensor.Dict
	for k := range r.steps {
		r.rollout.Must("observation.state").At(k).CopyFrom(r.out.Obs.Must("state"))
		act, err := r.pol.Forward(r.work, r.out.Obs, policy.Sample, policy.Noise{Seed: 3, Env: r.index, Step: r.taken})
		test.OK(t, err)
		r.rollout.Must("action").At(k).CopyFrom(act.Action)
		r.rollout.Must("sample_log_prob").At(k).CopyFrom(act.LogProb)
		r.rollout.Must("value").At(k).CopyFrom(act.Value)
		action.Set("action", act.Action)
		for n := range r.seeds {
			r.seeds[n] += uint64(r.envs)
			r.taken[n]++
		}
		test.OK(t, r.vec.Step(action, r.seeds, &r.out))
		r.rollout.Must("reward").At(k).CopyFrom(r.out.Reward)
		r.rollout.Must("terminated").At(k).CopyFrom(r.out.Terminated)
		r.rollout.Must("truncated").At(k).CopyFrom(r.out.Truncated)
		ends += r.valueNext(t, k)
	}
	return ends
}

// valueNext fills the values after step k, and returns the number of episodes that ended there.
func (r *cartPoleRun) valueNext(t *testing.T, k int) (ends float64) {
	t.Helper()
	dst := r.rollout.Must("next_value").At(k)
	next := test.Must(r.pol.Value(r.work, r.out.Obs))(t)
	dst.CopyFrom(next)
	final := test.Must(r.pol.Value(r.work, r.out.FinalObs))(t)
	for n, cut := range r.out.Truncated.U8() {
		if cut == 1 {
			dst.F32()[n] = final.F32()[n]
		}
		if cut|r.out.Terminated.U8()[n] == 1 {
			ends++
		}
	}
	return ends
}
