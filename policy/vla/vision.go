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

	places, vocabulary int // tokens of a text at most, and how many there are, for a network that reads; 0: it does not
}

// newSenses reads the observations of spec.
func newSenses(spec env.Spec, c *Config) (*senses, error) {
	s := &senses{fields: spec.Obs}
	for _, f := range spec.Obs {
		switch {
		case f.Name == env.ActionMask:
			return nil, fmt.Errorf("observation %q: vla_policy chooses actions in a box", f.Name)
		case f.Words != nil || f.Text && f.DType == tensor.U8:
			if s.text != "" {
				return nil, fmt.Errorf("observations %q and %q are texts: want one", s.text, f.Name)
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
			return nil, fmt.Errorf("observation %q: kind %d of %v%v: want images [H W C] of U8, numbers of F32, "+
				"or a text", f.Name, f.Kind, f.DType, f.Shape)
		}
	}
	if len(s.cameras)+len(s.numbers) == 0 {
		return nil, fmt.Errorf("observations: no image and no numbers: want some")
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
		return c, fmt.Errorf("observation %q: image of %v: want [H W C], or [frames H W C]", f.Name, f.Shape)
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

// sources are what the layers of network name.
func (s *senses) sources() (all []nn.Source) {
	for _, n := range s.numbers {
		all = append(all, nn.Source{Name: n.name, Width: n.width})
	}
	for _, c := range s.cameras {
		all = append(all, nn.Source{Name: c.name, Image: c.cut, Frames: c.frames})
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

// network describes what makes tokens of width d, side by side: of each camera in turn those of a
// grid of convolutions or of patches (Dosovitskiy et al. 2021, arXiv:2010.11929), then keypoints,
// then one of all numbers.
func (s *senses) network(c *Config, d int) (nn.Layer, error) {
	var parts []nn.Layer
	s.tokens = 0
	for _, cam := range s.cameras {
		seen, err := s.vision(&cam, c, d)
		if err != nil {
			return nn.Layer{}, fmt.Errorf("observation %q: %w", cam.name, err)
		}
		parts = append(parts, seen...)
	}
	if len(s.numbers) > 0 {
		var inputs []nn.Layer
		for _, n := range s.numbers {
			inputs = append(inputs, nn.Input(n.name))
		}
		parts = append(parts, nn.Sequence(nn.Concat(inputs...), nn.Dense(d), nn.Activate(nn.ReLU), nn.Dense(d)))
		s.tokens++
	}
	return nn.Concat(parts...), nil
}

// grid returns the side of an image after so many convolutions of stride 2.
func grid(side, convolutions int) int {
	for range convolutions {
		side = (side + 1) / 2
	}
	return side
}

// vision describes what makes the tokens of a camera. Convolutions of stride 2 lead down to the grid.
// Keypoints branch off behind the second, where places are fine. With vision_film the text chooses
// the features of the first.
func (s *senses) vision(cam *camera, c *Config, d int) (tokens []nn.Layer, err error) {
	side, steps := max(cam.cut.H, cam.cut.W), 0
	for grid(side, steps) > max(c.VisionGrid, 1) {
		steps++
	}
	switch {
	case steps == 0:
		return nil, fmt.Errorf("%d×%d pixels: want more than vision_grid, %d, on a side", cam.cut.H, cam.cut.W,
			c.VisionGrid)
	case c.VisionGrid == 0 && c.Keypoints == 0:
		return nil, fmt.Errorf("no tokens: want vision_grid or vision_keypoints > 0")
	case c.VisionFiLM && s.text == "":
		return nil, fmt.Errorf("vision_film: no text is observed: want one, or false")
	}
	// rectified convolutions, the last of them not: keypoints are where a channel is large, not where it is above 0
	convolutions := func(from, to int) (layers []nn.Layer) {
		for i := from; i < to; i++ {
			if i > 0 {
				layers = append(layers, nn.Activate(nn.ReLU))
			}
			layers = append(layers, nn.Conv(min(c.VisionWidth<<i, d), 3, 2, 1))
			if i == 0 && c.VisionFiLM {
				layers = append(layers, nn.FiLM(nn.Sentence(s.text, filmWidth)))
			}
		}
		return layers
	}
	fine := min(steps, 2)
	shared := append([]nn.Layer{nn.Input(cam.name)}, convolutions(0, fine)...)
	var branches []nn.Layer
	switch {
	case c.VisionGrid == 0:
	case c.Vision == Patches:
		size := side / c.VisionGrid
		tokens = append(tokens, nn.Sequence(nn.Input(cam.name), nn.Conv(d, size, size, 0)))
		s.tokens += (cam.cut.H / size) * (cam.cut.W / size)
	default:
		branches = append(branches, nn.Sequence(append(convolutions(fine, steps), nn.Activate(nn.ReLU),
			nn.Conv(d, 1, 1, 0))...))
		s.tokens += grid(cam.cut.H, steps) * grid(cam.cut.W, steps)
	}
	if c.Keypoints > 0 {
		branches = append(branches, nn.Sequence(nn.SpatialSoftmax(), nn.Dense(c.Keypoints*d)))
		s.tokens += c.Keypoints
	}
	if len(branches) == 0 {
		return tokens, nil
	}
	return append(tokens, nn.Sequence(append(shared, nn.Concat(branches...))...)), nil
}

// filmWidth is how many features of a sentence choose those of images.
const filmWidth = 32

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
