package env_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
)

func TestMixWeights(t *testing.T) {
	names := []string{"reach", "push", "pick"}
	for _, c := range []struct {
		mix  env.Mix
		want []float64
	}{{nil, []float64{1, 1, 1}}, {env.Mix{"pick": 2.5, "reach": 0}, []float64{0, 0, 2.5}}} {
		if got, err := c.mix.Weights(names); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v, want %v", c.mix, got, err, c.want)
		}
	}
	for _, mix := range []env.Mix{{"jump": 1}, {"pick": -1}, {"pick": math.NaN()}, {"pick": math.Inf(1)}, {"pick": 0}} {
		if got, err := mix.Weights(names); err == nil {
			t.Errorf("%v: %v, want an error", mix, got)
		}
	}
}
