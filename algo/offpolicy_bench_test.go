package algo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// Sizes of the tasks that benchmarks update for: HalfCheetah's observations and actions, and usual networks and
// batches.
const (
	benchObservations, benchActions = 17, 6
	benchHidden, benchSamples       = 256, 256
	benchSteps, benchWindow         = 1000, 100_000
)

// BenchmarkSACUpdate measures one update, and in turn the matrix products of such an update alone. products/update is
// the time of the products as a share of the update.
func BenchmarkSACUpdate(b *testing.B) {
	unit := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{benchActions},
		Low: slices.Repeat([]float32{-1}, benchActions), High: slices.Repeat([]float32{1}, benchActions)}
	s := benchSetup(b, unit, benchActions)
	a := filled(b, s, made(b, s, algo.NewSAC))
	products := sacProducts(benchObservations, benchActions, benchHidden, benchSamples)
	var updates, alone time.Duration
	for b.Loop() {
		start := time.Now()
		update(b, a, 1)
		middle := time.Now()
		for _, p := range products {
			p()
		}
		updates += middle.Sub(start)
		alone += time.Since(middle)
	}
	b.ReportMetric(float64(b.N)/updates.Seconds(), "updates/s")
	b.ReportMetric(alone.Seconds()/updates.Seconds(), "products/update")
}

// BenchmarkDQNUpdate measures one update, for the same number of discrete actions.
func BenchmarkDQNUpdate(b *testing.B) {
	choice := env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{benchActions}}
	s := benchSetup(b, choice, 1)
	a := filled(b, s, made(b, s, algo.NewDQN))
	for b.Loop() {
		update(b, a, 1)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

// benchSetup is of one update after each rollout, and actions of so many numbers.
func benchSetup(b *testing.B, action env.Space, numbers int) algo.Setup {
	b.Helper()
	state := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{benchObservations}}
	spec := env.Spec{Name: "bench", Obs: []env.Field{{Name: "state", Space: state}}, Action: action}
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.Activation = true, false, "relu"
	model.HiddenSizes = []int{benchHidden, benchHidden}
	s := algo.Setup{
		Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: benchSamples, Seed: 7,
		Steps: benchSteps, Envs: 1, Rollout: transitions(benchSteps, 1, action.DType),
	}
	for i := range s.Rollout[:2] {
		s.Rollout[i].Shape = []int{benchSteps, 1, benchObservations}
	}
	s.Rollout[2].Shape = []int{benchSteps, 1, 1, numbers}
	s.Config.Gamma = 0.99
	s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: benchWindow / benchSteps}
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 3e-4, 0, 0
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	var err error
	if s.Policy, err = policy.NewMLP(model, spec, 1, tensor.Heap); err != nil {
		b.Fatal(err)
	}
	return s
}

// filled returns a with a full replay buffer.
func filled(b *testing.B, s algo.Setup, a algo.Algorithm) algo.Algorithm {
	b.Helper()
	layout := tensor.NewLayout(s.Rollout...)
	r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	for i := range r.Must("observation.state").F32() {
		r.Must("observation.state").F32()[i] = float32(i%13) / 13
		r.Must("next_observation.state").F32()[i] = float32(i%11) / 11
	}
	for range benchWindow / benchSteps {
		test.OK(b, a.Prepare(&r))
	}
	return a
}

// sacProducts are the matrix products of one update with twin critics, in its order.
func sacProducts(observations, actions, hidden, batch int) (all []func()) {
	vec := nn.Vector[float32]
	layer := func(in, out int) (forward, weights, inputs func()) {
		x, w, y, bias := vec(batch*in), vec(in*out), vec(batch*out), vec(out)
		return func() { kernel.GemmBias(y, x, w, bias, batch, out, in) },
			func() { kernel.GemmTA(w, x, y, in, out, batch, false) },
			func() { kernel.Gemm(x, y, w, batch, in, out, false) }
	}
	type network struct{ forward, weights, inputs [3]func() }
	mlp := func(in, out int) (n network) {
		for i, width := range [...][2]int{{in, hidden}, {hidden, hidden}, {hidden, out}} {
			n.forward[i], n.weights[i], n.inputs[i] = layer(width[0], width[1])
		}
		return n
	}
	pass := func(n network) { all = append(all, n.forward[:]...) }
	learn := func(n network) { all = append(all, n.weights[2], n.inputs[2], n.weights[1], n.inputs[1], n.weights[0]) }
	actor := mlp(observations, 2*actions)
	critics := [2]network{mlp(observations+actions, 1), mlp(observations+actions, 1)}
	targets := [2]network{mlp(observations+actions, 1), mlp(observations+actions, 1)}
	_, _, byAction := layer(actions, hidden)

	pass(actor) // what follows
	for _, n := range targets {
		pass(n)
	}
	for _, n := range critics {
		pass(n)
	}
	for _, n := range critics {
		learn(n)
	}
	pass(actor)
	for _, n := range critics {
		pass(n)
	}
	for _, n := range critics {
		all = append(all, n.inputs[2], n.inputs[1], byAction)
	}
	learn(actor)
	return all
}
