// Package nntest checks hand-written backward passes against finite differences.
package nntest

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
)

// A CheckResult is the result of a check. A check without values reports no difference, so tests must also assert
// Checked.
type CheckResult struct {
	Checked int     // number of values compared
	Worst   float64 // largest |analytic - numeric| / max(1, |analytic|, |numeric|)
	At      int     // index of the value with this difference
	Got     float64 // analytic derivative of this value
	Want    float64 // numeric derivative of this value
}

// Gradients compares grad with the central differences of loss for each element of x. loss reads x, and Gradients
// restores every element of x. The step is ∛ε·max(1,|x|), so that the truncation error and the rounding error are about
// equal.
func Gradients(x, grad []float64, loss func() float64) CheckResult {
	r := CheckResult{At: -1, Worst: -1}
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

// Params is Gradients for every parameter of p. p.Grad must hold the gradient. CheckResult.At is an index into p.Data.
// Params does not check the gaps between parameters.
func Params(p *nn.Params[float64], loss func() float64) CheckResult {
	return sampled(p, math.MaxInt, loss)
}

// sampled is Params for at most limit elements of each parameter tensor.
func sampled(p *nn.Params[float64], limit int, loss func() float64) CheckResult {
	all := CheckResult{At: -1, Worst: -1}
	grad := slices.Clone(p.Grad) // loss may also run the backward pass
	for i, f := range p.Fields {
		count := min(f.Len(), limit)
		for k := range count {
			at := k * f.Len() / count
			r := Gradients(p.Of(i)[at:at+1], grad[f.Off+at:f.Off+at+1], loss)
			all.Checked++
			if r.Worst > all.Worst || math.IsNaN(r.Worst) {
				r.At, r.Checked = f.Off+at, all.Checked
				all = r
			}
		}
	}
	return all
}
