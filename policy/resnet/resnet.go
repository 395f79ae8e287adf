// Package resnet answers: which features does a residual network of He et al. 2016 (arXiv:1512.03385) compute from an
// image? It has torchvision's networks of basic blocks, with torchvision's names, and reads torchvision's weights.
//
//	trunk, err := resnet.New("resnet18")
//	layers := trunk.Layers("camera", 224, 224, true)                               // [7, 7, 512]
//	layers = append(layers, nn.MeanPool(), nn.Dense(1).Named("fc"))
//	net, err := nn.NewNet(p, "camera", nn.Sequence(layers...), sources)
//	err = resnet.Load(p, "camera.", weights, false)
package resnet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/policy/nn"
)

// A Trunk is a residual network without its last layers: four stages of basic blocks.
type Trunk struct {
	Blocks [4]int // the number of blocks of each stage
	Groups int    // of channels, for GroupNorm; 0 for BatchNorm
}

// Width is the number of channels that a Trunk computes.
const Width = 512

// trunks are the networks of basic blocks, by their names.
var trunks = map[string]Trunk{
	"resnet10": {Blocks: [4]int{1, 1, 1, 1}, Groups: 4}, // of SERL (Luo et al. 2024, arXiv:2401.16013)
	"resnet18": {Blocks: [4]int{2, 2, 2, 2}},
	"resnet34": {Blocks: [4]int{3, 4, 6, 3}},
}

// New returns the named network: resnet10 with GroupNorm, resnet18 or resnet34 with BatchNorm.
func New(name string) (Trunk, error) {
	t, ok := trunks[name]
	if !ok {
		return t, fmt.Errorf("%s: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return t, nil
}

// Names returns the names of the networks.
func Names() (names []string) {
	for name := range trunks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Means and deviations of red, green and blue in ImageNet.
var (
	imageNetMean      = []float64{0.485, 0.456, 0.406}
	imageNetDeviation = []float64{0.229, 0.224, 0.225}
)

// Layers describes the network for the named image of bytes, which it resizes to h×w pixels. With normalize, it
// subtracts the means of ImageNet and divides by the deviations. Otherwise colours range from 0 to 1. The output has
// about h/32 × w/32 pixels and 512 channels. The names of the layers are torchvision's.
func (t Trunk) Layers(image string, h, w int, normalize bool) []nn.Layer {
	mean, deviation := []float64{0, 0, 0}, []float64{1, 1, 1}
	if normalize {
		mean, deviation = imageNetMean, imageNetDeviation
	}
	layers := []nn.Layer{nn.View(image, h, w, mean, deviation),
		nn.Conv(64, 7, 2, 3).Unbiased().FanOut().Named("conv1"), t.norm("bn1"), relu, nn.MaxPool()}
	width := 64
	for stage, blocks := range t.Blocks {
		for i := range blocks {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			out := 64 << stage
			block := t.block(width, out, stride)
			layers = append(layers, block.Named("layer"+strconv.Itoa(stage+1)+"."+strconv.Itoa(i)), relu)
			width = out
		}
	}
	return layers
}

var relu = nn.Activate(nn.ReLU)

// block describes a basic block without its last ReLU: two convolutions of 3×3 and a shortcut. The shortcut has a
// convolution of 1×1 if the shape changes.
func (t Trunk) block(in, out, stride int) nn.Layer {
	b := nn.Residual(conv(out, 3, stride).Named("conv1"), t.norm("bn1"), relu, conv(out, 3, 1).Named("conv2"),
		t.norm("bn2"))
	if in == out && stride == 1 {
		return b
	}
	return b.Shortcut(conv(out, 1, stride).Named("downsample.0"), t.norm("downsample.1"))
}

func conv(filters, size, stride int) nn.Layer {
	return nn.Conv(filters, size, stride, size/2).Unbiased().FanOut()
}

func (t Trunk) norm(name string) nn.Layer {
	if t.Groups > 0 {
		return nn.GroupNorm(t.Groups).Named(name)
	}
	return nn.BatchNorm2D().Named(name)
}
