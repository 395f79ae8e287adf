package algo_test

import (
	"fmt"
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

// BenchmarkSACImageUpdate measures one update from images with nature_cnn, and in turn the matrix products of such an
// update alone. products/update is the time of the products as a share of the update.
func BenchmarkSACImageUpdate(b *testing.B) {
	for _, side := range []int{64, 84} {
		b.Run(fmt.Sprint(side), func(b *testing.B) {
			s, a := imageUpdates(b, side)
			update(b, a, 1)
			products := append(natureProducts(side, s.GlobalBatch), sacProducts(512, benchActions, benchHidden,
				s.GlobalBatch)...)
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
		})
	}
}

// imageUpdates returns SAC on images [side,side,3], with a few transitions.
func imageUpdates(b *testing.B, side int) (algo.Setup, algo.Algorithm) {
	b.Helper()
	const steps = 300
	action := trackSpec().Action
	action.Shape = []int{benchActions}
	action.Low, action.High = make([]float32, benchActions), make([]float32, benchActions)
	for i := range action.Low {
		action.Low[i], action.High[i] = -1, 1
	}
	s := benchSetup(b, action, benchActions)
	spec := env.Spec{Name: "bench", Action: action, Obs: []env.Field{{Name: "image", Space: env.Space{Kind: env.Box,
		DType: tensor.U8, Shape: []int{side, side, 3}}}}}
	model := policy.DefaultConfig()
	model.ModelType, model.AddQHead, model.AddValueHead, model.Activation = "cnn_policy", true, false, "relu"
	model.HiddenSizes = []int{benchHidden, benchHidden}
	s.Policy = test.Must(policy.NewCNN(model, spec, 1, tensor.Heap))(b)
	s.Steps, s.Config.OffPolicy.ReplayBuffer.SampleWindowSize = steps, 1
	for i := range s.Rollout {
		s.Rollout[i].Shape[0] = steps
		if i < 2 {
			s.Rollout[i].Name = []string{"observation.image", "next_observation.image"}[i]
			s.Rollout[i].DType, s.Rollout[i].Shape = tensor.U8, []int{steps, 1, side, side, 3}
		}
	}
	a := made(b, s, algo.NewSAC)
	r := sight(&s, 1)
	test.OK(b, a.Prepare(&r))
	return s, a
}

// natureProducts are the matrix products of nature_cnn in one update: three passes, and a gradient.
func natureProducts(side, batch int) (all []func()) {
	const piece = 8 // images at a time, as in layers
	vec := nn.Vector[float32]
	channels := 3
	for i, c := range [][3]int{{32, 8, 4}, {64, 4, 2}, {64, 3, 1}, {512, 0, 1}} {
		filters, size := c[0], c[1]
		if size == 0 {
			size = side // the dense layer: one window
		}
		out := (side-size)/c[2] + 1
		m, k, times := piece*out*out, size*size*channels, batch/piece
		if c[1] == 0 {
			m, times = batch, 1
		}
		x, w, y, bias := vec(m*k), vec(k*filters), vec(m*filters), vec(filters)
		repeat := func(f func()) {
			all = append(all, func() {
				for range times {
					f()
				}
			})
		}
		for range 3 {
			repeat(func() { kernel.GemmBias(y, x, w, bias, m, filters, k) })
		}
		repeat(func() { kernel.GemmTA(w, x, y, k, filters, m, false) })
		if i > 0 {
			repeat(func() { kernel.Gemm(x, y, w, m, k, filters, false) })
		}
		side, channels = out, filters
	}
	return all
}
