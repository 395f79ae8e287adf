package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// observations describes the observations of a policy: images, numbers and a text.
type observations struct {
	fields  []env.Field
	cameras []camera
	numbers []numbers
	width   int      // number of all numbers
	text    string   // name of the observed text; empty if no text is observed
	length  int      // number of bytes of a text, or of words if words is not nil
	words   []string // the words of instructions; an observed number is an index into words; nil if texts are bytes

	// Sizes for the vision network.
	tokens     int // number of tokens of a row
	predicted  int // number of outputs of the auxiliary prediction; they follow the tokens
	readable   int // maximum number of tokens of a text, for a vision network that reads texts; else 0
	vocabulary int // number of tokens of the vocabulary
}

// A camera is an observation of images: bytes [H,W,3] or [frames,H,W,3]. The policy sees whole images, or a part of
// each image.
type camera struct {
	name       string
	frames     int
	whole, cut nn.Image // one frame, and the part that the policy sees
}

// numbers is an observation of numbers.
type numbers struct {
	name  string
	width int
}

// newObservations returns the description of the observations of spec.
func newObservations(spec env.Spec, c *Config) (*observations, error) {
	s := &observations{fields: spec.Obs}
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

// newCamera returns the description of an observation of images. crop is the share of an image's area that the policy
// sees.
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

// newImages returns the arguments images and cropped of readImages, with an element for each camera. An element of
// cropped is memory for the parts of images that the policy sees, [rows, frames, H, W, C]. It is nil if the policy sees
// whole images.
func (s *observations) newImages(rows int) (images, cropped [][]uint8) {
	images, cropped = make([][]uint8, len(s.cameras)), make([][]uint8, len(s.cameras))
	for i, c := range s.cameras {
		if c.cut != c.whole {
			cropped[i] = make([]uint8, rows*c.frames*c.cut.Len())
		}
	}
	return images, cropped
}

// readImages sets images to the part of each image that the policy sees. This is the middle of the image, or a random
// part that is drawn from b.augment. If the policy sees whole images, readImages does not copy them.
func (s *observations) readImages(images, cropped [][]uint8, b batch) {
	for i := range s.cameras {
		c := &s.cameras[i]
		whole, cut := c.frames*c.whole.Len(), c.frames*c.cut.Len()
		images[i] = b.obs.Must(c.name).U8()[b.lo*whole : (b.lo+b.n)*whole]
		if cropped[i] == nil {
			continue
		}
		for row := range b.n {
			top, left := (c.whole.H-c.cut.H)/2, (c.whole.W-c.cut.W)/2
			if len(b.augment.Env) > 0 {
				draw := philox.New(b.augment.Seed, philox.Crop, b.augment.Env[b.lo+row], b.augment.Step[b.lo+row])
				top, left = draw.IntN(c.whole.H-c.cut.H+1), draw.IntN(c.whole.W-c.cut.W+1)
			}
			c.crop(cropped[i][row*cut:(row+1)*cut], images[i][row*whole:(row+1)*whole], top, left)
		}
		images[i] = cropped[i]
	}
}

// crop sets dst to a part of src, the images of one row. The first pixel of the part is (top, left).
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

// readText returns the tokens of the text of a row, or nil if no text is observed.
func (s *observations) readText(r *reader, obs tensor.Dict, row int) ([]int32, error) {
	switch {
	case s.text == "":
		return nil, nil
	case s.words != nil:
		return r.readWords(obs.Must(s.text).I32()[row*s.length:(row+1)*s.length], s.words)
	}
	return r.read(obs.Must(s.text).U8()[row*s.length : (row+1)*s.length])
}

// Names of the buffers that hold the mean and the deviation of each number, for normalisation.
const (
	numbersMean      = "numbers.mean"
	numbersDeviation = "numbers.deviation"
)

// minDeviation is the smallest deviation, for numbers that never change in demonstrations.
const minDeviation = 1e-3

func (s *observations) addBuffers(p *nn.Params[float32]) {
	if s.width > 0 {
		p.AddBuffer(numbersMean, s.width)
		p.AddBuffer(numbersDeviation, s.width)
	}
}

func (s *observations) init(p *nn.Params[float32]) {
	if s.width > 0 {
		_, deviation := s.stats(p)
		for k := range deviation {
			deviation[k] = 1
		}
	}
}

func (s *observations) stats(p *nn.Params[float32]) (mean, deviation []float64) {
	return p.Buffers.Must(numbersMean).F64(), p.Buffers.Must(numbersDeviation).F64()
}

// fit computes the mean and the deviation of each number from demonstrations.
func (s *observations) fit(p *nn.Params[float32], obs tensor.Dict) error {
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
			mean[at+k], deviation[at+k] = m, max(math.Sqrt(square/rows), minDeviation)
		}
		at += n.width
	}
	return nil
}

// readNumbers sets dst, [n, numbers], to the normalised numbers of b.
func (s *observations) readNumbers(dst []float32, p *nn.Params[float32], b batch) {
	if s.width == 0 {
		return
	}
	mean, deviation := s.stats(p)
	at := 0
	for _, num := range s.numbers {
		x := b.obs.Must(num.name).F32()[b.lo*num.width:]
		for i := range b.n {
			row := dst[i*s.width+at:][:num.width]
			for k := range row {
				row[k] = float32((float64(x[i*num.width+k]) - mean[at+k]) / deviation[at+k])
			}
		}
		at += num.width
	}
}
