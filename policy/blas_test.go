//go:build blas

package policy_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TestBLAS: a policy that computes by OpenBLAS has the values and gradients of a policy without it, except for
// rounding.
func TestBLAS(t *testing.T) {
	state := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{7}, Low: make([]float32, 7),
		High: make([]float32, 7)}
	spec := env.Spec{Name: "task", Obs: []env.Field{{Name: "state", Space: state}},
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}}
	const rows = 50
	var obs tensor.Dict
	obs.Set("state", tensor.New(tensor.F32, rows, 7))
	for i := range obs.Must("state").F32() {
		obs.Must("state").F32()[i] = float32(math.Sin(float64(i)))
	}
	action, one := tensor.New(tensor.I32, rows, 1, 1), tensor.New(tensor.F32, rows, 1)
	for i := range rows {
		action.I32()[i], one.F32()[i] = int32(i%3), 1
	}
	run := func(blas bool) (values, grad []float32) {
		cfg := policy.DefaultConfig()
		cfg.BLAS = blas
		pol := test.Must(policy.NewMLP(cfg, spec, 1, tensor.Heap))(t)
		w := pol.NewWork(rows)
		eval := test.Must(pol.Evaluate(w, obs, action))(t)
		values = append(append(values, eval.LogProb.F32()...), eval.Value.F32()...)
		test.OK(t, pol.Backward(w, policy.Grad{LogProb: one, Value: one}, nil))
		return values, pol.Params().Grad
	}
	wantV, wantG := run(false)
	gotV, gotG := run(true)
	differs := false
	for _, x := range []struct{ got, want []float32 }{{gotV, wantV}, {gotG, wantG}} {
		for i := range x.want {
			differs = differs || x.got[i] != x.want[i]
			if d := math.Abs(float64(x.got[i] - x.want[i])); d > 1e-4*(1+math.Abs(float64(x.want[i]))) {
				t.Fatalf("element %d: %v, want %v", i, x.got[i], x.want[i])
			}
		}
	}
	if !differs {
		t.Log("OpenBLAS gives the very same bits here")
	}
}
