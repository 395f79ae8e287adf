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
	return all
}

// network describes what makes tokens of width d, side by side: of each camera in turn those of a
// grid of convolutions or of patches (Dosovitskiy et al. 2021, arXiv:2010.11929), then keypoints,
// then one of all numbers.
func (s *senses) network(c *Config, d int) (nn.Layer, error) {
	var parts []nn.Layer
	s.tokens = 0
	for _, cam := range s.cameras {
		stem, points, err := stem(&cam, c, d)
		if err != nil {
			return nn.Layer{}, err
		}
		if c.Vision == Patches {
			size := max(cam.cut.H, cam.cut.W) / c.VisionGrid
			parts = append(parts, nn.Sequence(nn.Input(cam.name), nn.Conv(d, size, size, 0)))
			s.tokens += (cam.cut.H / size) * (cam.cut.W / size)
		} else {
			parts = append(parts, nn.Sequence(append(stem, nn.Conv(d, 1, 1, 0))...))
			s.tokens += grid(cam.cut.H, len(stem)/2) * grid(cam.cut.W, len(stem)/2)
		}
		if c.Keypoints > 0 {
			parts = append(parts, nn.Sequence(append(points, nn.SpatialSoftmax(), nn.Dense(c.Keypoints*d))...))
			s.tokens += c.Keypoints
		}
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

// stem returns convolutions of stride 2 down to the image tokens of a camera, and those for its
// keypoints: two of stride 2, and one more that leaves the places as fine as they are.
func stem(cam *camera, c *Config, d int) (layers, points []nn.Layer, err error) {
	width := c.VisionWidth
	layers = append(layers, nn.Input(cam.name))
	points = append(points, nn.Input(cam.name))
	n := 0
	for side := max(cam.cut.H, cam.cut.W); side > c.VisionGrid; side = (side + 1) / 2 {
		layers = append(layers, nn.Conv(min(width, d), 3, 2, 1), nn.Activate(nn.ReLU))
		if n < 2 {
			points = append(points, nn.Conv(width, 3, 2, 1), nn.Activate(nn.ReLU))
		}
		width *= 2
		n++
	}
	if n == 0 {
		return nil, nil, fmt.Errorf("observation %q: %d×%d pixels: want more than vision_grid, %d, on a side", cam.name,
			cam.cut.H, cam.cut.W, c.VisionGrid)
	}
	return layers, append(points, nn.Conv(2*c.VisionWidth, 3, 1, 1), nn.Activate(nn.ReLU)), nil
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
