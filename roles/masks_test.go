package roles

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// ladders are environments whose actions choose a rung of each of some ladders. Every hold steps allow other rungs, by a mask; the share of ladders on
// which the highest of them is chosen is the reward. Nothing else that is observed tells of them. A rung that is not allowed is an error.
type ladders struct {
	rungs   []int
	hold    int
	steps   []int // that the mask has been there
	allowed [][]uint8
	rand    []philox.Stream
}

func (l *ladders) Spec() env.Spec {
	options := 0
	for _, k := range l.rungs {
		options += k
	}
	mask := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{options}, Low: make([]float32, options), High: make([]float32, options)}
	for i := range mask.High {
		mask.High[i] = 1
	}
	action := env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{len(l.rungs)}, Nvec: l.rungs}
	if len(l.rungs) == 1 {
		action.Kind = env.Discrete
	}
	one := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{1}, High: []float32{1}}
	return env.Spec{Name: "Ladders-v0", Obs: []env.Field{{Name: env.ActionMask, Space: mask}, {Name: "state", Space: one}}, Action: action, MaxSteps: 8}
}

func (l *ladders) Len() int { return len(l.allowed) }

func (l *ladders) Reset(n int, seed uint64) error {
	l.rand[n] = philox.New(seed, philox.Reset, 0, 0)
	l.draw(n)
	return nil
}

func (l *ladders) draw(n int) {
	row := l.allowed[n][:0]
	for _, k := range l.rungs {
		for range k {
			row = append(row, uint8(l.rand[n].IntN(2)))
		}
		row[len(row)-k+l.rand[n].IntN(k)] = 1
	}
	l.allowed[n], l.steps[n] = row, 0
}

func (l *ladders) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n, allowed := range l.allowed {
		if turn[n] == env.Idle {
			continue
		}
		reward[n], terminated[n] = 0, 0
		for i, k := range l.rungs {
			chosen, highest := int(action.I32()[n*len(l.rungs)+i]), k-1
			if allowed[chosen] == 0 {
				return fmt.Errorf("environment %d: rung %d is not allowed", n, chosen)
			}
			for allowed[highest] == 0 {
				highest--
			}
			if chosen == highest {
				reward[n] += 1 / float32(len(l.rungs))
			}
			allowed = allowed[k:]
		}
		if l.steps[n]++; l.steps[n] == l.hold {
			l.draw(n)
		}
		if turn[n] == env.Last {
			clear(l.allowed[n]) // nothing is to be done any more
		}
	}
	return nil
}

func (l *ladders) Observe(mask []bool, obs tensor.Dict) {
	for n, allowed := range l.allowed {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = 1
			copy(obs.Must(env.ActionMask).U8()[n*len(allowed):], allowed)
		}
	}
}

func (l *ladders) Close() error { return nil }

func withLadders(hold int, rungs ...int) *env.Registry {
	reg := env.NewRegistry()
	reg.Add("Ladders-v0", func(cfg env.Config, n int) (env.Vec, error) {
		options := 0
		for _, k := range rungs {
			options += k
		}
		l := &ladders{rungs: rungs, hold: hold, steps: make([]int, n), allowed: make([][]uint8, n), rand: make([]philox.Stream, n)}
		for i := range l.allowed {
			l.allowed[i] = make([]uint8, options)
		}
		return env.NewEpisodic(l, cfg), nil
	})
	return reg
}

// TestMasksOnAnyRanks: masks go wherever observations do: between ranks, and to workers who say what the policy thinks of actions before the update.
func TestMasksOnAnyRanks(t *testing.T) {
	more := append([]string{
		"env.train.env_type=Ladders-v0", "env.eval.env_type=Ladders-v0", "algorithm.recompute_logprobs=true", "algorithm.kl_beta=0.01",
	}, small...)
	run := func(np int, components string) (all [][]float64) {
		var mu sync.Mutex
		reg := registries()
		reg.Envs = withLadders(1, 5, 3)
		onRanksOf(t, reg, np, placed(t, "../configs/cartpole_ppo.yaml", components), more, func(ctx context.Context, r *EmbodiedRunner) error {
			for range 3 {
				if err := r.iterate(ctx); err != nil {
					return err
				}
				if mu.Lock(); r.report.names != nil {
					all = append(all, slices.Clone(r.report.values))
				}
				mu.Unlock()
			}
			return nil
		})
		return all
	}
	want := run(1, "actor,env,rollout: 0")
	if got := run(4, "actor: 0; env: 1-2; rollout: 2-3; inference: 1"); len(want) != 3 || !slices.EqualFunc(got, want, slices.Equal[[]float64]) {
		t.Errorf("on four ranks %v\non one %v", got, want)
	}
}

// TestBenchHeedsMasks: actions that were drawn beforehand are changed to allowed ones.
func TestBenchHeedsMasks(t *testing.T) {
	p, err := newPlayer(Registries{Envs: withLadders(1, 5, 3)}, envConfig("Ladders-v0", 4), 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := p.step(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLearnsWithMasks: the highest rung that is allowed can be found where only such rungs are chosen, and none else is, in training or evaluation.
func TestLearnsWithMasks(t *testing.T) {
	for _, c := range []struct {
		name   string
		rungs  []int
		frames int
		rounds int
		change func(*algo.Setup, *env.Config, *policy.Config)
	}{
		{"ppo", []int{6}, 1, 20, func(*algo.Setup, *env.Config, *policy.Config) {}},
		{"ppo, two choices and frames", []int{5, 3}, 2, 30, func(*algo.Setup, *env.Config, *policy.Config) {}},
		{"ppo, chunks of two", []int{5, 3}, 1, 30, func(_ *algo.Setup, _ *env.Config, net *policy.Config) { net.NumActionChunks = 2 }},
		{"ppo that remembers", []int{6}, 1, 20, func(_ *algo.Setup, _ *env.Config, net *policy.Config) {
			net.ModelType, net.ShareTrunk, net.RNNHiddenSize = "rnn_policy", true, 8
		}},
		{"grpo without auto-reset", []int{5, 3}, 1, 60, func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
			s.Config.AdvType, s.Config.LossType, s.GroupSize, s.Steps, s.Envs = "grpo", "actor", 8, 10, 32
			s.GlobalBatch = 160
			cfg.AutoReset, cfg.GroupSize, net.AddValueHead = false, 8, false
		}},
		{"dqn", []int{6}, 1, 60, func(s *algo.Setup, _ *env.Config, net *policy.Config) {
			s.Config.AdvType, s.Config.LossType = "embodied_dqn", "embodied_dqn"
			s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 50, MinBufferSize: 2}
			s.Config.Gamma, s.Steps, s.Envs, s.GlobalBatch = 0.5, 8, 8, 64
			net.AddQHead, net.AddValueHead, net.EpsilonSteps = true, false, 200
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 16, Envs: 16, GlobalBatch: 64}
			s.Config.Gamma, s.Config.UpdateEpoch = 0, 4
			s.Optim.LR, s.Optim.WeightDecay = 5e-3, 0
			cfg, net := envConfig("Ladders-v0", 1), policy.DefaultConfig()
			cfg.FrameStack, net.HiddenSizes = c.frames, []int{8}
			c.change(&s, &cfg, &net)
			s.Chunk = net.NumActionChunks
			reg := withLadders(s.Chunk, c.rungs...)
			s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
			cfg.TotalNumEnvs = s.Envs
			s.Policy = policyFor(t, reg, cfg, net)
			before, after := learn(t, reg, cfg, s, c.rounds)
			if before > 6 || after < 7.5 {
				t.Errorf("evaluation %.1f of 8 before, %.1f after: want at most 6, at least 7.5", before, after)
			}
		})
	}
}
