package nntest

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// perTensor is the largest number of elements of a parameter tensor that Layer compares. Networks for
// images have too many elements to compare all of them.
const perTensor = 25

// Layer makes a network from l in float64, with random parameters and inputs. It compares the gradient of the loss Σ
// c·y + ½y² with central differences, for at most 25 elements of every parameter tensor. Networks with a state read two
// sequences of three steps. In one sequence an episode begins at the second step. Layer returns an error if l does not
// fit its input, if ready was not called for a parameter, or if a derivative differs by more than 1e-6.
func Layer(l nn.Layer, sources []nn.Source) (CheckResult, error) {
	t, err := newTrial(l, sources, 2)
	if err != nil {
		return CheckResult{}, err
	}
	p, net, batch := t.p, t.net, t.batch
	w, weight := net.NewWork(batch.Rows), draw(batch.Rows*net.Out, 1001)
	loss := func() float64 {
		var sum float64
		for i, y := range net.Forward(w, batch) {
			sum += weight[i]*y + 0.5*y*y
		}
		return sum
	}
	end := len(p.Data)
	ready := func(lo, hi int) {
		if hi != end && err == nil {
			err = fmt.Errorf("gradients [%d,%d) are ready before those up to %d", lo, hi, end)
		}
		end = lo
	}
	other := batch // a first pass over this batch fills every buffer
	other.Choices = randomBatch(sources, batch.Rows, -1).Choices
	for _, pass := range []struct {
		batch nn.Batch[float64]
		ready func(lo, hi int)
	}{{other, nil}, {batch, ready}} {
		clear(p.Grad)
		y := net.Forward(w, pass.batch)
		dy := net.OutGrad(w)
		for i := range dy {
			dy[i] = weight[i] + y[i]
		}
		net.Backward(w, nil, pass.ready)
	}
	if err == nil && end != 0 {
		err = fmt.Errorf("gradients [0,%d) are never ready", end)
	}
	r := sampled(p, perTensor, loss)
	if err == nil && !(r.Worst < 1e-6) {
		err = fmt.Errorf("parameter %s: derivative %v, by differences %v", fieldAt(p, r.At), r.Got, r.Want)
	}
	return r, err
}

// A trial is a network with random parameters, and a random batch of steps·sequences rows for it.
type trial struct {
	p     *nn.Params[float64]
	net   *nn.Net[float64]
	batch nn.Batch[float64]
}

const steps = 3

func newTrial(l nn.Layer, sources []nn.Source, sequences int) (trial, error) {
	p := new(nn.Params[float64])
	p.Group("layer")
	net, err := nn.NewNet(p, "layer", l, sources)
	if err != nil {
		return trial{}, err
	}
	if err := p.Alloc(tensor.Heap); err != nil {
		return trial{}, err
	}
	net.Init(1)
	for i := range p.Fields { // parameters of 0 would hide errors in the gradients of their factors
		for k, z := range draw(p.Fields[i].Len(), uint64(i)) {
			p.Of(i)[k] += 0.1 * z
		}
	}
	batch := randomBatch(sources, steps*sequences, 1)
	batch.Sequences = sequences
	batch.State = draw(sequences*net.State, 1000)
	batch.Next = make([]float64, sequences*net.State)
	batch.Begins = make([]byte, batch.Rows)
	batch.Begins[sequences] = 1 // the second step of the first sequence
	return trial{p, net, batch}, nil
}

// Calls returns how often a forward and a backward pass of l call each method of Ops. The passes cover three steps of
// the given number of sequences.
func Calls(l nn.Layer, sources []nn.Source, sequences int) (map[string]int, error) {
	t, err := newTrial(l, sources, sequences)
	if err != nil {
		return nil, err
	}
	counter, w := Count(t.p), t.net.NewWork(t.batch.Rows)
	copy(t.net.OutGrad(w), t.net.Forward(w, t.batch))
	t.net.Backward(w, nil, nil)
	return counter.Calls, nil
}

// Own reports whether l computes something by itself: whether an output is not 0 although the Ops are idle.
func Own(l nn.Layer, sources []nn.Source) (bool, error) {
	t, err := newTrial(l, sources, 2)
	if err != nil {
		return false, err
	}
	Count(t.p).Idle = true
	y := t.net.Forward(t.net.NewWork(t.batch.Rows), t.batch)
	return slices.ContainsFunc(y, func(x float64) bool { return x != 0 }), nil
}

// randomBatch returns random inputs, with the given number of rows of every source. In row emptyRow all choices are the
// lowest option, so that the sentences of this row have no words.
func randomBatch(sources []nn.Source, rows, emptyRow int) nn.Batch[float64] {
	b := nn.Batch[float64]{Rows: rows}
	numbers, key := 0, uint64(2000)
	for _, s := range sources {
		if s.Image.C == 0 && len(s.Choices.Low) == 0 {
			numbers += s.Width
		}
		if s.Image.C > 0 {
			key++
			image := make([]byte, rows*s.Frames*s.Image.Len())
			for i, z := range draw(len(image), key) {
				image[i] = byte(128 + 50*math.Tanh(z))
			}
			b.Images = append(b.Images, image)
		}
		if n := s.Map.Len(); n > 0 {
			key++
			b.Maps = append(b.Maps, draw(rows*n, key))
		}
	}
	b.Numbers = draw(rows*numbers, 3000)
	for row := range rows {
		for _, s := range sources {
			for k, low := range s.Choices.Low {
				option := (row + k) % (s.Choices.High[k] - low + 1)
				if row == emptyRow {
					option = 0
				}
				b.Choices = append(b.Choices, int32(low+option))
			}
		}
	}
	return b
}

// draw returns n standard normal numbers.
func draw(n int, key uint64) []float64 {
	s, x := philox.New(1, philox.Init, 1<<32+key, 0), make([]float64, n)
	for i := range x {
		x[i], _ = s.Normal()
	}
	return x
}

// fieldAt returns a name for p.Data[index]: its field and its index in this field.
func fieldAt(p *nn.Params[float64], index int) string {
	for _, f := range p.Fields {
		if index >= f.Off && index < f.Off+f.Len() {
			return fmt.Sprintf("%s[%d]", f.Name, index-f.Off)
		}
	}
	return "none"
}
