// Package nntest checks hand-written backward passes against finite differences.
package nntest

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// A Report says what a check compared. A check that compared nothing proves nothing, so tests
// assert Checked as well as Worst.
type Report struct {
	Checked int
	Worst   float64 // largest |analytic - numeric| / max(1, |analytic|, |numeric|)
	At      int     // index of that value
	Got     float64 // its analytic derivative
	Want    float64 // its numeric one
}

// Gradients compares grad with the central differences of loss by each element of x, which loss
// reads and which is left as it was. The step is ∛ε·max(1,|x|), where the truncation error and
// the rounding error are about equal.
func Gradients(x, grad []float64, loss func() float64) Report {
	r := Report{At: -1, Worst: -1}
	for i, at := range x {
		h := math.Cbrt(0x1p-52) * max(1, math.Abs(at))
		x[i] = at + h
		up := loss()
		x[i] = at - h
		down := loss()
		x[i] = at
		want := (up - down) / (2 * h)
		worse := math.Abs(grad[i]-want) / max(1, math.Abs(grad[i]), math.Abs(want))
		if worse > r.Worst || math.IsNaN(worse) {
			r.Worst, r.At, r.Got, r.Want = worse, i, grad[i], want
		}
		r.Checked++
	}
	return r
}

// Params compares like Gradients, for every parameter of p, whose Grad the caller has filled in.
// At is an index into p.Data. The gaps between parameters are not checked.
func Params(p *nn.Params[float64], loss func() float64) Report {
	all := Report{At: -1, Worst: -1}
	grad := append([]float64(nil), p.Grad...) // loss may run the backward pass too
	for i, f := range p.Fields {
		r := Gradients(p.Of(i), grad[f.Off:f.Off+f.Len()], loss)
		all.Checked += r.Checked
		if r.Worst > all.Worst || math.IsNaN(r.Worst) {
			r.At += f.Off
			r.Checked = all.Checked
			all = r
		}
	}
	return all
}
