package member

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// The axes of a component whose models are divided among its members, outermost first.
const (
	Data     = "data"     // copies of the model, or of the same part of it
	Pipeline = "pipeline" // parts that hold some of the layers each
	Tensor   = "tensor"   // parts that hold a share of every layer each
)

// Layers is the purpose of the communicators over which the parts of a model sum and gather inside its passes.
const Layers = "layers"

// A Line connects a member with the others on an axis. Its sums add by the binary tree over the line, whatever
// algorithms comm.reduce and comm.table choose for gradients, so that a layout changes no bit. The methods use the
// context of NewLine. A Line belongs to the worker's goroutine, like all lines of the member.
type Line struct {
	ctx   context.Context
	group *collectives.Group
}

// NewLine returns m's Line on an axis. The component needs the communicators of Layers.
func NewLine(ctx context.Context, m *spmd.Member, j *job.Job, axis string) (*Line, error) {
	opts := j.Collectives()
	opts.Fast = false
	group, err := collectives.New(m.World(), m.AxisComm(axis, Layers), opts)
	if err != nil {
		return nil, err
	}
	group.Record(m.Recorder(), Layers, lineName(m, axis))
	return &Line{ctx, group}, nil
}

// Join connects l with the members of its line, in the world of m. Holders of l use the new connections.
func (l *Line) Join(ctx context.Context, m *spmd.Member, j *job.Job, axis string) error {
	joined, err := NewLine(ctx, m, j, axis)
	if err == nil {
		*l = *joined
	}
	return err
}

// lineName tells the lines of a component apart.
func lineName(m *spmd.Member, axis string) string {
	return fmt.Sprintf("%s of %d", axis, m.Line(axis)[0])
}

// Size returns the number of members of the line.
func (l *Line) Size() int { return l.group.Size() }

// Index returns this member's number on the line, its coordinate.
func (l *Line) Index() int { return l.group.Rank() }

// Sum sums x over the line, in place.
func (l *Line) Sum(x []float32) error { return l.group.Sum32(l.ctx, x) }

// Sum64 sums x over the line, in place.
func (l *Line) Sum64(x []float64) error { return l.group.Sum64(l.ctx, x) }

// Gather fills x with the blocks of all members, in the order of their numbers. counts are the lengths of the blocks.
// Before the call, x holds this member's block at the place of that block.
func (l *Line) Gather(x []float32, counts []int) error {
	return l.group.Run(l.ctx, collectives.AllGather(x, counts))
}
