package spmd_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/spmd"
)

func TestLaunchRefusesMeshes(t *testing.T) {
	for _, c := range []struct {
		axes []spmd.Axis
		want string
	}{
		{[]spmd.Axis{{Name: "data", Size: 2}, {Name: "shard", Size: 3}},
			"the mesh data 2 × shard 3 has 6 points: expected one for each of the 4 members"},
		{[]spmd.Axis{{Name: "data", Size: 4}, {Name: "shard"}}, `axis "shard" has the size 0: expected 1 or more`},
		{[]spmd.Axis{{Name: "data", Size: 2}, {Name: "data", Size: 2}},
			`axis 1 has the name "data": expected a name of its own`},
		{[]spmd.Axis{{Size: 4}}, `axis 0 has the name "": expected a name of its own`},
	} {
		run(t, 2, func(_ context.Context, w *spmd.World) error {
			_, err := spmd.Launch(w, spmd.GroupSpec{Name: "actor", Ranks: []int{0, 0, 1, 1}, Axes: c.axes}, newWorker)
			if err == nil || !strings.Contains(err.Error(), `launch group "actor": `+c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			return nil
		})
	}
}

func TestUnknownAxisPanics(t *testing.T) {
	spec := spmd.GroupSpec{Name: "actor", Ranks: []int{0}, Comms: []string{"sums"},
		Axes: []spmd.Axis{{Name: "data", Size: 1}}}
	for want, use := range map[string]func(m *spmd.Member){
		`group "actor" has no axis "shard"`: func(m *spmd.Member) { m.Coordinate("shard") },
		`group "actor" has no axis "line"`:  func(m *spmd.Member) { m.Line("line") },
		`group "actor" has no axis "stage"`: func(m *spmd.Member) { m.AxisComm("stage", "sums") },
		`group "actor" has no communicator for "sum", only for ["sums"]`: func(m *spmd.Member) {
			m.AxisComm("data", "sum")
		},
	} {
		f, _ := fail(t, 1, spmd.Options{}, func(_ context.Context, w *spmd.World) error {
			_, err := spmd.Launch(w, spec, func(m *spmd.Member) (struct{}, error) { use(m); return struct{}{}, nil })
			return err
		})
		if !strings.Contains(f.Error(), want) {
			t.Errorf("failure %v, want %q", f, want)
		}
	}
}
