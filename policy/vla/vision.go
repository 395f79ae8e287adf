package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A camera is an observation of images, [H,W,3] or [frames,H,W,3] of bytes, of which the policy sees
// a part.
type camera struct {
	name       string
	frames     int
	whole, cut nn.Image // one frame, and the part of it that is seen
}

// numbers is an observation of numbers.
type numbers struct {
	name  string
	width int
}

// senses are the observations of a policy, and the network that makes tokens of them.
type senses struct {
	fields  []env.Field
	cameras []camera
	numbers []numbers
	width   int // of all numbers
	text    string
	length  int      // bytes of a text, or words of an instruction
	words   []string // what the numbers of an instruction mean; nil: texts are bytes
	tokens  int      // that the network makes
	guesses int      // numbers behind them: how a demonstration goes on

	places, vocabulary int // tokens of a text at most, and how many there are, for a network that reads; 0: it does not
}

// newSenses reads the observations of spec.
func newSenses(spec env.Spec, c *Config) (*senses, error) {
	s := &senses{fields: spec.Obs}
	for _, f := range spec.Obs {
		switch {
		case f.Name == env.ActionMask:
			return nil, fmt.Errorf("observation %q: vla_policy chooses continuous actions", f.Name)
		case f.Words != nil || f.Text && f.DType == tensor.U8:
			if s.text != "" {
				return nil, fmt.Errorf("observations %q and %q are texts: expected one", s.text, f.Name)
			}
			s.text, s.length, s.words = f.Name, f.Dim(), f.Words
		case f.Kind == env.Box && f.DType == tensor.U8 && len(f.Shape) >= 3:
			cam, err := newCamera(f, c.ImageCrop)
			if err != nil {
				return nil, err
			}
			s.cameras = append(s.cameras, cam)
		case f.Kind == env.Box && f.DType == tensor.F32:
			s.numbers = append(s.numbers, numbers{f.Name, f.Dim()})
			s.width += f.Dim()
		default:
			return nil, fmt.Errorf("observation %q: kind %d of %v%v: expected images [H W C] of U8, numbers of F32, "+
				"or a text", f.Name, f.Kind, f.DType, f.Shape)
		}
	}
	if len(s.cameras)+len(s.numbers) == 0 {
		return nil, fmt.Errorf("observations: no image and no numbers: expected some")
	}
	return s, nil
}

// newCamera reads an observation of images, of whose area the share crop is seen.
func newCamera(f env.Field, crop float64) (camera, error) {
	c, dims := camera{name: f.Name, frames: 1}, f.Shape
	if len(dims) == 4 {
		c.frames, dims = dims[0], dims[1:]
	}
	if len(dims) != 3 {
		return c, fmt.Errorf("observation %q: image of %v: expected [H W C], or [frames H W C]", f.Name, f.Shape)
	}
	c.whole = nn.Image{H: dims[0], W: dims[1], C: dims[2]}
	side := func(n int) int { return max(1, int(math.Round(float64(n)*math.Sqrt(crop)))) }
	c.cut = nn.Image{H: side(c.whole.H), W: side(c.whole.W), C: c.whole.C}
	return c, nil
}

// crops tells whether a part of the image is left out.
func (c *camera) crops() bool { return c.cut != c.whole }

// crop sets dst to the part of the images src, of one row, whose first pixel is (top, left).
func (c *camera) crop(dst, src []uint8, top, left int) {
	line := c.cut.W * c.cut.C
	for f := range c.frames {
		at := (f*c.whole.H+top)*c.whole.W + left
		for y := range c.cut.H {
			copy(dst[:line], src[(at+y*c.whole.W)*c.whole.C:])
			dst = dst[line:]
		}
	}
}

// sources are what the layers of network name. Bytes count from -2 to 2, so that images have about mean
// 0 and deviation 1: stems learn several times faster so than from 0 to 1.
func (s *senses) sources() (all []nn.Source) {
	for _, n := range s.numbers {
		all = append(all, nn.Source{Name: n.name, Width: n.width})
	}
	for _, c := range s.cameras {
		all = append(all, nn.Source{Name: c.name, Image: c.cut, Frames: c.frames, Range: [2]float64{-2, 2}})
	}
	if s.places > 0 {
		words := nn.Choices{Low: make([]int, s.places), High: make([]int, s.places)}
		for i := range words.High {
			words.High[i] = s.vocabulary
		}
		all = append(all, nn.Source{Name: s.text, Choices: words})
	}
	return all
}

// network describes what makes tokens of width d, side by side. Each camera has those of a grid of
// convolutions or of patches (Dosovitskiy et al. 2021, arXiv:2010.11929). One is of all numbers and
// keypoints, and with vision_film or vision_words of the text. Behind them are the guesses of foresight.
func (s *senses) network(c *Config, d int) (nn.Layer, error) {
	if err := s.readable(c); err != nil {
		return nn.Layer{}, err
	}
	var parts, inputs []nn.Layer
	s.tokens, s.guesses = 0, 0
	for _, n := range s.numbers {
		inputs = append(inputs, nn.Input(n.name))
	}
	if c.VisionFiLM || c.VisionWords {
		inputs = append(inputs, nn.Sequence(s.reading(d)...))
	}
	for _, cam := range s.cameras {
		if c.VisionGrid > 0 {
			tokens, err := s.grid(&cam, c, d)
			if err != nil {
				return nn.Layer{}, fmt.Errorf("observation %q: %w", cam.name, err)
			}
			parts = append(parts, tokens)
		}
		if c.Keypoints > 0 || c.VisionWords {
			inputs = append(inputs, s.locations(&cam, c))
		}
	}
	if len(inputs) > 0 {
		out := nn.Sequence(nn.Dense(4*d), nn.Activate(nn.ReLU), nn.Dense(4*d), nn.Activate(nn.ReLU), nn.Dense(d))
		if c.Foresight > 0 {
			s.guesses = 2 * s.width
			out = nn.Concat(out, nn.Dense(s.guesses))
		}
		parts = append(parts, nn.Sequence(nn.Concat(inputs...), out))
		s.tokens++
	}
	if c.Foresight > 0 && s.guesses == 0 {
		return nn.Layer{}, fmt.Errorf("foresight: no numbers are observed: expected some, or 0")
	}
	return nn.Concat(parts...), nil
}

// readable refuses images that nothing would read, and keys by which a text would choose what is
// seen, where they would have no effect.
func (s *senses) readable(c *Config) error {
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
			"vision_words",
			s.cameras[0].name)
	}
	return nil
}

// halved returns the side of an image after so many convolutions of stride 2.
func halved(side, convolutions int) int {
	for range convolutions {
		side = (side + 1) / 2
	}
	return side
}

// grid describes what makes the tokens of a camera: convolutions of stride 2, or one of a patch.
func (s *senses) grid(cam *camera, c *Config, d int) (nn.Layer, error) {
	side, steps := max(cam.cut.H, cam.cut.W), 0
	for halved(side, steps) > c.VisionGrid {
		steps++
	}
	if steps == 0 {
		return nn.Layer{}, fmt.Errorf("%d×%d pixels: expected more than vision_grid, %d, on a side", cam.cut.H,
			cam.cut.W,
			c.VisionGrid)
	}
	if c.Vision == Patches {
		size := (side + c.VisionGrid - 1) / c.VisionGrid // at most vision_grid patches on a side
		pad := (size*c.VisionGrid - side + 1) / 2
		rows, columns := (cam.cut.H+2*pad)/size, (cam.cut.W+2*pad)/size
		if rows*size < cam.cut.H+pad || columns*size < cam.cut.W+pad {
			return nn.Layer{}, fmt.Errorf("patches of %d×%d pixels do not cover %d×%d: expected another "+
				"vision_grid, %d",
				size, size, cam.cut.H, cam.cut.W, c.VisionGrid)
		}
		s.tokens += rows * columns
		return nn.Sequence(nn.Input(cam.name), nn.Conv(d, size, size, pad)), nil
	}
	layers := s.first(cam, c, d)
	for i := 1; i < steps; i++ {
		layers = append(layers, nn.Conv(min(c.VisionWidth<<i, d), 3, 2, 1), nn.Activate(nn.ReLU))
	}
	s.tokens += halved(cam.cut.H, steps) * halved(cam.cut.W, steps)
	return nn.Sequence(append(layers, nn.Conv(d, 1, 1, 0))...), nil
}

// locations describes what says where a camera sees things: two convolutions of stride 2, and where
// each channel is largest. Channels are sums over the features of single pixels. With vision_words,
// each word of the text has one. Their features do not depend on the text, so that a word means the same in
// all texts. Others are keypoints, with vision_film of what the text chooses. No channel is
// rectified: a place is where it is large, not where it is above 0.
func (s *senses) locations(cam *camera, c *Config) nn.Layer {
	layers := append(s.first(cam, c, c.VisionWidth), nn.Conv(2*c.VisionWidth, 3, 2, 1))
	var of, chosen []nn.Layer
	if c.VisionWords {
		of = append(of, nn.Sequence(nn.Activate(nn.ReLU), nn.Coordinates(), nn.Point(s.text, placeDeviation)))
	}
	if c.VisionFiLM {
		chosen = append(chosen, s.choice())
	}
	if c.Keypoints > 0 {
		of = append(of, nn.Sequence(append(chosen, nn.Activate(nn.ReLU), nn.Conv(c.Keypoints, 1, 1, 0),
			nn.SpatialSoftmax(placeDeviation))...))
	}
	return nn.Sequence(append(layers, nn.Concat(of...))...)
}

// placeDeviation is that of what the softmax of places takes. Fingers need places to a few
// millimetres: with 1, pixels beside the thing that is meant count too much.
const placeDeviation = 2

// first describes the first convolution of a camera, of at most so many channels, and where its
// pixels are. With vision_film the text chooses its features, unless words look at them.
func (s *senses) first(cam *camera, c *Config, most int) []nn.Layer {
	layers := []nn.Layer{nn.Input(cam.name), nn.Conv(min(c.VisionWidth, most), 3, 2, 1)}
	if c.VisionFiLM && !c.VisionWords {
		layers = append(layers, s.choice())
	}
	return append(layers, nn.Activate(nn.ReLU), nn.Coordinates())
}

// choice describes what lets the text choose the features of an image.
func (s *senses) choice() nn.Layer { return nn.FiLM(s.reading(filmWidth)...) }

// filmWidth is how many features of a sentence choose those of images.
const filmWidth = 128

// reading describes so many features of the text. Rectified, they may be of words together: a colour
// where the thing to be moved stands.
func (s *senses) reading(width int) []nn.Layer {
	return []nn.Layer{nn.Sentence(s.text, width), nn.Activate(nn.ReLU)}
}

// The buffers by which numbers are normalised, [numbers].
const (
	numbersMean      = "numbers.mean"
	numbersDeviation = "numbers.deviation"
)

// leastDeviation keeps numbers that never change in demonstrations from being blown up.
const leastDeviation = 1e-3

func (s *senses) declare(p *nn.Params[float32]) {
	if s.width > 0 {
		p.AddBuffer(numbersMean, s.width)
		p.AddBuffer(numbersDeviation, s.width)
	}
}

func (s *senses) init(p *nn.Params[float32]) {
	if s.width > 0 {
		_, deviation := s.stats(p)
		for k := range deviation {
			deviation[k] = 1
		}
	}
}

func (s *senses) stats(p *nn.Params[float32]) (mean, deviation []float64) {
	return p.Buffers.Must(numbersMean).F64(), p.Buffers.Must(numbersDeviation).F64()
}

// fit sets mean and deviation of each number to those of demonstrations.
func (s *senses) fit(p *nn.Params[float32], obs tensor.Dict) error {
	at := 0
	for _, n := range s.numbers {
		t, ok := obs.Get(n.name)
		if !ok || t.DType() != tensor.F32 {
			return fmt.Errorf("demonstrations: no numbers %q", n.name)
		}
		mean, deviation := s.stats(p)
		x := t.F32()
		rows := float64(len(x) / n.width)
		for k := range n.width {
			var sum, square float64
			for i := k; i < len(x); i += n.width {
				sum += float64(x[i])
			}
			m := sum / rows
			for i := k; i < len(x); i += n.width {
				square += (float64(x[i]) - m) * (float64(x[i]) - m)
			}
			mean[at+k], deviation[at+k] = m, max(math.Sqrt(square/rows), leastDeviation)
		}
		at += n.width
	}
	return nil
}

// read sets dst, [n, numbers], to the normalised numbers of the rows from lo on.
func (s *senses) read(dst []float32, p *nn.Params[float32], obs tensor.Dict, lo, n int) {
	if s.width == 0 {
		return
	}
	mean, deviation := s.stats(p)
	at := 0
	for _, num := range s.numbers {
		x := obs.Must(num.name).F32()[lo*num.width:]
		for i := range n {
			row := dst[i*s.width+at:][:num.width]
			for k := range row {
				row[k] = float32((float64(x[i*num.width+k]) - mean[at+k]) / deviation[at+k])
			}
		}
		at += num.width
	}
}
