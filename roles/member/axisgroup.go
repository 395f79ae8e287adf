package member

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// Layers is the purpose of the communicators over which members sum and gather the activations of a divided model.
const Layers = "layers"

// An AxisGroup connects a member with the other members on an axis: its line. Sums always add along a binary tree over
// the line, so their results are bit-identical in any layout of the members. comm.reduce and comm.table have no effect
// on these sums. The methods use the context of NewAxisGroup. Only the goroutine of the member's worker may use them.
type AxisGroup struct {
	ctx   context.Context
	group *collectives.Group
}

// NewAxisGroup returns the AxisGroup of m on an axis. The component of m must have communicators for Layers.
func NewAxisGroup(ctx context.Context, m *spmd.Member, j *job.Job, axis string) (*AxisGroup, error) {
	opts := j.Collectives()
	opts.Fast = false
	group, err := CollectiveGroup(m, axis, Layers, opts)
	return &AxisGroup{ctx, group}, err
}

// CollectiveGroup returns the group that connects m with the other members on an axis. purpose names the communicators.
func CollectiveGroup(m *spmd.Member, axis, purpose string, o collectives.Options) (*collectives.Group, error) {
	group, err := collectives.New(m.World(), m.AxisComm(axis, purpose), o)
	if err == nil {
		group.Record(m.Recorder(), purpose, lineName(m, axis))
	}
	return group, err
}

// Join connects l with the members of its line in the world of m. Existing users of l use the new connections.
func (l *AxisGroup) Join(ctx context.Context, m *spmd.Member, j *job.Job, axis string) error {
	joined, err := NewAxisGroup(ctx, m, j, axis)
	if err == nil {
		*l = *joined
	}
	return err
}

// lineName returns a name that differs between the lines of a component.
func lineName(m *spmd.Member, axis string) string {
	return fmt.Sprintf("%s of %d", axis, m.Line(axis)[0])
}

// Size returns the number of members of the line.
func (l *AxisGroup) Size() int { return l.group.Size() }

// Index returns this member's coordinate on the axis.
func (l *AxisGroup) Index() int { return l.group.Rank() }

// Sum sums x over the line, in place.
func (l *AxisGroup) Sum(x []float32) error { return l.group.Sum32(l.ctx, x) }

// Sum64 sums x over the line, in place.
func (l *AxisGroup) Sum64(x []float64) error { return l.group.Sum64(l.ctx, x) }

// Gather fills x with the blocks of all members, in the order of their coordinates. counts are the lengths of the
// blocks. Before the call, this member's block is already at its place in x.
func (l *AxisGroup) Gather(x []float32, counts []int) error {
	return l.group.Run(l.ctx, collectives.AllGather(x, counts))
}
