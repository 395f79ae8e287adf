package worker

import (
	"context"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Groups is the purpose of the communicators over which the first member of a replica sends groups of answers to the
// other members.
const Groups = "groups"

// A replica connects the members that share one model. These members work on the same texts and answers. The first
// member exchanges groups of answers with other components.
type replica struct {
	index int     // number of the replica in its component
	first bool    // this member is the first of its replica
	mesh  lm.Mesh // connects the members of the replica in passes of the model

	plan *plan.Plan
	// lines carry groups from the first member along the pipeline to the first member of each stage. From there they
	// carry the groups to the other members of the stage.
	lines []*collectives.Group
	head  [3]int64 // numbers that are sent before a group: encoded bytes, group number, version
	buf   []byte   // the encoded group
}

// newReplica returns the replica of m. If groups is true, the members of the replica can share groups of answers.
func newReplica(ctx context.Context, m *spmd.Member, p *plan.Plan, groups bool) (*replica, error) {
	by := p.Mesh(m.Group())
	r := &replica{index: by.At(m.Index()).Replica, first: by.IsFirst(m.Index())}
	if len(m.Axes()) > 0 {
		r.mesh.Layer = new(member.AxisGroup)
		if by.Stages > 1 {
			r.mesh.Stages = new(member.StageGroup)
		}
	}
	return r, r.join(ctx, m, p, groups)
}

// join makes the connections of r in the world of m. Existing users of r's mesh use the new connections.
func (r *replica) join(ctx context.Context, m *spmd.Member, p *plan.Plan, groups bool) error {
	r.plan, r.lines = p, nil
	if len(m.Axes()) == 0 {
		return nil
	}
	if err := r.mesh.Layer.(*member.AxisGroup).Join(ctx, m, p.Job, mesh.Tensor); err != nil {
		return err
	}
	if r.mesh.Stages != nil {
		if err := r.mesh.Stages.(*member.StageGroup).Join(ctx, m, p.Job); err != nil {
			return err
		}
	}
	if !groups {
		return nil
	}
	axes := []string{mesh.Tensor}
	if m.Coordinate(mesh.Tensor) == 0 {
		axes = []string{mesh.Stage, mesh.Tensor}
	}
	for _, axis := range axes {
		line, err := member.CollectiveGroup(m, axis, Groups, p.Collectives())
		if err != nil {
			return err
		}
		r.lines = append(r.lines, line)
	}
	return nil
}

// share sends the first member's group to the other members, and returns the group on every member. The other members
// pass nil.
func (r *replica) share(ctx context.Context, a *answers) (*answers, error) {
	if r.lines == nil {
		return a, nil
	}
	if r.first {
		r.buf = tensor.Encode(r.buf[:0], a.dict())
		r.head = [3]int64{int64(len(r.buf)), int64(a.group), a.version}
	}
	for _, line := range r.lines {
		if err := line.Run(ctx, collectives.Broadcast(r.head[:], 0)); err != nil {
			return nil, err
		}
		if n := int(r.head[0]); n > len(r.buf) {
			r.buf = append(r.buf, make([]byte, n-len(r.buf))...)
		}
		if err := line.Run(ctx, collectives.Broadcast(r.buf[:r.head[0]], 0)); err != nil {
			return nil, err
		}
	}
	if r.first {
		return a, nil
	}
	a, err := readAnswers(r.buf[:r.head[0]], int(r.head[1]), r.plan)
	if err == nil {
		a.version = r.head[2]
	}
	return a, err
}
