package env

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Mix maps names to weights. In YAML it is a map from name to weight, or a list of names with weight 1.
type Mix map[string]float64

// AddWeight sets the weight of a name. The decoder of the configuration calls it for each item.
func (m *Mix) AddWeight(name string, weight float64) {
	if *m == nil {
		*m = Mix{}
	}
	(*m)[name] = weight
}

// Weights returns the weight of each name in names. A name that m lacks has weight 0. If m is
// empty, every name has weight 1. Weights returns an error if m has a name that is not in names, if
// a weight is not a number ≥ 0, or if all weights are 0.
func (m Mix) Weights(names []string) ([]float64, error) {
	weights, sum := make([]float64, len(names)), 0.0
	for _, name := range slices.Sorted(maps.Keys(m)) {
		w := m[name]
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q, expected some of %s", name, strings.Join(names, ", "))
		}
		if !(w >= 0) || w-w != 0 {
			return nil, fmt.Errorf("%s: weight %v, expected a number ≥ 0", name, w)
		}
		sum += w
	}
	if len(m) > 0 && sum == 0 {
		return nil, fmt.Errorf("the weights are all 0, expected one that is not")
	}
	for i, name := range names {
		weights[i] = m[name]
		if len(m) == 0 {
			weights[i] = 1
		}
	}
	return weights, nil
}
