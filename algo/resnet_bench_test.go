package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkResNetUpdate measures an update of 256 samples of RLinf's realworld_peginsertion_rlpd_cnn_async: feature
// maps of images of 128×128 pixels, 19 numbers, 6 actions, 10 critics.
func BenchmarkResNetUpdate(b *testing.B) {
	const steps, side = 300, 128
	for _, c := range []struct {
		name  string
		every int // updates of the critics for one of the actor
	}{{"critics", 1 << 30}, {"critics and actor", 1}} {
		b.Run(c.name, func(b *testing.B) {
			action := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{6}}
			for range 6 {
				action.Low, action.High = append(action.Low, -1), append(action.High, 1)
			}
			s := benchSetup(b, action, 6)
			spec := env.Spec{Name: "bench", Action: action, Obs: []env.Field{
				{Name: "main_images", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{side, side, 3}}},
				{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{19}}}}}
			model, keys := policy.DefaultConfig(), policy.Backbone{Backbone: policy.ResNet, ModelPath: "none"}
			keys.Encoder.File = "none" // no image is seen
			model.ModelType, model.AddQHead, model.AddValueHead, model.NumQHeads = "cnn_policy", true, false, 10
			model.HiddenSizes, model.Own, model.Blank = []int{256, 256}, params.New(keys), true
			s.Policy = test.Must(policy.NewCNN(model, spec, 1, tensor.Heap))(b)
			fill(s.Policy.Params())
			o := &s.Config.OffPolicy
			o.ReplayBuffer.SampleWindowSize, o.CriticSubsampleSize, o.ActorAggQ = 1, 2, algo.AggMean
			o.CriticActorRatio, o.BackupEntropy = c.every, false
			s.Steps = steps
			for i := range s.Rollout {
				s.Rollout[i].Shape[0] = steps
				if i < 2 {
					s.Rollout[i].Shape = []int{steps, 1, 19}
				}
			}
			for _, name := range []string{"observation.main_images", "next_observation.main_images"} {
				s.Rollout = append(s.Rollout, tensor.Field{Name: name, DType: tensor.F32,
					Shape: []int{steps, 1, 4, 4, 512}})
			}
			a := made(b, s, algo.NewSAC)
			r := sight(&s, 1)
			test.OK(b, a.Prepare(&r))
			update(b, a, 1)
			for b.Loop() {
				update(b, a, 1)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/update")
		})
	}
}
