package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// observations converts named observations to rows of numbers. A row has the numbers of all boxes, in the order of
// the environment's spec, and then the one-hot codes of all choices, in the same order. Bytes are scaled from their
// bounds to [0, 1].
//
// Running statistics may normalise the numbers, but never the choices. The statistics are part of the parameters. They
// stay constant while a policy acts and learns. An encoder gets images and choices unchanged. An action mask is not
// part of a row; it only limits the choice of actions.
type observations struct {
	name    string      // of the environment
	fields  []env.Field // all observations
	action  env.Space
	masked  bool      // fields include an action mask
	vectors []numeric // boxes of numbers
	numbers int       // number of elements of all vectors
	images  []Camera
	words   []env.Field // choices, of I32
	choices nn.Choices  // the elements of all words
	oneHot  []int       // the column of option 0 of each choice; nil if an encoder reads the choices
	encoder string      // Config.Encoder
	own     *nn.Layer   // the user's own layers for features; nil without such layers
	width   int         // of a row
	clip    float32

	params     *nn.Params[float32]
	normalizes bool // whether the buffers of params have statistics
}

// A numeric is an observation of numbers.
type numeric struct {
	env.Field
	low, scale []float32 // for U8: byte b stands for the number (b-low)·scale; nil for F32
}

// maxOptions is the largest allowed number of options of all observed choices together.
const maxOptions = 1 << 16

// newObservations returns a converter for the observations of spec. It adds buffers for statistics to params. If
// encoder is not nil, its layers compute the features.
func newObservations(spec env.Spec, cfg Config, encoder *nn.Layer, params *nn.Params[float32]) (*observations, error) {
	o := &observations{name: spec.Name, fields: spec.Obs, action: spec.Action, clip: float32(cfg.ObsClip), own: encoder,
		params: params}
	if encoder != nil {
		cfg.Encoder = ownEncoder
	}
	o.encoder = cfg.Encoder
	var images []env.Field
	for _, f := range spec.Obs {
		switch {
		case f.Name == env.ActionMask:
			if err := spec.CheckMask(); err != nil {
				return nil, err
			}
			o.masked = true
		case f.Kind == env.Box && f.DType == tensor.U8 && isImage(f, cfg):
			if cfg.Encoder == "" {
				return nil, fmt.Errorf("observation %q: images (%v%v): %s wants numbers and choices; cnn_policy "+
					"takes images", f.Name, f.DType, f.Shape, cfg.ModelType)
			}
			images = append(images, f)
		case f.Kind == env.Box && (f.DType == tensor.F32 || f.DType == tensor.U8):
			v, err := numericOf(f)
			if err != nil {
				return nil, err
			}
			o.vectors = append(o.vectors, v)
			o.numbers += f.Dim()
		case f.DType == tensor.I32:
			if err := addWords(&o.choices, f); err != nil {
				return nil, err
			}
			o.words = append(o.words, f)
		default:
			return nil, fmt.Errorf("observation %q: kind %d of %v: expected a box of F32 or U8, or choices of I32",
				f.Name, f.Kind, f.DType)
		}
	}
	var err error
	if o.images, err = camerasOf(images, cfg); err != nil {
		return nil, err
	}
	for i := range o.images {
		o.images[i].span = pixelSpan(cfg, spec)
	}
	o.width = o.numbers
	options := 0
	for k, low := range o.choices.Low {
		if cfg.Encoder == "" {
			o.oneHot = append(o.oneHot, o.numbers+options-low)
		}
		options += o.choices.High[k] - low + 1
	}
	if options > maxOptions {
		return nil, fmt.Errorf("observations: choices with %d options together: expected at most %d; numbers are "+
			"boxes of F32", options, maxOptions)
	}
	if cfg.Encoder == "" {
		o.width += options
	}
	if cfg.Encoder == "" && o.width == 0 {
		return nil, fmt.Errorf("observations: none: expected at least one element")
	}
	if cfg.Encoder != "" && encoder == nil && len(o.images) == 0 {
		return nil, fmt.Errorf("observations: no image: cnn_policy wants one of U8; mlp_policy takes vectors")
	}
	if cfg.ObsDim != 0 && cfg.ObsDim != o.width {
		return nil, env.KeyErrors{{Key: "obs_dim",
			Reason: fmt.Sprintf("%d, but the observations have %d elements", cfg.ObsDim, o.width)}}
	}
	if n := cfg.StateDim; cfg.AddQHead && n != 0 && n != o.numbers {
		return nil, env.KeyErrors{{Key: "state_dim",
			Reason: fmt.Sprintf("%d, but the observations have %d numbers", n, o.numbers)}}
	}
	if o.normalizes = cfg.NormalizeObservations && o.numbers > 0; o.normalizes {
		params.AddBuffer(obsMean, o.numbers)
		params.AddBuffer(obsVar, o.numbers)
		params.AddBuffer(obsCount, 1)
	}
	return o, nil
}

// pixelSpan returns the numbers that stand for the bytes 0 and 255. Critics of continuous actions see numbers with
// about mean 0 and deviation 1, because convolutions learn several times faster from these than from numbers in [0, 1].
func pixelSpan(cfg Config, spec env.Spec) [2]float64 {
	if cfg.AddQHead && spec.Action.Kind == env.Box {
		return [2]float64{-2, 2}
	}
	return [2]float64{0, 1}
}

// isImage reports whether the bytes of f are an image. Bytes with one dimension are numbers. Without an encoder, bytes
// with two dimensions can also be numbers: stacked frames.
func isImage(f env.Field, cfg Config) bool {
	return len(f.Shape) > 2 || len(f.Shape) == 2 && cfg.Encoder != ""
}

func numericOf(f env.Field) (numeric, error) {
	v := numeric{Field: f}
	if f.DType != tensor.U8 {
		return v, nil
	}
	if n := f.Dim(); len(f.Low) != n || len(f.High) != n {
		return v, fmt.Errorf("observation %q: %d and %d bounds of bytes: expected %d", f.Name, len(f.Low), len(f.High),
			n)
	}
	v.low, v.scale = f.Low, make([]float32, len(f.Low))
	for k, low := range f.Low {
		high := f.High[k]
		if !(low >= 0 && high <= math.MaxUint8) {
			return v, fmt.Errorf("observation %q: element %d is in [%v, %v]: expected bounds of bytes in [0, 255]",
				f.Name, k, low, high)
		}
		if high > low {
			v.scale[k] = 1 / (high - low)
		}
	}
	return v, nil
}

// number converts b, a byte of element k, to a number.
func (v *numeric) number(b uint8, k int) float32 { return (float32(b) - v.low[k]) * v.scale[k] }

// shape describes the observations for a network.
func (o *observations) shape() obsShape {
	switch {
	case o.own != nil:
		return obsShape{numbers: o.numbers, encoder: o.own, sources: o.sources()}
	case o.oneHot == nil && len(o.images) > 0:
		encoder, sources := newEncoder(o.encoder, o.numbers, o.images, o.choices)
		return obsShape{numbers: o.numbers, encoder: &encoder, sources: sources}
	}
	return obsShape{numbers: o.width}
}

// sources returns the inputs that the user's own layers can refer to by name: normalised numbers, images and choices.
func (o *observations) sources() []nn.Source {
	var sources []nn.Source
	for i := range o.vectors {
		sources = append(sources, nn.Source{Name: o.vectors[i].Name, Width: o.vectors[i].Dim()})
	}
	for _, s := range o.images {
		sources = append(sources, s.source())
	}
	at := 0
	for _, f := range o.words {
		n := f.Dim()
		choices := nn.Choices{Low: o.choices.Low[at : at+n], High: o.choices.High[at : at+n]}
		sources = append(sources, nn.Source{Name: f.Name, Choices: choices})
		at += n
	}
	return sources
}

// An obsWork holds the rows of observations for one user, such as an actor or a critic.
type obsWork struct {
	rows, mean, inv []float32 // rows: only the numbers, [n,numbers]
	wide            []float32 // [n,width], numbers and one-hot codes

	images [][]uint8 // images of the last read; views of the observations, or of copies
	copies [][]uint8 // [maxRows,Frames,H,W,C] for each Camera with several Views
	words  []int32
	mask   []uint8 // [n,ΣNvec], a view of the observations; nil allows every option
}

// batch returns a batch of the n rows of the last read. Its numbers are x.
func (w *obsWork) batch(x []float32, n int) batch[float32] {
	return batch[float32]{nn.Batch[float32]{Rows: n, Numbers: x, Images: w.images, Choices: w.words}, w.mask}
}

func (o *observations) newWork(maxRows int) *obsWork {
	w := &obsWork{images: make([][]uint8, len(o.images)), words: make([]int32, maxRows*len(o.choices.Low))}
	for _, c := range o.images {
		var mem []uint8
		if c.Views > 1 {
			mem = make([]uint8, maxRows*c.Frames*c.Image.Len())
		}
		w.copies = append(w.copies, mem)
	}
	if !o.alone() || o.normalizes {
		w.rows = nn.Vector[float32](maxRows * o.numbers)
	}
	if o.oneHot != nil {
		w.wide = nn.Vector[float32](maxRows * o.width)
	}
	if o.normalizes {
		w.mean, w.inv = make([]float32, o.numbers), make([]float32, o.numbers)
	}
	return w
}

// read returns the rows of obs, [n,width], and n. It sets images, words and mask in w. If no conversion is
// necessary, the rows share the memory of obs.
func (o *observations) read(w *obsWork, obs tensor.Dict, maxRows int) ([]float32, int, error) {
	n, err := Rows(o.fields, obs, maxRows)
	if err != nil {
		return nil, 0, err
	}
	for i, c := range o.images {
		w.images[i] = c.bytes(w.copies[i], obs.Must(c.Name), n)
	}
	if err := o.readWords(w, obs); err != nil {
		return nil, 0, err
	}
	if err := o.readMask(w, obs, n); err != nil {
		return nil, 0, err
	}
	x := o.readNumbers(w, obs, n)
	if o.oneHot == nil {
		return x, n, nil
	}
	places := len(o.oneHot)
	for i := range n {
		row := w.wide[i*o.width : (i+1)*o.width]
		copy(row, x[i*o.numbers:(i+1)*o.numbers])
		clear(row[o.numbers:])
		for k, choice := range w.words[i*places : (i+1)*places] {
			row[o.oneHot[k]+int(choice)] = 1
		}
	}
	return w.wide[:n*o.width], n, nil
}

// alone reports whether one observation of F32 holds all numbers of a row.
func (o *observations) alone() bool { return len(o.vectors) == 1 && o.vectors[0].low == nil }

// readNumbers returns the numbers of n rows of obs, [n,numbers].
func (o *observations) readNumbers(w *obsWork, obs tensor.Dict, n int) []float32 {
	var x []float32
	if o.alone() {
		x = obs.Must(o.vectors[0].Name).F32()
	} else {
		x = w.rows[:n*o.numbers]
		off := 0
		for i := range o.vectors {
			v := &o.vectors[i]
			v.read(o.params.Host(), x[off:], o.numbers, obs.Must(v.Name), n)
			off += v.Dim()
		}
	}
	if !o.normalizes {
		return x
	}
	mean, variance, _ := o.stats()
	for i := range mean {
		w.mean[i], w.inv[i] = float32(mean[i]), float32(1/math.Sqrt(variance[i]+obsVariance))
	}
	rows := w.rows[:n*o.numbers]
	o.params.Host().Normalize(rows, x, w.mean, w.inv, n, o.numbers, o.clip)
	return rows
}

// read copies the numbers of t to the first columns of n rows of dst. The rows of dst begin stride elements apart.
func (v *numeric) read(o nn.Ops[float32], dst []float32, stride int, t tensor.Tensor, n int) {
	width := v.Dim()
	if v.low == nil {
		o.CopyColumns(dst, stride, t.F32(), width, width, n)
		return
	}
	for i, b := range t.U8() {
		dst[i/width*stride+i%width] = v.number(b, i%width)
	}
}

// readWords checks the words of obs and copies them to w, side by side.
func (o *observations) readWords(w *obsWork, obs tensor.Dict) error {
	places, at := len(o.choices.Low), 0
	for _, f := range o.words {
		n := f.Dim()
		for i, v := range obs.Must(f.Name).I32() {
			row, k := i/n, at+i%n
			if int(v) < o.choices.Low[k] || int(v) > o.choices.High[k] {
				return fmt.Errorf("observation %q: row %d, element %d: %d: expected %d to %d", f.Name, row, i%n, v,
					o.choices.Low[k], o.choices.High[k])
			}
			w.words[row*places+k] = v
		}
		at += n
	}
	return nil
}

// Rows returns the number of rows of obs. It returns an error if a field is missing or has another type or
// shape, or if obs has more than maxRows rows.
func Rows(fields []env.Field, obs tensor.Dict, maxRows int) (int, error) {
	n := -1
	for _, f := range fields {
		t, ok := obs.Get(f.Name)
		switch {
		case !ok:
			return 0, fmt.Errorf("observation %q: not in %v", f.Name, obs)
		case t.DType() != f.DType || t.Rank() < 1 || t.Len() != t.Dim(0)*f.Dim():
			return 0, fmt.Errorf("observation %q: %v: expected %v[N %v]", f.Name, t, f.DType, f.Shape)
		case n >= 0 && t.Dim(0) != n:
			return 0, fmt.Errorf("observation %q: %d rows, %q has %d", f.Name, t.Dim(0), fields[0].Name, n)
		}
		n = t.Dim(0)
	}
	if n > maxRows {
		return 0, fmt.Errorf("%d rows: the work holds %d", n, maxRows)
	}
	return n, nil
}
