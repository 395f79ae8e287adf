package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// observations turns named observations into rows of numbers: vectors concatenated in the order of the environment's spec, and normalised
// by running statistics, which are part of the parameters and stay as they are while a policy acts and learns. Images and words, for policies with
// an encoder, stay as they are.
type observations struct {
	fields  []env.Field // all
	vectors []env.Field // boxes of F32
	images  []imageShape
	words   []env.Field // of I32
	choices nn.Choices  // of the words together
	width   int         // of the vectors together
	clip    float32

	params *nn.Params[float32] // holds the statistics; nil: no normalisation
}

const (
	obsMean  = "obs.mean"  // [width]
	obsVar   = "obs.var"   // [width]
	obsCount = "obs.count" // [1]

	obsVariance = 1e-8 // added to the variance before the square root
)

func newObservations(fields []env.Field, cfg Config, params *nn.Params[float32]) (*observations, error) {
	o := &observations{fields: fields, clip: float32(cfg.ObsClip)}
	for _, f := range fields {
		switch {
		case f.Kind == env.Box && f.DType == tensor.F32:
			o.vectors = append(o.vectors, f)
			o.width += f.Dim()
		case cfg.Encoder == "" && f.DType == tensor.U8:
			return nil, fmt.Errorf("observation %q: images (%v%v): %s wants vectors of F32; cnn_policy takes images", f.Name, f.DType, f.Shape, cfg.ModelType)
		case cfg.Encoder == "":
			return nil, fmt.Errorf("observation %q: kind %d of %v: %s wants boxes of F32", f.Name, f.Kind, f.DType, cfg.ModelType)
		case f.Kind == env.Box && f.DType == tensor.U8:
			image, err := imageOf(f, cfg.Encoder)
			if err != nil {
				return nil, err
			}
			o.images = append(o.images, image)
		case f.DType == tensor.I32:
			if err := addWords(&o.choices, f); err != nil {
				return nil, err
			}
			o.words = append(o.words, f)
		default:
			return nil, fmt.Errorf("observation %q: kind %d of %v: cnn_policy wants boxes of F32, images of U8 and words of I32", f.Name, f.Kind, f.DType)
		}
	}
	if cfg.Encoder == "" && o.width == 0 {
		return nil, fmt.Errorf("observations: none: want at least one element")
	}
	if cfg.Encoder != "" && len(o.images) == 0 {
		return nil, fmt.Errorf("observations: no image: cnn_policy wants one of U8; mlp_policy takes vectors")
	}
	if cfg.ObsDim != 0 && cfg.ObsDim != o.width {
		return nil, fmt.Errorf("obs_dim: %d: want %d", cfg.ObsDim, o.width)
	}
	if cfg.NormalizeObservations && o.width > 0 {
		o.params = params
		params.AddBuffer(obsMean, o.width)
		params.AddBuffer(obsVar, o.width)
		params.AddBuffer(obsCount, 1)
	}
	return o, nil
}

// shape is what a network must know of them.
func (o *observations) shape() obsShape { return obsShape{o.width, o.images, o.choices} }

// init sets the statistics to those of nothing observed: mean 0, variance 1.
func (o *observations) init() {
	if o.params != nil {
		_, variance, _ := o.stats()
		for i := range variance {
			variance[i] = 1
		}
	}
}

func (o *observations) stats() (mean, variance, count []float64) {
	b := o.params.Buffers
	return b.Must(obsMean).F64(), b.Must(obsVar).F64(), b.Must(obsCount).F64()
}

// An obsWork holds one user's rows.
type obsWork struct {
	rows, mean, inv []float32

	images [][]uint8 // of the last read: views of what was observed
	words  []int32
}

func (o *observations) newWork(maxRows int) *obsWork {
	w := &obsWork{images: make([][]uint8, len(o.images)), words: make([]int32, maxRows*len(o.choices.Low))}
	if len(o.vectors) > 1 || o.params != nil {
		w.rows = nn.Vector[float32](maxRows * o.width)
	}
	if o.params != nil {
		w.mean, w.inv = make([]float32, o.width), make([]float32, o.width)
	}
	return w
}

// read returns the rows of obs' vectors, [n,width], and n: obs' own memory when there is nothing to do. It leaves images and words in w.
func (o *observations) read(w *obsWork, obs tensor.Dict, maxRows int) ([]float32, int, error) {
	n, err := o.check(obs, maxRows)
	if err != nil {
		return nil, 0, err
	}
	for i := range o.images {
		w.images[i] = obs.Must(o.images[i].name).U8()
	}
	if err := o.readWords(w, obs); err != nil {
		return nil, 0, err
	}
	if o.width == 0 {
		return nil, n, nil
	}
	x := obs.Must(o.vectors[0].Name).F32()
	if len(o.vectors) > 1 {
		off := 0
		for _, f := range o.vectors {
			width, part := f.Dim(), obs.Must(f.Name).F32()
			for row := range n {
				copy(w.rows[row*o.width+off:][:width], part[row*width:])
			}
			off += width
		}
		x = w.rows[:n*o.width]
	}
	if o.params != nil {
		mean, variance, _ := o.stats()
		for i := range mean {
			w.mean[i], w.inv[i] = float32(mean[i]), float32(1/math.Sqrt(variance[i]+obsVariance))
		}
		dst := w.rows[:n*o.width]
		kernel.Normalize(dst, x, w.mean, w.inv, n, o.width, o.clip)
		x = dst
	}
	return x, n, nil
}

// readWords lays the words of obs side by side.
func (o *observations) readWords(w *obsWork, obs tensor.Dict) error {
	places, at := len(o.choices.Low), 0
	for _, f := range o.words {
		n := f.Dim()
		for i, v := range obs.Must(f.Name).I32() {
			row, k := i/n, at+i%n
			if int(v) < o.choices.Low[k] || int(v) > o.choices.High[k] {
				return fmt.Errorf("observation %q: row %d, element %d: %d: want %d to %d", f.Name, row, i%n, v, o.choices.Low[k], o.choices.High[k])
			}
			w.words[row*places+k] = v
		}
		at += n
	}
	return nil
}

// check returns the number of rows of obs.
func (o *observations) check(obs tensor.Dict, maxRows int) (int, error) {
	n := -1
	for _, f := range o.fields {
		t, ok := obs.Get(f.Name)
		switch {
		case !ok:
			return 0, fmt.Errorf("observation %q: not in %v", f.Name, obs)
		case t.DType() != f.DType || t.Rank() < 1 || t.Len() != t.Dim(0)*f.Dim():
			return 0, fmt.Errorf("observation %q: %v: want %v[N %v]", f.Name, t, f.DType, f.Shape)
		case n >= 0 && t.Dim(0) != n:
			return 0, fmt.Errorf("observation %q: %d rows, %q has %d", f.Name, t.Dim(0), o.fields[0].Name, n)
		}
		n = t.Dim(0)
	}
	if n > maxRows {
		return 0, fmt.Errorf("%d rows: the work holds %d", n, maxRows)
	}
	return n, nil
}

func (o *observations) statsLen() int {
	if o.params == nil {
		return 0
	}
	return 1 + 2*o.width
}

// add adds to sums: the count, then Σ(x-m), then Σ(x-m)² of each element, with m the current mean: what is far from 0 and varies
// little then loses no digits.
func (o *observations) add(sums []float64, obs tensor.Dict) error {
	n, err := o.check(obs, math.MaxInt)
	if err != nil || o.params == nil {
		return err
	}
	mean, _, _ := o.stats()
	s1, s2 := sums[1:1+o.width], sums[1+o.width:1+2*o.width]
	sums[0] += float64(n)
	off := 0
	for _, f := range o.vectors {
		width, part := f.Dim(), obs.Must(f.Name).F32()
		for i, v := range part {
			k := off + i%width
			d := float64(v) - mean[k]
			s1[k] += d
			s2[k] += d * d
		}
		off += width
	}
	return nil
}

// merge joins the running mean and variance of count values with those of the n values in sums (Chan, Golub and LeVeque 1983):
//
//	δ = Σ(x-m)/n,    m' = m + δ n/(count+n),    M2' = M2 + Σ(x-m)² - n δ² + δ² n·count/(count+n),    var = M2/count
func (o *observations) merge(sums []float64) {
	n := sums[0]
	if o.params == nil || n == 0 {
		return
	}
	mean, variance, count := o.stats()
	c := count[0]
	for k := range mean {
		delta := sums[1+k] / n
		m2 := c*variance[k] + max(0, sums[1+o.width+k]-n*delta*delta) + delta*delta*n*c/(c+n)
		mean[k] += delta * n / (c + n)
		variance[k] = m2 / (c + n)
	}
	count[0] = c + n
}
