package resnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/tensor"
)

var camera = []nn.Source{{Name: "camera", Image: nn.Image{H: 12, W: 10, C: 3}, Frames: 1}}

// network declares a network with a head for images of 12×10 pixels, which it sees as 32×32 pixels.
func network(t *testing.T, trunk resnet.Trunk) *nn.Params[float32] {
	t.Helper()
	p := new(nn.Params[float32])
	p.Group("all")
	head := nn.Sequence(nn.Dense(4).Named("0"), nn.Activate(nn.ReLU), nn.Dropout(0.1), nn.Dense(1).Named("3"))
	layers := append(trunk.Layers("camera", 32, 32, true), nn.MeanPool(), head.Named("fc"))
	test.Must(nn.NewNet(p, "", nn.Sequence(layers...), camera))(t)
	test.OK(t, p.Alloc(tensor.Heap))
	return p
}

// The names are torchvision's; a resnet18 with torchvision's last layer has 11,689,512 parameters.
func TestNamesAndNumbers(t *testing.T) {
	t.Parallel()
	p := network(t, test.Must(resnet.New("resnet18"))(t))
	names := map[string]bool{}
	head := 0
	for _, f := range p.Fields {
		names[f.Name] = true
		if strings.HasPrefix(f.Name, "fc.") {
			head += f.Len()
		}
	}
	test.Equal(t, p.Len()-head+512*1000+1000, 11_689_512)
	for _, name := range []string{"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer1.1.bn2.weight",
		"layer2.0.downsample.0.weight", "layer2.0.downsample.1.bias", "layer4.1.conv2.weight", "fc.0.weight",
		"fc.3.bias"} {
		if !names[name] {
			t.Errorf("no parameter %s", name)
		}
	}
	if names["conv1.bias"] || names["layer1.0.downsample.0.weight"] {
		t.Error("a bias of a convolution, or a shortcut that changes no shape")
	}
}

// Gradients of a whole network, by differences, for a few elements of every tensor.
func TestGradients(t *testing.T) {
	if testing.Short() {
		t.Skip("differences of whole networks take seconds")
	}
	t.Parallel()
	trunk := resnet.Trunk{Blocks: [4]int{1, 0, 0, 0}, Groups: 4}
	r, err := nntest.Layer(nn.Sequence(append(trunk.Layers("camera", 8, 8, true), nn.MeanPool(), nn.Dense(1))...),
		camera)
	if err != nil || r.Checked < 200 {
		t.Errorf("%+v, %v", r, err)
	}
}

// small has the first two stages, each with a block.
var small = resnet.Trunk{Blocks: [4]int{1, 1, 0, 0}}

// torch returns random tensors for p with torchvision's names and shapes, below a wrapper's beginning.
func torch(p *nn.Params[float32], wrapper string) tensor.Dict {
	var d tensor.Dict
	next := float32(0)
	add := func(name string, shape ...int) {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.F32() {
			next++
			x.F32()[i] = next
		}
		d.Set(wrapper+name, x)
	}
	for _, f := range p.Fields {
		switch {
		case len(f.Shape) == 1:
			add(f.Name, f.Shape...)
		case strings.HasPrefix(f.Name, "fc."):
			add(f.Name, f.Shape[1], f.Shape[0])
		default:
			size := 3
			if f.Name == "conv1.weight" {
				size = 7
			} else if strings.Contains(f.Name, "downsample") {
				size = 1
			}
			add(f.Name, f.Shape[1], f.Shape[0]/size/size, size, size)
		}
	}
	for i := range p.Buffers.Len() {
		name, b := p.Buffers.Entry(i)
		name = strings.TrimSuffix(name, "stats")
		add(name+"running_mean", b.Len()/2)
		add(name+"running_var", b.Len()/2)
		d.Set(wrapper+name+"num_batches_tracked", tensor.FromI64([]int64{7}))
	}
	return d
}

// Filter f, channel c, row y, column x of torchvision's weight is row (3y+x)·C+c, column f here.
func TestLoad(t *testing.T) {
	t.Parallel()
	p := network(t, small)
	for _, wrapper := range []string{"", "backbone.", "module.", "module._orig_mod.model.backbone."} {
		d := torch(p, wrapper)
		clear(p.Data)
		test.OK(t, resnet.Load(p, "", d, true))
		for i, f := range p.Fields {
			from := d.Must(wrapper + f.Name).F32()
			switch f.Name {
			case "layer2.0.conv1.weight": // [128, 64, 3, 3]
				test.Equal(t, p.Of(i)[((3*1+2)*64+5)*128+9], from[((9*64+5)*3+1)*3+2])
			case "fc.0.weight": // [4, 128]
				test.Equal(t, p.Of(i)[100*4+3], from[3*128+100])
			case "layer1.0.bn1.bias":
				test.Equal(t, p.Of(i)[8], from[8])
			}
		}
		stats := p.Buffers.Must("layer2.0.downsample.1.stats").F64()
		test.Equal(t, stats[1+7], float64(d.Must(wrapper + "layer2.0.downsample.1.running_mean").F32()[7]))
		test.Equal(t, stats[1+128+7], float64(d.Must(wrapper + "layer2.0.downsample.1.running_var").F32()[7]))
	}
}

func TestLoadMistakes(t *testing.T) {
	t.Parallel()
	p := network(t, small)
	without := func(name string) tensor.Dict {
		var d tensor.Dict
		all := torch(p, "")
		for i := range all.Len() {
			if n, x := all.Entry(i); n != name {
				d.Set(n, x)
			}
		}
		return d
	}
	changed := func(name string, x tensor.Tensor) tensor.Dict {
		d := torch(p, "")
		d.Set(name, x)
		return d
	}
	nan := torch(p, "").Must("bn1.weight").Clone()
	nan.F32()[3] /= 0
	for want, d := range map[string]tensor.Dict{
		"no layer2.0.conv2.weight [128 128 3 3] in it":           without("layer2.0.conv2.weight"),
		"no bn1.running_var [64] in it":                          without("bn1.running_var"),
		"bn1.bias is F32[63], this network's is F32[64]":         changed("bn1.bias", tensor.New(tensor.F32, 63)),
		"head.weight is in it, and is no tensor of this network": changed("head.weight", tensor.New(tensor.F32, 1)),
		"bn1.weight: element 3 is":                               changed("bn1.weight", nan),
	} {
		if err := resnet.Load(p, "", d, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	// Without the head, its tensors stay, whether the file has a head or not.
	p.Of(len(p.Fields) - 1)[0] = 5
	test.OK(t, resnet.Load(p, "", changed("fc.weight", tensor.New(tensor.F32, 1000, 512)), false))
	test.OK(t, resnet.Load(p, "", without("fc.3.bias"), false))
	test.Equal(t, p.Of(len(p.Fields) - 1)[0], 5)
	if _, err := resnet.New("resnet50"); fmt.Sprint(err) != "resnet50: expected one of resnet10, resnet18, resnet34" {
		t.Error(err)
	}
}
