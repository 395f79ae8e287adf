package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
)

// Values of Config.Encoder.
const (
	NatureCNN = "nature_cnn"
	ImpalaCNN = "impala"
	Keypoints = "keypoints"
)

// wordFeatures is the total number of features for the words of a row.
const wordFeatures = 32

// obsShape describes an observation for a network.
type obsShape struct {
	numbers int       // count of numbers in a row
	encoder *nn.Layer // computes features from the sources; if nil, the next layers read the numbers
	sources []nn.Source
}

// input returns the layers that turn observations into rows for the hidden layers, and the sources of these layers.
func (s obsShape) input() ([]nn.Layer, []nn.Source) {
	if s.encoder != nil {
		return []nn.Layer{s.encoder.Named("encoder")}, s.sources
	}
	return []nn.Layer{nn.Input(allNumbers)}, []nn.Source{{Name: allNumbers, Width: s.numbers}}
}

// Names of two sources: one has all numbers, the other all words.
const (
	allNumbers = "all numbers"
	allWords   = "all words"
)

// addWords adds the bounds of the choices in f to c.
func addWords(c *nn.Choices, f env.Field) error {
	for k := range f.Dim() {
		low, high := 0, 0
		switch {
		case f.Kind != env.Box:
			high = f.Nvec[k%len(f.Nvec)] - 1
		case !(f.Low[k] >= math.MinInt16 && f.High[k] <= math.MaxInt16):
			return fmt.Errorf("observation %q: element %d is in [%v, %v]: expected bounds in [%d, %d], or numbers "+
				"of F32", f.Name, k, f.Low[k], f.High[k], math.MinInt16, math.MaxInt16)
		default:
			low, high = int(f.Low[k]), int(f.High[k])
		}
		c.Low, c.High = append(c.Low, low), append(c.High, high)
	}
	return nil
}

// A batch holds some rows of observations.
type batch[T nn.Float] struct {
	nn.Batch[T]
	mask []uint8 // [Rows, ΣNvec], for the distribution of actions; nil allows every option
}

// newEncoder describes an encoder of the given kind. A row of features holds, side by side, the features of the words,
// the features of each image, and the numbers. The network of an image also reads the words.
func newEncoder(kind string, numbers int, images []Camera, choices nn.Choices) (nn.Layer, []nn.Source) {
	var parts []nn.Layer
	var sources []nn.Source
	words := ""
	if len(choices.Low) > 0 {
		words = allWords
		parts = append(parts, nn.Embed(words, wordFeatures).Named("words"))
		sources = append(sources, nn.Source{Name: words, Choices: choices})
	}
	network := nn.NatureCNN
	switch kind {
	case ResNet:
		network = frozenFeatures
	case ImpalaCNN:
		network = nn.ImpalaCNN
	case Keypoints:
		network = nn.KeypointCNN
	}
	for _, s := range images {
		source := s.source()
		if kind == ResNet {
			source = frozenSource(s)
		}
		parts, sources = append(parts, network(source.Name, words).Named(source.Name)), append(sources, source)
	}
	if numbers > 0 {
		part := nn.Input(allNumbers)
		if kind == ResNet {
			hidden := nn.Hidden([]int{64}, nn.Tanh, nn.LayerNorms)
			part = nn.Sequence(append([]nn.Layer{part}, hidden...)...).Named("numbers")
		}
		parts = append(parts, part)
		sources = append(sources, nn.Source{Name: allNumbers, Width: numbers})
	}
	return nn.Concat(parts...), sources
}
