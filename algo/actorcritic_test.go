package algo

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

var _ ObservationStats = (*policy.ActorCritic)(nil)

// CartPole's pole stands after some 20,000 steps: PPO with the network and the environment that it is for, observations normalised.
// The first pass over a rollout sees the very policy that made it, so its ratios are exactly 1.
func TestPPOBalancesCartPole(t *testing.T) {
	const T, N = 64, 16
	vec, err := classic.NewCartPole(env.DefaultConfig(), N)
	if err != nil {
		t.Fatal(err)
	}
	defer vec.Close()
	cfg := policy.DefaultConfig()
	cfg.NormalizeObservations = true
	pol, err := policy.NewMLP(cfg, vec.Spec(), 1, tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	p := mustPPO(t, setup(func(s *Setup) {
		s.Policy, s.Steps, s.Envs, s.GlobalBatch = pol, T, N, 256
		s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.ClipRatioC = 0.99, 0.95, 8, 0
		s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad, s.Optim.AdamEps = 1e-3, 0, 0.5, 1e-5
	}))

	layout := tensor.NewLayout(
		tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{T, N, 4}},
		tensor.Field{Name: "action", DType: tensor.I32, Shape: []int{T, N, 1, 1}},
		tensor.Field{Name: "sample_log_prob", DType: tensor.F32, Shape: []int{T, N, 1}},
		tensor.Field{Name: "value", DType: tensor.F32, Shape: []int{T, N, 1}},
		tensor.Field{Name: "next_value", DType: tensor.F32, Shape: []int{T, N}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{T, N}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{T, N}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{T, N}},
	)
	rollout := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	out := env.Step{
		Reward: tensor.New(tensor.F32, N, 1), Terminated: tensor.New(tensor.U8, N, 1), Truncated: tensor.New(tensor.U8, N, 1),
		Info: tensor.New(tensor.F32, N, 1, len(vec.Spec().Info)),
	}
	out.Obs.Set("state", tensor.New(tensor.F32, N, 4))
	out.FinalObs.Set("state", tensor.New(tensor.F32, N, 4))
	seeds, index, taken := make([]uint64, N), make([]uint64, N), make([]uint64, N)
	for n := range seeds {
		seeds[n], index[n] = uint64(n), uint64(n)
	}
	if err := vec.Reset(nil, seeds, &out); err != nil {
		t.Fatal(err)
	}
	work := pol.NewWork(N)
	var action tensor.Dict
	var ends, steps float64 // of the last iterations
	for iteration := range 25 {
		if iteration >= 20 {
			steps += T * N
		}
		for k := range T {
			rollout.Must("observation.state").At(k).CopyFrom(out.Obs.Must("state"))
			act, err := pol.Forward(work, out.Obs, policy.Sample, policy.Noise{Seed: 3, Env: index, Step: taken})
			if err != nil {
				t.Fatal(err)
			}
			rollout.Must("action").At(k).CopyFrom(act.Action)
			rollout.Must("sample_log_prob").At(k).CopyFrom(act.LogProb)
			rollout.Must("value").At(k).CopyFrom(act.Value)
			action.Set("action", act.Action)
			for n := range seeds {
				seeds[n] += N
				taken[n]++
			}
			if err := vec.Step(action, seeds, &out); err != nil {
				t.Fatal(err)
			}
			for _, f := range []struct {
				name string
				from tensor.Tensor
			}{{"reward", out.Reward}, {"terminated", out.Terminated}, {"truncated", out.Truncated}} {
				rollout.Must(f.name).At(k).CopyFrom(f.from)
			}
			next, err := pol.Value(work, out.Obs)
			if err != nil {
				t.Fatal(err)
			}
			rollout.Must("next_value").At(k).CopyFrom(next)
			final, err := pol.Value(work, out.FinalObs)
			if err != nil {
				t.Fatal(err)
			}
			for n, cut := range out.Truncated.U8() {
				if cut == 1 {
					rollout.Must("next_value").At(k).F32()[n] = final.F32()[n]
				}
				if iteration >= 20 && cut|out.Terminated.U8()[n] == 1 {
					ends++
				}
			}
		}
		if iteration == 0 {
			probe := mustPPO(t, setup(func(s *Setup) {
				s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = pol, T, N, T*N, 1
				s.Optim.LR = 1e-30 // looks, and leaves everything as it was
				s.Optim.WeightDecay = 0
				s.Policy = struct{ policy.Policy }{pol} // without the methods for statistics
			}))
			looked := rollout
			if err := probe.Prepare(&looked); err != nil {
				t.Fatal(err)
			}
			m, err := probe.Update(looked)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "ratio", metric(t, m, "actor/ratio"), 1, 0)
			near(t, "ratio_abs", metric(t, m, "actor/ratio_abs"), 0, 0)
		}
		if err := p.Prepare(&rollout); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Update(rollout); err != nil {
			t.Fatal(err)
		}
	}
	if length := steps / max(ends, 1); length < 100 {
		t.Errorf("episodes of %.0f steps after %d steps of training, want ≥ 100", length, 20*T*N)
	} else {
		t.Logf("episodes of %.0f steps", length)
	}
	if count := pol.Params().Buffers.Must("obs.count").F64()[0]; count != 25*T*N {
		t.Errorf("the policy's statistics are of %v observations, want %d", count, 25*T*N)
	}
}
