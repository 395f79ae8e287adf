package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// sources returns the inputs of the layers that the method network describes. Bytes become numbers from -2 to 2, so
// that images have about mean 0 and deviation 1. Convolutions then learn several times faster than on numbers from 0 to
// 1.
func (s *observations) sources() (all []nn.Source) {
	for _, n := range s.numbers {
		all = append(all, nn.Source{Name: n.name, Width: n.width})
	}
	for _, c := range s.cameras {
		all = append(all, nn.Source{Name: c.name, Image: c.cut, Frames: c.frames, Range: [2]float64{-2, 2}})
	}
	if s.readable > 0 {
		words := nn.Choices{Low: make([]int, s.readable), High: make([]int, s.readable)}
		for i := range words.High {
			words.High[i] = s.vocabulary
		}
		all = append(all, nn.Source{Name: s.text, Choices: words})
	}
	return all
}

// network describes the layers that turn observations into tokens of width d. It sets s.tokens. Each camera has a grid
// of tokens. One more token holds all numbers and keypoints. With vision_film or vision_words, it also holds the text.
// The output has all tokens side by side, then the auxiliary prediction.
func (s *observations) network(c *Config, d int) (nn.Layer, error) {
	if err := s.checkVision(c); err != nil {
		return nn.Layer{}, err
	}
	var parts, inputs []nn.Layer
	s.tokens, s.predicted = 0, 0
	for _, n := range s.numbers {
		inputs = append(inputs, nn.Input(n.name))
	}
	if c.VisionFiLM || c.VisionWords {
		inputs = append(inputs, nn.Sequence(s.sentence(d)...))
	}
	for _, cam := range s.cameras {
		if c.VisionGrid > 0 {
			grid, tokens, err := s.grid(&cam, c, d)
			if err != nil {
				return nn.Layer{}, fmt.Errorf("observation %q: %w", cam.name, err)
			}
			parts = append(parts, grid)
			s.tokens += tokens
		}
		if c.Keypoints > 0 || c.VisionWords {
			inputs = append(inputs, s.keypoints(&cam, c))
		}
	}
	if len(inputs) > 0 {
		out := nn.Sequence(nn.Dense(4*d), nn.Activate(nn.ReLU), nn.Dense(4*d), nn.Activate(nn.ReLU), nn.Dense(d))
		if c.Foresight > 0 {
			s.predicted = 2 * s.width
			out = nn.Concat(out, nn.Dense(s.predicted))
		}
		parts = append(parts, nn.Sequence(nn.Concat(inputs...), out))
		s.tokens++
	}
	if c.Foresight > 0 && s.predicted == 0 {
		return nn.Layer{}, fmt.Errorf("foresight: no numbers are observed: expected some, or 0")
	}
	return nn.Concat(parts...), nil
}

// checkVision returns an error if no layer would read the images. It also returns one if vision_words or vision_film
// would have no effect.
func (s *observations) checkVision(c *Config) error {
	key := "vision_words"
	if c.VisionFiLM {
		key = "vision_film"
	}
	reads := c.VisionFiLM || c.VisionWords
	switch {
	case reads && s.text == "":
		return fmt.Errorf("%s: no text is observed: expected one, or false", key)
	case reads && len(s.cameras) == 0:
		return fmt.Errorf("%s: no image is observed: expected one, or false", key)
	case c.VisionFiLM && c.Keypoints == 0 && (c.VisionWords || c.Vision == Patches || c.VisionGrid == 0):
		return fmt.Errorf("vision_film: there are no features for it to choose: expected false, or " +
			"vision_keypoints > 0")
	case len(s.cameras) > 0 && c.VisionGrid == 0 && c.Keypoints == 0 && !c.VisionWords:
		return fmt.Errorf("observation %q: not used by the policy: expected vision_grid or vision_keypoints > 0, or "+
			"vision_words", s.cameras[0].name)
	}
	return nil
}

// grid describes the layers that turn a camera into tokens, and returns the number of tokens. The layers are
// convolutions of stride 2, or a single convolution over patches (Dosovitskiy et al. 2021, arXiv:2010.11929).
func (s *observations) grid(cam *camera, c *Config, d int) (grid nn.Layer, tokens int, err error) {
	side, steps := max(cam.cut.H, cam.cut.W), 0
	for halved(side, steps) > c.VisionGrid {
		steps++
	}
	if steps == 0 {
		return grid, 0, fmt.Errorf("%d×%d pixels: expected more than vision_grid, %d, on a side", cam.cut.H,
			cam.cut.W, c.VisionGrid)
	}
	if c.Vision == Patches {
		size := (side + c.VisionGrid - 1) / c.VisionGrid // size of a patch: at most vision_grid patches on a side
		pad := (size*c.VisionGrid - side + 1) / 2
		rows, columns := (cam.cut.H+2*pad)/size, (cam.cut.W+2*pad)/size
		if rows*size < cam.cut.H+pad || columns*size < cam.cut.W+pad {
			return grid, 0, fmt.Errorf("patches of %d×%d pixels do not cover %d×%d: expected another vision_grid, %d",
				size, size, cam.cut.H, cam.cut.W, c.VisionGrid)
		}
		return nn.Sequence(nn.Input(cam.name), nn.Conv(d, size, size, pad)), rows * columns, nil
	}
	layers := s.firstConv(cam, c, d)
	for i := 1; i < steps; i++ {
		layers = append(layers, nn.Conv(min(c.VisionWidth<<i, d), 3, 2, 1), nn.Activate(nn.ReLU))
	}
	return nn.Sequence(append(layers, nn.Conv(d, 1, 1, 0))...), halved(cam.cut.H, steps) * halved(cam.cut.W, steps), nil
}

// halved returns the side of an image after the given number of convolutions of stride 2.
func halved(side, convolutions int) int {
	for range convolutions {
		side = (side + 1) / 2
	}
	return side
}

// keypoints describes the layers that locate objects in the images of a camera: two convolutions of stride 2, then the
// position at which each channel is largest (spatial softmax). A channel is a weighted sum over the features of one
// pixel.
//
// With vision_words there is a channel for each word of the text (word-conditioned attention). These channels read
// features that do not depend on the text, so a word means the same in all texts. With vision_film the text scales and
// shifts the features of the other channels (FiLM, Perez et al. 2018, arXiv:1709.07871). Channels have no ReLU, so a
// channel has a position even if all of its values are below 0.
func (s *observations) keypoints(cam *camera, c *Config) nn.Layer {
	layers := append(s.firstConv(cam, c, c.VisionWidth), nn.Conv(2*c.VisionWidth, 3, 2, 1))
	var channels, film []nn.Layer
	if c.VisionWords {
		channels = append(channels, nn.Sequence(nn.Activate(nn.ReLU), nn.Coordinates(),
			nn.Point(s.text, keypointDeviation)))
	}
	if c.VisionFiLM {
		film = append(film, s.film())
	}
	if c.Keypoints > 0 {
		channels = append(channels, nn.Sequence(append(film, nn.Activate(nn.ReLU), nn.Conv(c.Keypoints, 1, 1, 0),
			nn.SpatialSoftmax(keypointDeviation))...))
	}
	return nn.Sequence(append(layers, nn.Concat(channels...))...)
}

// keypointDeviation is the deviation of the logits of a channel before the softmax over its pixels. Grasping needs
// positions that are exact to a few millimetres. With a deviation of 1, the pixels beside an object have too much
// weight.
const keypointDeviation = 2

// firstConv describes the first convolution of a camera. It has at most maxChannels channels. After it, two channels
// with the position of each pixel are added. With vision_film, but without vision_words, the text modulates the
// features of the convolution.
func (s *observations) firstConv(cam *camera, c *Config, maxChannels int) []nn.Layer {
	layers := []nn.Layer{nn.Input(cam.name), nn.Conv(min(c.VisionWidth, maxChannels), 3, 2, 1)}
	if c.VisionFiLM && !c.VisionWords {
		layers = append(layers, s.film())
	}
	return append(layers, nn.Activate(nn.ReLU), nn.Coordinates())
}

// film describes the modulation of image features by the text.
func (s *observations) film() nn.Layer { return nn.FiLM(s.sentence(filmWidth)...) }

// filmWidth is the number of features of a text that modulate the features of an image.
const filmWidth = 128

// sentence describes the layers that compute features of the text, [width]. With the ReLU, one feature can depend on
// several words together.
func (s *observations) sentence(width int) []nn.Layer {
	return []nn.Layer{nn.Sentence(s.text, width), nn.Activate(nn.ReLU)}
}
