package play

import (
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/tensor"
)

// TestKeptRollouts: trajectories with feature maps have the actions of those with pixels, and the maps of their images,
// also after the last step of an episode. Reward workers get pixels.
func TestKeptRollouts(t *testing.T) {
	t.Parallel()
	const n, steps = 3, 5
	spec := env.Spec{Name: "kept", Action: fakeSpec.Action, Obs: []env.Field{
		{Name: "main_images", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{8, 8, 3}}},
		fakeSpec.Obs[0]}}
	cfg, b := policy.DefaultConfig(), policy.Backbone{Backbone: policy.ResNet}
	b.ModelPath, b.Encoder.File = resnettest.Folder(t, "resnet10.safetensors"), "resnet10.safetensors"
	cfg.ModelType, cfg.AddQHead, cfg.AddValueHead, cfg.Own, cfg.Blank = "cnn_policy", true, false, params.New(b), true
	pol := test.Must(policy.NewCNN(cfg, spec, 1, tensor.Heap))(t)
	for i, f := range pol.Params().Fields {
		resnettest.Fill(pol.Params().Of(i), f.Name, 100)
	}
	kept := spec
	kept.Obs = policy.Kept(pol)

	random := rand.New(rand.NewPCG(1, 2))
	show := func(d tensor.Dict) {
		for i := range d.Must("main_images").U8() {
			d.Must("main_images").U8()[i] = byte(random.Uint32())
		}
	}
	shown, returned := []tensor.Dict{spec.NewStep(n, 1).Obs}, []*env.Step{}
	show(shown[0])
	for at := range steps {
		s := spec.NewStep(n, 1)
		show(s.Obs)
		show(s.FinalObs)
		s.Terminated.U8()[at%n] = byte(at % 2)
		s.Obs.Must("main_images").At(2).CopyFrom(shown[at].Must("main_images").At(2)) // nothing happens there
		shown, returned = append(shown, s.Obs), append(returned, s)
	}
	record := func(as env.Spec) tensor.Dict {
		layout := tensor.NewLayout(TransitionFields(as, 1, steps, n, false)...)
		d := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
		rec := NewRolloutBuilder(pol, 7, 0, n, []int{0, n}, false)
		rec.Begin([]tensor.Dict{d}, 0)
		var asked tensor.Dict
		for _, f := range TransitionFields(fakeSpec, 1, 1, n, false) {
			if f.Name == algo.FieldAction || f.Name == algo.FieldReward || f.DType == tensor.U8 && len(f.Shape) == 2 {
				asked.Set(f.Name, tensor.New(f.DType, f.Shape[1:]...))
			}
		}
		for _, prefix := range []string{algo.Observations, algo.NextObservations} {
			for _, f := range ObservationFields(prefix, spec, n) {
				asked.Set(f.Name, tensor.New(f.DType, f.Shape...))
			}
		}
		for at := range steps {
			test.Must(rec.Act(at, shown[at], at == 0))(t)
			test.OK(t, rec.Observe(at, returned[at]))
			rec.Transition(asked, at, returned[at])
			test.EqualSlices(t, asked.Must("observation.main_images").U8(), shown[at].Must("main_images").U8())
			test.EqualSlices(t, asked.Must("next_observation.main_images").At(2).U8(),
				returned[at].Obs.Must("main_images").At(2).U8())
		}
		return d
	}
	pixels, maps := record(spec), record(kept)
	test.EqualSlices(t, maps.Must(algo.FieldAction).F32(), pixels.Must(algo.FieldAction).F32())
	keeper := policy.NewKeeper(pol, n)
	for _, prefix := range []string{algo.Observations, algo.NextObservations} {
		for at := range steps {
			var obs tensor.Dict
			for _, f := range spec.Obs {
				obs.Set(f.Name, pixels.Must(prefix+"."+f.Name).At(at))
			}
			want := test.Must(keeper.Keep(obs, nil))(t)
			for _, f := range spec.Obs {
				test.EqualSlices(t, maps.Must(prefix+"."+f.Name).At(at).Bytes(), want.Must(f.Name).Bytes(), "%s of %d",
					f.Name, at)
			}
		}
	}
}
