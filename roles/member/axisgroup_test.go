package member_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

var _ lm.Axis = (*member.AxisGroup)(nil)

// newJob returns a job with the configuration of CartPole and overrides.
func newJob(t testing.TB, overrides ...string) *job.Job {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, overrides...)
	j, _ := job.New(cfg, rolestest.Registries(), []int{0})
	return j
}

// onMesh runs f on every member of a mesh, on three ranks that share the members.
func onMesh(t *testing.T, axes []spmd.Axis, f func(ctx context.Context, m *spmd.Member) error) error {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("hangs: a minute has passed"))
	defer cancel()
	spec := spmd.GroupSpec{Name: "actor", Axes: axes,
		Comms: []string{member.Gradients, member.Layers, member.Activations}}
	members := 1
	for _, a := range axes {
		members *= a.Size
	}
	for m := range members {
		spec.Ranks = append(spec.Ranks, m*3/members)
	}
	return spmd.Run(ctx, local.New(3), spmd.Options{Log: t.Output()}, func(ctx context.Context, w *spmd.World) error {
		_, err := spmd.Launch(w, spec, func(m *spmd.Member) (struct{}, error) { return struct{}{}, f(ctx, m) })
		return err
	})
}

// axes returns the axes of a mesh.
func axes(replicas, stages, tensor int) []spmd.Axis {
	return mesh.Mesh{Stages: stages, Tensor: tensor}.Axes(replicas * stages * tensor)
}

// addend returns the numbers that a member adds. Their sum depends on the order.
func addend(member int) []float64 {
	random := rand.New(rand.NewPCG(7, uint64(member)))
	x := make([]float64, 1003)
	for i := range x {
		x[i] = float64(float32(random.NormFloat64() * math.Exp(8*random.NormFloat64())))
	}
	return x
}

// tree adds element i of the addends along the binary tree.
func tree[T float32 | float64](addends [][]float64, i int) T {
	if len(addends) == 1 {
		return T(addends[0][i])
	}
	half := 1
	for 2*half < len(addends) {
		half *= 2
	}
	return tree[T](addends[:half], i) + tree[T](addends[half:], i)
}

// A line sums along the tree, even if the user wants the fastest sums for gradients.
func TestLineSumsByTheTree(t *testing.T) {
	table := filepath.Join(t.TempDir(), "ring.json")
	ring := `{"schema":1,"rules":[{"kind":"allreduce","algorithm":"ring"}]}`
	test.OK(t, os.WriteFile(table, []byte(ring), 0o666))
	j := newJob(t, "comm.reduce=fast", "comm.table="+table)
	if !j.Collectives().Fast || j.Collectives().Table == nil {
		t.Fatal("the job's collectives are not the fastest")
	}
	test.OK(t, onMesh(t, axes(2, 3, 4), func(ctx context.Context, m *spmd.Member) error {
		for _, axis := range []string{mesh.Tensor, mesh.Stage} {
			l, err := member.NewAxisGroup(ctx, m, j, axis)
			if err != nil {
				return err
			}
			if err := checkLine(l, m, m.Line(axis)); err != nil {
				return fmt.Errorf("axis %s: %w", axis, err)
			}
		}
		return nil
	}))
}

// checkLine checks the sums of a line, and what it gathers. members are its members.
func checkLine(l *member.AxisGroup, m *spmd.Member, members []int) error {
	if l.Size() != len(members) || members[l.Index()] != m.Index() {
		return fmt.Errorf("member %d of %d, in line %v", l.Index(), l.Size(), members)
	}
	var addends [][]float64
	for _, other := range members {
		addends = append(addends, addend(other))
	}
	x, y := addend(m.Index()), make([]float32, 1003)
	for i := range x {
		y[i] = float32(x[i])
	}
	if err := l.Sum64(x); err != nil {
		return err
	}
	if err := l.Sum(y); err != nil {
		return err
	}
	for i := range x {
		if a, b := tree[float64](addends, i), tree[float32](addends, i); x[i] != a || y[i] != b {
			return fmt.Errorf("element %d is %v and %v, want %v and %v", i, x[i], y[i], a, b)
		}
	}
	counts := make([]int, len(members)) // 0, 1, 2, …
	var want []float32
	for i, other := range members {
		counts[i] = i
		want = append(want, slices.Repeat([]float32{float32(other)}, i)...)
	}
	all := make([]float32, len(want))
	at := l.Index() * (l.Index() - 1) / 2
	copy(all[at:at+l.Index()], want[at:])
	if err := l.Gather(all, counts); err != nil {
		return err
	}
	if !slices.Equal(all, want) {
		return fmt.Errorf("gathered %v, want %v", all, want)
	}
	return nil
}

// The ReplicaGroup of a mesh has the members that hold the same part of the model.
func TestReplicasOfAMesh(t *testing.T) {
	j := newJob(t, "comm.check_replicas=1")
	for _, c := range []struct {
		axes   []spmd.Axis
		differ bool // the replicas differ
	}{{axes: axes(3, 2, 2)}, {axes(3, 2, 2), true}, {axes: axes(1, 2, 2)}} {
		err := onMesh(t, c.axes, func(ctx context.Context, m *spmd.Member) error {
			part := float32(m.Line(mesh.Replica)[0])
			params := &nn.Params[float32]{Fields: []nn.ParamTensor{{Name: "w", Shape: []int{1}}}, Data: []float32{part}}
			if c.differ && m.Index() == 9 {
				params.Data[0]++
			}
			r, err := member.NewReplicaGroup(ctx, m, j, params)
			if err != nil {
				return err
			}
			line := m.Line(mesh.Replica)
			if n, this := r.Count(); n != len(line) || line[this] != m.Index() {
				return fmt.Errorf("replica %d of %d, in line %v", this, n, line)
			}
			x, want := []float64{float64(m.Index())}, 0.0
			for _, other := range line {
				want += float64(other)
			}
			if err := r.Sum(x); err != nil {
				return err
			}
			if x[0] != want {
				return fmt.Errorf("the sum is %v, want %v", x, want)
			}
			return r.Trained(ctx, new(algo.Metrics))
		})
		const want = "replicas differ: w has checksum"
		if c.differ && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "on member 2 (rank 2)")) || !c.differ && err != nil {
			t.Errorf("mesh %v, replicas differ: %v: error %v", c.axes, c.differ, err)
		}
	}
}
