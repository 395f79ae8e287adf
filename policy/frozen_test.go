package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/tensor"
)

// frozenSpec is of a camera, of two more views in one observation, and of numbers.
func frozenSpec() env.Spec {
	return env.Spec{Name: "Test-v0", Action: boxSpec().Action, Obs: []env.Field{image("main_images", 40, 33, 3),
		vector("state", 4), image("extra_view_images", 3, 32, 32, 3)}}
}

func frozenConfig(dir string) Config {
	cfg, b := DefaultConfig(), Backbone{Backbone: ResNet, ModelPath: dir}
	b.Encoder.File = "resnet10.pt"
	cfg.ModelType, cfg.AddQHead, cfg.AddValueHead, cfg.ImageNum = "cnn_policy", true, false, 3
	cfg.HiddenSizes, cfg.Own, cfg.Blank = []int{16}, params.New(b), true // tests set the parameters
	return cfg
}

func frozenActor(t testing.TB) *SoftActor {
	t.Helper()
	cfg := frozenConfig(resnettest.Folder(t, "resnet10.safetensors"))
	p := must[Policy](t)(Builtin().New(cfg, frozenSpec(), 9, tensor.Heap)).(*SoftActor)
	for i, f := range p.Params().Fields {
		fan := 0
		if len(f.Shape) > 1 {
			fan = f.Shape[0]
		}
		resnettest.Fill(p.Params().Of(i), f.Name, fan)
	}
	return p
}

// TestKeeper: actions from kept feature maps have the bits of those from images, in any batch and whatever the Keeper
// has seen before. Rows that were not asked for stay as they were.
func TestKeeper(t *testing.T) {
	const rows = 10
	p := frozenActor(t)
	test.EqualSlices(t, p.encoder.frozen.kept[0].Shape, []int{2, 2, 512})
	test.EqualSlices(t, p.encoder.frozen.kept[2].Shape, []int{2, 1, 1, 512})
	if p.encoder.Width() != 3*256+64 || slices.ContainsFunc(p.Params().Fields, func(f nn.ParamTensor) bool {
		return strings.Contains(f.Name, "layer1")
	}) {
		t.Errorf("%d features of parameters %v", p.encoder.Width(), p.Params().Fields)
	}
	keeper, work := NewKeeper(p, rows), p.NewWork(rows)
	obs, other := fieldsOf(p.obs.fields, rows), fieldsOf(p.obs.fields, rows)
	for i := range other.Len() {
		if _, x := other.Entry(i); x.DType() == tensor.U8 {
			for k := range len(x.U8()) / 3 {
				x.U8()[3*k]++
			}
		}
	}
	for _, o := range []tensor.Dict{other, obs, obs} {
		kept := test.Must(keeper.Keep(o, nil))(t)
		got := must[Act](t)(p.Forward(work, kept, Sample, testNoise(rows))).Action.Clone()
		want := must[Act](t)(p.Forward(p.NewWork(rows), o, Sample, testNoise(rows))).Action
		test.EqualSlices(t, got.F32(), want.F32())
		one := must[Act](t)(p.Forward(p.NewWork(1), o.Slice(0, 1), Deterministic, Noise{})).Action
		test.EqualSlices(t, must[Act](t)(p.Forward(work, kept, Deterministic, Noise{})).Action.F32()[:2], one.F32())
	}
	before := test.Must(keeper.Keep(obs, nil))(t).Clone()
	some := test.Must(keeper.Keep(other, []int{3}))(t)
	all := test.Must(NewKeeper(p, rows).Keep(other, nil))(t)
	for _, name := range []string{"main_images", "extra_view_images"} {
		test.EqualSlices(t, some.Must(name).At(3).F32(), all.Must(name).At(3).F32())
		test.EqualSlices(t, some.Must(name).At(4).F32(), before.Must(name).At(4).F32())
	}
	test.NoAllocs(t, 3, func() { keeper.Keep(obs, nil) }, "keep")
}

// TestFrozenGradients: the gradient of actions and log-probs by the parameters behind the frozen layers, with dropout,
// by differences in float32. Deviations are within their bounds.
func TestFrozenGradients(t *testing.T) {
	t.Parallel()
	const rows = 3
	p := frozenActor(t)
	bias := p.Params().Of(len(p.Params().Fields) - 1)
	bias[2], bias[3] = 9, 0.3 // the first deviation is at its bound
	obs, noise := test.Must(NewKeeper(p, rows).Keep(fieldsOf(p.obs.fields, rows), nil))(t), testNoise(rows)
	w := p.NewWork(rows)
	dAction, dLogProb := tensor.New(tensor.F32, rows, 1, 2), tensor.New(tensor.F32, rows, 1)
	for i, v := range random(rows*2, 7) {
		dAction.F32()[i], dLogProb.F32()[i/2] = float32(v), float32(v)
	}
	loss := func() (sum float64) {
		p.Augment(w, noise)
		act := must[Act](t)(p.Forward(w, obs, Sample, noise))
		for i, a := range act.Action.F32() {
			sum += float64(a * dAction.F32()[i])
		}
		for i, l := range act.LogProb.F32() {
			sum += float64(l * dLogProb.F32()[i])
		}
		return sum
	}
	with := loss()
	if std := w.(*softWork).net.std; std[0] != 5 || std[1] == 5 {
		t.Errorf("deviations %v: want the first at 5", std[:2])
	}
	test.OK(t, p.Backward(w, Grad{Action: dAction, LogProb: dLogProb}, nil))
	for i, f := range p.Params().Fields {
		grad, x := p.Params().GradOf(i), p.Params().Of(i)
		at := 0
		for k, g := range grad {
			if max(g, -g) > max(grad[at], -grad[at]) {
				at = k
			}
		}
		was, h := x[at], float32(1e-2)
		x[at] = was + h
		up := loss()
		x[at] = was - h
		down := loss()
		x[at] = was
		if d := (up - down) / float64(2*h); max(d-float64(grad[at]), float64(grad[at])-d) > 2e-2*max(1, d, -d) {
			t.Errorf("%s[%d]: gradient %v, by differences %v", f.Name, at, grad[at], d)
		}
	}
	act := must[Act](t)(p.Forward(w, obs, Sample, noise)) // without dropout
	var without float64
	for i, a := range act.Action.F32() {
		without += float64(a * dAction.F32()[i])
	}
	if without == with {
		t.Error("dropout changes nothing")
	}
}

// TestFrozenMistakes: what does not fit is named, with the remedy.
func TestFrozenMistakes(t *testing.T) {
	t.Parallel()
	dir := resnettest.Folder(t, "resnet10.safetensors")
	made := func(change func(*Config, *env.Spec)) error {
		cfg, spec := frozenConfig(dir), frozenSpec()
		change(&cfg, &spec)
		p, err := Builtin().New(cfg, spec, 9, tensor.Heap)
		if err == nil {
			err = p.(FileChecker).CheckFiles()
		}
		return err
	}
	at := func(folder string) func(*Config, *env.Spec) {
		return func(c *Config, _ *env.Spec) { c.Own = frozenConfig(folder).Own }
	}
	test.OK(t, made(at(dir)))
	wrong := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(wrong, "resnet10.safetensors"), []byte("no tensors"), 0o666))
	for want, change := range map[string]func(*Config, *env.Spec){
		"torch.load('/nowhere/resnet10.pt', map_location='cpu'), '/nowhere/resnet10.safetensors')": at("/nowhere"),
		"actor.model.encoder=nature_cnn needs no weights":                                          at(""),
		wrong + "/resnet10.safetensors: ":                                                          at(wrong),
		"is 1 frames of 1 channels: expected 1 frame of 3": func(_ *Config, s *env.Spec) {
			s.Obs[0] = image("main_images", 40, 33, 1)
		},
		"actions are choices": func(_ *Config, s *env.Spec) {
			s.Action = env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}
		},
		"backbone: vgg: expected resnet": func(c *Config, _ *env.Spec) {
			c.Own = params.New(Backbone{Backbone: "vgg"})
		},
	} {
		if err := made(change); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	cfg := frozenConfig("")
	cfg.Encoder = Keypoints // then the backbone has no effect
	p := must[Policy](t)(Builtin().New(cfg, frozenSpec(), 9, tensor.Heap))
	if Kept(p) != nil || NewKeeper(p, 1) != nil {
		t.Error("an encoder of images is frozen")
	}
}
