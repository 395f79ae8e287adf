package member

import (
	"context"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
)

// Divide launches a group that evaluates with copies of a model. Each copy is divided among size members. There are
// w.Size()/size copies, but at least one, so a rank can have several members. The group is a mesh whose replicas are
// the copies. Divide calls newWorker for each member on this rank, with the AxisGroup that connects the members of its
// copy. Every rank must call Divide: see spmd.Launch.
func Divide[W any](ctx context.Context, w *spmd.World, j *job.Job, size int,
	newWorker func(m *spmd.Member, line *AxisGroup) (W, error)) (*spmd.Group[W], error) {
	copies := max(1, w.Size()/size)
	spec := spmd.GroupSpec{Name: "model", Comms: []string{Layers},
		Axes: mesh.Mesh{Tensor: size}.Axes(copies * size)}
	members := copies * size
	for m := range members {
		spec.Ranks = append(spec.Ranks, m*w.Size()/members)
	}
	return spmd.Launch(w, spec, func(m *spmd.Member) (worker W, err error) {
		line, err := NewAxisGroup(ctx, m, j, mesh.Tensor)
		if err != nil {
			return worker, err
		}
		return newWorker(m, line)
	})
}
