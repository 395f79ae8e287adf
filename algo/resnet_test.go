package algo_test

import (
	_ "embed"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/tensor"
)

// goldenText is the output of resnet_golden.py: parameters after three updates in PyTorch.
//
//go:embed testdata/resnet_golden.json
var goldenText []byte

// A golden has some elements of a tensor, and its largest element.
type golden struct {
	Largest float64   `json:"largest"`
	Step    int       `json:"step"`
	Values  []float64 `json:"values"`
}

func goldens(t *testing.T, of string) map[string]golden {
	t.Helper()
	var all map[string]map[string]golden
	test.OK(t, json.Unmarshal(goldenText, &all))
	return all[of]
}

// nearGolden compares each tensor with its golden elements.
func nearGolden(t *testing.T, want map[string]golden, get func(name string) []float32) {
	t.Helper()
	compared := 0
	for name, g := range want {
		x := get(name)
		for i, v := range g.Values {
			compared++
			if d := math.Abs(float64(x[i*g.Step]) - v); !(d <= 1e-4*g.Largest) {
				t.Errorf("%s[%d] is %v, want %v; the largest element is %v", name, i*g.Step, x[i*g.Step], v, g.Largest)
			}
		}
	}
	t.Logf("%d elements of %d tensors", compared, len(want))
}

// fill sets the parameters to those of resnet_golden.py.
func fill(p *nn.Params[float32]) {
	for i, f := range p.Fields {
		fan := 0
		if len(f.Shape) > 1 {
			fan = f.Shape[0]
		}
		resnettest.Fill(p.Of(i), f.Name, fan)
	}
}

// frozenSetup is of SAC on the images of a camera and on numbers, as in resnet_golden.py. With kept, rollouts have
// feature maps.
func frozenSetup(t testing.TB, kept bool) (algo.Setup, tensor.Dict) {
	t.Helper()
	const steps, envs, side = 6, 2, 64
	box := func(shape ...int) env.Space {
		s := env.Space{Kind: env.Box, DType: tensor.F32, Shape: shape}
		for range shape[0] {
			s.Low, s.High = append(s.Low, -1), append(s.High, 1)
		}
		return s
	}
	spec := env.Spec{Name: "golden", Action: box(2), Obs: []env.Field{
		{Name: "main_images", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{side, side, 3}}},
		{Name: "state", Space: box(3)}}}
	const file = "resnet10.safetensors"
	model, b := policy.DefaultConfig(), policy.Backbone{Backbone: policy.ResNet, ModelPath: resnettest.Folder(t, file)}
	b.Encoder.File = file
	model.ModelType, model.AddQHead, model.AddValueHead, model.Own = "cnn_policy", true, false, params.New(b)
	model.HiddenSizes, model.Blank = []int{256, 256}, true
	pol := test.Must(policy.NewCNN(model, spec, 1, tensor.Heap))(t)
	fill(pol.Params())
	s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 8, Seed: 7,
		Steps: steps, Envs: envs, Policy: pol}
	s.Config.Gamma, s.Config.UpdateEpoch = 0.9, 3
	o := &s.Config.OffPolicy
	o.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 2, MinBufferSize: 1}
	o.Tau, o.EntropyTuning.AlphaType, o.EntropyTuning.InitialAlpha = 0.02, algo.AlphaFixed, 0.2
	s.Optim.LR, s.Optim.AdamEps, s.Optim.WeightDecay, s.Optim.ClipGrad = 1e-2, 1e-3, 0, 0.1
	s.Optim.AdamBeta1, s.Optim.AdamBeta2 = 0.9, 0.999
	s.CriticOptim, o.EntropyTuning.Optim = s.Optim, s.Optim
	var rollout tensor.Dict
	add := func(name string, dtype tensor.DType, shape ...int) {
		x := tensor.New(dtype, append([]int{steps, envs}, shape...)...)
		number := resnettest.Numbers(name)
		for i := range x.Len() {
			if dtype == tensor.U8 {
				x.U8()[i] = byte(256 * number(i))
			} else {
				x.F32()[i] = float32(2*number(i) - 1)
			}
		}
		rollout.Set(name, x)
	}
	for _, prefix := range []string{"observation.", "next_observation."} {
		add(prefix+"main_images", tensor.U8, side, side, 3)
		add(prefix+"state", tensor.F32, 3)
		if kept {
			d := rollout.Sub(strings.TrimSuffix(prefix, "."))
			var flat tensor.Dict
			for i := range d.Len() {
				name, x := d.Entry(i)
				flat.Set(name, x.Reshape(append([]int{steps * envs}, x.Shape()[2:]...)...))
			}
			maps := test.Must(policy.NewKeeper(pol, steps*envs).Keep(flat, nil))(t).Must("main_images").Clone()
			rollout.Set(prefix+"main_images", maps.Reshape(append([]int{steps, envs}, maps.Shape()[1:]...)...))
		}
	}
	add("action", tensor.F32, 1, 2)
	add("reward", tensor.F32)
	for _, name := range []string{"terminated", "truncated"} {
		rollout.Set(name, tensor.New(tensor.U8, steps, envs))
	}
	rollout.Must("terminated").U8()[3] = 1
	for i := range rollout.Len() {
		name, x := rollout.Entry(i)
		s.Rollout = append(s.Rollout, tensor.Field{Name: name, DType: x.DType(), Shape: x.Shape()})
	}
	return s, rollout
}

// frozenUpdates returns SAC after three updates.
func frozenUpdates(t testing.TB, s algo.Setup, rollout tensor.Dict) algo.Algorithm {
	t.Helper()
	a := test.Must(algo.NewSAC(s))(t)
	state := test.Must(a.Save())(t)
	for i := range state.Len() {
		name, x := state.Entry(i)
		network, of, _ := strings.Cut(name, ".")
		if network != "critic" && network != "target" || strings.HasPrefix(of, "optim.") {
			continue
		}
		fan := 0
		if x.Rank() > 1 {
			fan = x.Dim(0)
		}
		resnettest.Fill(x.F32(), of, fan)
	}
	test.OK(t, a.Prepare(&rollout))
	test.Must(a.Update(rollout))(t)
	return a
}

// TestResNetAgainstPyTorch: three updates of SAC, in two micro-batches, have the parameters that PyTorch has with the
// same weights, batches, noise and dropout. With feature maps in the replay buffer they have the same bits.
func TestResNetAgainstPyTorch(t *testing.T) {
	t.Parallel()
	var bits []float32
	for _, kept := range []bool{true, false} {
		s, rollout := frozenSetup(t, kept)
		s.MicroBatch = 4
		state := test.Must(frozenUpdates(t, s, rollout).Save())(t)
		mine := map[string][]float32{}
		for i, f := range s.Policy.Params().Fields {
			mine[f.Name] = s.Policy.Params().Of(i)
		}
		nearGolden(t, goldens(t, "sac"), func(name string) []float32 {
			if x, ok := state.Get(name); ok { // target.…
				return x.F32()
			} else if x, ok := state.Get("critic." + name); ok {
				return x.F32()
			}
			return mine[name]
		})
		if data := s.Policy.Params().Data; kept {
			bits = data
		} else {
			test.EqualSlices(t, data, bits)
		}
	}
}

// TestClassifierAgainstPyTorch: three updates of the classifier have the parameters that PyTorch has.
func TestClassifierAgainstPyTorch(t *testing.T) {
	t.Parallel()
	const n, side = 8, 64
	c := resnet.DefaultConfig().Sized([]int{3, side, side})
	net := test.Must(resnet.NewClassifier(c, 0, nn.Image{H: side, W: side, C: 3}, tensor.Heap))(t)
	weights := resnettest.Weights("resnet18")
	fc := tensor.New(tensor.F32, 1, 512)
	resnettest.Fill(fc.F32(), "fc.weight", 512)
	bias := tensor.New(tensor.F32, 1)
	resnettest.Fill(bias.F32(), "fc.bias", 0)
	weights.Set("fc.weight", fc)
	weights.Set("fc.bias", bias)
	test.OK(t, net.Load(weights, true))
	o := algo.DefaultOptimConfig()
	o.LR, o.AdamEps, o.WeightDecay, o.ClipGrad, o.AdamBeta1, o.AdamBeta2 = 1e-3, 1e-3, 0, 0.1, 0.9, 0.999
	a := test.Must(algo.NewClassify(algo.ClassifySetup{Network: net, Optim: o, GlobalBatch: n, MicroBatch: n}))(t)
	for update := range 3 {
		images, labels := make([]byte, n*side*side*3), make([]byte, n)
		number := resnettest.Numbers("frames." + string('0'+rune(update)))
		for i := range images {
			images[i] = byte(256 * number(i))
		}
		number = resnettest.Numbers("labels." + string('0'+rune(update)))
		for i := range labels {
			if number(i) < 0.5 {
				labels[i] = 1
			}
		}
		test.Must(a.Update(images, labels))(t)
	}
	nearGolden(t, goldens(t, "classifier"), func(name string) []float32 {
		for i, f := range net.Params().Fields {
			if f.Name == name {
				return net.Params().Of(i)
			}
		}
		t.Fatalf("no parameter %s", name)
		return nil
	})
}

// TestDemosKeepMaps: demonstrations of images, raw or encoded, have the bits of the maps that rollouts have.
func TestDemosKeepMaps(t *testing.T) {
	t.Parallel()
	var bits []float32
	for _, kept := range []bool{true, false} {
		s, rollout := frozenSetup(t, kept)
		_, images := frozenSetup(t, false)
		s.Demos = tensor.Dict{}
		for i := range images.Len() {
			if name, x := images.Entry(i); true {
				s.Demos.Set(name, x.Reshape(append([]int{12}, x.Shape()[2:]...)...))
			}
		}
		frozenUpdates(t, s, rollout)
		if data := s.Policy.Params().Data; kept {
			bits = data
		} else {
			test.EqualSlices(t, data, bits)
		}
		if x := s.Demos.Must("observation.main_images"); x.DType() != tensor.U8 {
			t.Errorf("the caller's demonstrations are %v", x)
		}
	}
}
