package policy

import (
	"maps"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn/nntest"
)

// TestCalls: the number of calls of nn.Ops does not depend on the rows, except for the convolutions that read bytes a
// few images at a time.
func TestCalls(t *testing.T) {
	for name, p := range variants(t) {
		counter := nntest.Count(p.Params())
		calls := func(rows int) map[string]int {
			counter.Calls = map[string]int{}
			obs, noise := observe(p, rows)
			w := p.NewWork(rows)
			act := must[Act](t)(p.Forward(w, obs, Sample, noise)).clone()
			must[Eval](t)(p.Evaluate(w, obs, act.Action))
			test.OK(t, p.Backward(w, Grad{LogProb: act.LogProb, Entropy: act.LogProb, Value: act.Value}, nil))
			maps.DeleteFunc(counter.Calls, func(call string, _ int) bool { return strings.HasPrefix(call, "Conv") })
			return counter.Calls
		}
		if few, many := calls(2), calls(12); !maps.Equal(few, many) || few["Gradient"] == 0 {
			t.Errorf("%s: calls %v, but with more rows %v", name, few, many)
		}
	}
}
