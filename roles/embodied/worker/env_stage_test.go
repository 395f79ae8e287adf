package worker

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// TestStatusTravels: the rows of a step arrive over a route with their status, with and without figures.
func TestStatusTravels(t *testing.T) {
	spec := env.Spec{Info: []string{"success"}}
	step := spec.NewStep(3, 1)
	copy(step.Status.U8(), []byte{0, env.Aborted, env.NoEpisode})
	copy(step.Info.F32(), []float32{1, 2, 3})
	fields := []tensor.Field{{Name: "reward", DType: tensor.F32, Shape: []int{2, 1}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{2, 1}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{2, 1}}}
	status := tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{2}}
	info := tensor.Field{Name: "info", DType: tensor.F32, Shape: []int{2, 1, 1}}
	for name, more := range map[string][]tensor.Field{"neither": nil, "status": {status}, "info": {info},
		"both": {status, info}, "other order": {info, status}} {
		all := append(fields[:3:3], more...)
		if name == "other order" {
			slices.Reverse(all)
		}
		layout := tensor.NewLayout(all...)
		item := &spmd.Item{Dict: layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())}
		l := envRoute{Route: plan.Route{Lo: 1, Hi: 3}, row: 1}
		l.fill(item.Dict, step)
		got := stepOf(item.Dict)
		for i := range 2 {
			if want := step.StatusOf(1 + i); slices.ContainsFunc(more, func(f tensor.Field) bool {
				return f.Name == "status"
			}) != (got.StatusOf(i) == want) {
				t.Errorf("%s: row %d has status %d, the environment %d", name, i, got.StatusOf(i), want)
			}
			if !got.Info.IsZero() && got.Info.F32()[i] != float32(2+i) {
				t.Errorf("%s: row %d has info %v", name, i, got.Info.F32()[i])
			}
		}
	}
}
