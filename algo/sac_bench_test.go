package algo

import (
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkSACUpdate measures one update for tasks of HalfCheetah's size (17 observations, 6 actions, two hidden layers of 256, batch 256), and in
// turn with it the matrix products of such an update alone. products/update is the share of the products: the speed of the update over theirs.
func BenchmarkSACUpdate(b *testing.B) {
	const observations, actions, hidden, batch, window = 17, 6, 256, 256, 100_000
	bounds := func(n int, x float32) (v []float32) {
		for range n {
			v = append(v, x)
		}
		return v
	}
	spec := env.Spec{Name: "bench", Obs: []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{observations}}}},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{actions}, Low: bounds(actions, -1), High: bounds(actions, 1)}}
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.HiddenSizes, model.Activation = true, false, []int{hidden, hidden}, "relu"
	fields := []tensor.Field{
		{Name: "observation.state", DType: tensor.F32, Shape: []int{1000, 1, observations}},
		{Name: "next_observation.state", DType: tensor.F32, Shape: []int{1000, 1, observations}},
		{Name: "action", DType: tensor.F32, Shape: []int{1000, 1, 1, actions}},
		{Name: "reward", DType: tensor.F32, Shape: []int{1000, 1}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{1000, 1}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{1000, 1}},
	}
	s := Setup{Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: batch, Seed: 7, Steps: 1000, Envs: 1, Rollout: fields}
	s.Config.Gamma = 0.99
	s.Config.OffPolicy.ReplayBuffer = ReplayConfig{SampleWindowSize: window / 1000}
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 3e-4, 0, 0
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	var err error
	if s.Policy, err = policy.NewMLP(model, spec, 1, tensor.Heap); err != nil {
		b.Fatal(err)
	}
	a, err := NewSAC(s)
	if err != nil {
		b.Fatal(err)
	}
	layout := tensor.NewLayout(fields...)
	r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	for i := range r.Must("observation.state").F32() {
		r.Must("observation.state").F32()[i], r.Must("next_observation.state").F32()[i] = float32(i%13)/13, float32(i%11)/11
	}
	for range window / 1000 {
		if err := a.Prepare(&r); err != nil {
			b.Fatal(err)
		}
	}

	products := sacProducts(observations, actions, hidden, batch)
	var update, alone time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := a.Update(r); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		for _, p := range products {
			p()
		}
		update += middle.Sub(start)
		alone += time.Since(middle)
	}
	b.ReportMetric(float64(b.N)/update.Seconds(), "updates/s")
	b.ReportMetric(alone.Seconds()/update.Seconds(), "products/update")
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
