package member

import (
	"context"
	"errors"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
)

// Gradients is the purpose of the communicators over which a component sums gradients.
const Gradients = "gradients"

// A ReplicaGroup connects the workers of a component that have copies of the same model, or of the same part of a
// model. It sums gradients and compares parameters.
type ReplicaGroup struct {
	*collectives.Reducer
	Iterations int64 // number of calls of Trained; equal on all replicas

	of         string // name of the component
	group      *collectives.Group
	params     *nn.Params[float32]
	every      int64 // iterations between comparisons of parameters; 0 without comparisons
	compressed bool
	summed     bool // a gradient was summed since the last call of Trained
}

var _ algo.Replicas = (*ReplicaGroup)(nil)

// NewReplicaGroup returns the ReplicaGroup of member m. In a mesh it connects the members on the replica axis.
// Otherwise it connects all members of the component.
func NewReplicaGroup(ctx context.Context, m *spmd.Member, j *job.Job, params *nn.Params[float32]) (*ReplicaGroup,
	error) {
	key := ""
	if len(m.Axes()) > 0 {
		key = lineName(m, mesh.Replica)
	}
	group, err := collectives.New(m.World(), Across(m, Gradients), j.Collectives())
	if err != nil {
		return nil, err
	}
	group.Record(m.Recorder(), Gradients, key)
	c := j.Config.Comm
	r := &ReplicaGroup{
		Reducer: collectives.NewReducer(ctx, group, c.BucketBytes), of: m.Group(), group: group, params: params,
		every: int64(c.CheckReplicas), compressed: c.Compression == config.CompressionBF16,
	}
	if r.compressed {
		r.Compress()
	}
	return r, nil
}

// Join connects r with the other replicas in the world of m. Existing users of r use the new connections.
func (r *ReplicaGroup) Join(ctx context.Context, m *spmd.Member, j *job.Job) error {
	joined, err := NewReplicaGroup(ctx, m, j, r.params)
	if err != nil {
		return err
	}
	joined.Iterations = r.Iterations
	*r = *joined
	return nil
}

// Across returns the communicator of m that connects the replicas for a purpose. In a mesh it connects the members on
// the replica axis. Otherwise it connects all members of the component.
func Across(m *spmd.Member, purpose string) spmd.Comm {
	if len(m.Axes()) > 0 {
		return m.AxisComm(mesh.Replica, purpose)
	}
	return m.Comm(purpose)
}

// Count returns the number of replicas, and the index of this replica.
func (r *ReplicaGroup) Count() (n, this int) { return r.Reducer.Replicas() }

// Gradient starts the sum of a gradient over all replicas: see collectives.Reducer.
func (r *ReplicaGroup) Gradient(grad []float32) algo.GradientStream {
	r.summed = true
	return r.Reducer.Gradient(grad)
}

// Trained is called after each iteration. It adds the error of compressed gradients to m, or algo.None if the iteration
// had no gradients. Every comm.check_replicas iterations it compares the parameters of all replicas.
func (r *ReplicaGroup) Trained(ctx context.Context, m *algo.Metrics) error {
	if r.compressed {
		e := algo.None()
		if r.summed {
			e, r.summed = r.CompressionError(), false
		}
		m.Names, m.Values = append(m.Names, r.of+"/compression_error"), append(m.Values, e)
	}
	if r.Iterations++; r.every == 0 || r.Iterations%r.every != 0 {
		return nil
	}
	var names []string
	var data [][]byte
	model := job.ModelDict(r.params)
	for i := range model.Len() {
		name, t := model.Entry(i)
		names, data = append(names, name), append(data, t.Bytes())
	}
	return r.group.SameOnAllRanks(ctx, names, data)
}

// YieldToFirst waits if err is an algo.DivergedError. All members get this error. The waits let one member report it
// before the others. Member 0 does not wait if it has the diverged tensor. Other members with this tensor wait 3 s, and
// members without it wait 5 s.
func YieldToFirst(ctx context.Context, m *spmd.Member, err error) {
	diverged := (*algo.DivergedError)(nil)
	if !errors.As(err, &diverged) || m.Index() == 0 && !diverged.Elsewhere {
		return
	}
	wait := 3 * time.Second
	if diverged.Elsewhere {
		wait = 5 * time.Second
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}
