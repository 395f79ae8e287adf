package vla_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/policy/vla"
)

// TestCalls: the number of calls of nn.Ops does not depend on the rows, except for convolutions of bytes, and for
// pointing, which has a product for each image.
func TestCalls(t *testing.T) {
	onVariants(t, func(t *testing.T, cfg policy.Config, own vla.Config) {
		p := newPolicy(t, cfg, own)
		counter := nntest.Count(p.Params())
		calls := func(rows int) map[string]int {
			counter.Calls = map[string]int{}
			obs, act := sample(t, p, rows, 1)
			w := p.NewWork(rows)
			eval := evaluate(t, p, w, with(obs, act), act.Action)
			test.OK(t, p.Backward(w, policy.Grad{LogProb: eval.LogProb, Entropy: eval.Entropy, Value: eval.Value},
				func(lo, hi int) {}))
			maps.DeleteFunc(counter.Calls, func(call string, _ int) bool {
				return strings.HasPrefix(call, "Conv") ||
					own.VisionWords && (call == "Transpose" || call == "Product" || call == "Gradient")
			})
			return counter.Calls
		}
		if few, many := calls(2), calls(5); !maps.Equal(few, many) || few["AddColumns"] == 0 {
			t.Errorf("calls %v, but with more rows %v", few, many)
		}
	})
}
