package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Every Policy makes these checks. The calling method adds its own name to the errors.

// Check returns an error if Env or Step does not have one element for each row.
func (x Noise) Check(rows int) error {
	if len(x.Env) != rows || len(x.Step) != rows {
		return fmt.Errorf("noise for %d environments and %d steps: expected %d", len(x.Env), len(x.Step), rows)
	}
	return nil
}

// CheckFinite returns an error if a log-prob or a value is NaN or infinite. The error names the
// first such row.
func (a *Act) CheckFinite() error {
	n := a.Action.Dim(0)
	if err := finite(a.LogProb, "log-prob", n); err != nil {
		return err
	}
	return finite(a.Value, "value", n)
}

// finite returns an error if t, [n,…], has a NaN or an infinity. The error names the first such row.
func finite(t tensor.Tensor, what string, n int) error {
	x := t.F32()
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("row %d: %s is %v: its observation, or the parameters, are not finite", i*n/len(x), what,
				v)
		}
	}
	return nil
}

// Check returns an error if g.Action is set. Every other tensor of g must be the zero Tensor, or have the shape of the
// first n rows of the corresponding tensor of eval.
func (g Grad) Check(eval Eval, n int) error {
	if !g.Action.IsZero() {
		return fmt.Errorf("derivative by action: this policy learns by log-probs")
	}
	for _, d := range []struct {
		name     string
		by, like tensor.Tensor
	}{{"log-prob", g.LogProb, eval.LogProb}, {"entropy", g.Entropy, eval.Entropy}, {"value", g.Value, eval.Value}} {
		if !d.by.IsZero() && (d.like.IsZero() || !d.by.SameShape(d.like.Slice(0, n))) {
			return fmt.Errorf("derivative by %s %v of %d rows of %v", d.name, d.by, n, d.like)
		}
	}
	return nil
}
