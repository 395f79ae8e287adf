package member

import (
	"context"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// Divide launches a group for evaluations. Each copy of the model is divided among size members. The world has as many
// copies as its number of ranks allows, and at least one. If the world has fewer ranks than size, several members are
// on a rank. The axes of the group are Data, for the copies, and Tensor, for the members of a copy. Divide calls new
// for each member on this rank, with the Line of the members of the same copy. Collective over the world: see
// spmd.Launch.
func Divide[W any](ctx context.Context, w *spmd.World, j *job.Job, size int,
	new func(m *spmd.Member, line *Line) (W, error)) (*spmd.Group[W], error) {
	copies := max(1, w.Size()/size)
	spec := spmd.GroupSpec{Name: "model", Comms: []string{Layers},
		Axes: []spmd.Axis{{Name: Data, Size: copies}, {Name: Tensor, Size: size}}}
	members := copies * size
	for m := range members {
		spec.Ranks = append(spec.Ranks, m*w.Size()/members)
	}
	return spmd.Launch(w, spec, func(m *spmd.Member) (worker W, err error) {
		line, err := NewLine(ctx, m, j, Tensor)
		if err != nil {
			return worker, err
		}
		return new(m, line)
	})
}
