package nn

import (
	"fmt"
	"math"
	"strconv"
)

// NatureSize is the smallest height and width of an image for NatureCNN.
const NatureSize = 36

// NatureCNN computes 512 features of the named image, with the network of Mnih et al. 2015 (doi:10.1038/nature14236).
// It has 32 filters of 8×8 pixels at stride 4, 64 filters of 4×4 at stride 2, and 64 filters of 3×3 at stride 1. ReLU
// follows each convolution.
//
// In this and the following networks, words is the name of a source of choices. They modulate the output of the first
// convolution: each element x becomes (1+γ)x + β, where γ and β of the channel come from Embed (FiLM). If words is "",
// there is no modulation.
func NatureCNN(image, words string) Layer {
	relu := Activate(ReLU)
	layers := append(stem(Conv(32, 8, 4, 0), image, words), relu,
		Conv(64, 4, 2, 0).Named("1"), relu, Conv(64, 3, 1, 0).Named("2"), relu)
	return Sequence(append(layers, features(512)...)...)
}

// ImpalaCNN computes 256 features of the named image, with the residual network of Espeholt et al. 2018
// (arXiv:1802.01561, figure 3). It has three stages, of 16, 32 and 32 channels. A stage is a convolution of 3×3, a max
// pooling of 3×3 at stride 2, and two residual blocks. A block has two convolutions of 3×3, each after a ReLU (He et
// al. 2016, arXiv:1603.05027). For words see NatureCNN.
func ImpalaCNN(image, words string) Layer {
	relu := Activate(ReLU)
	var layers []Layer
	for i, channels := range []int{16, 32, 32} {
		conv := Conv(channels, 3, 1, 1)
		if stage := strconv.Itoa(i); i == 0 {
			layers = stem(conv, image, words)
		} else {
			layers = append(layers, conv.Named(stage))
		}
		layers = append(layers, MaxPool())
		for block := range 2 {
			name := fmt.Sprintf("%d.block%d", i, block)
			last := conv.Named("1").Gain(math.Sqrt2 * residualGain)
			layers = append(layers, Residual(relu, conv.Named("0"), relu, last).Named(name))
		}
	}
	return Sequence(append(append(layers, relu), features(256)...)...)
}

// residualGain scales the initial weights of the second convolution of a block. It is small, so that features do not
// grow with the number of blocks.
var residualGain = math.Sqrt(1. / 6)

// KeypointCNN computes 128 features of the named image. It locates objects of a few pixels. It has two convolutions,
// each with 32 filters of 3×3 at stride 2, and a ReLU between them. A spatial softmax computes the position of each
// channel (Levine et al. 2016, arXiv:1504.00702). For words see NatureCNN.
func KeypointCNN(image, words string) Layer {
	conv := Conv(32, 3, 2, 1)
	layers := append(stem(conv, image, words), Activate(ReLU), conv.Named("1"), SpatialSoftmax(1))
	return Sequence(append(layers, features(128)...)...)
}

// stem returns the first convolution and its modulation by the source words. γ and β have an initial variance of about
// 1, so that words have an effect from the beginning.
func stem(conv Layer, image, words string) []Layer {
	layers := []Layer{Input(image), conv.Named("0")}
	if words != "" {
		layers = append(layers, modulated(Embed(words, 2*conv.width)).Named("words"))
	}
	return layers
}

// features returns the last layers of a network for images.
func features(width int) []Layer { return []Layer{Dense(width).Named("features.0"), Activate(ReLU)} }
