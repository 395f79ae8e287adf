package member_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestDivide: a world has one copy for every size ranks. If a world has too few ranks, several parts are on a rank.
func TestDivide(t *testing.T) {
	j := newJob(t)
	for _, c := range []struct {
		ranks, size int
		want        []string // rank, copy and part of each member
	}{
		{1, 1, []string{"0 0 0"}},
		{1, 2, []string{"0 0 0", "0 0 1"}},
		{2, 4, []string{"0 0 0", "0 0 1", "1 0 2", "1 0 3"}},
		{3, 2, []string{"0 0 0", "1 0 1"}},
		{5, 2, []string{"0 0 0", "1 0 1", "2 1 0", "3 1 1"}},
		{3, 1, []string{"0 0 0", "1 1 0", "2 2 0"}},
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("hangs: a minute has passed"))
		defer cancel()
		var mu sync.Mutex
		got := make([]string, len(c.want))
		err := spmd.Run(ctx, local.New(c.ranks), spmd.Options{Log: t.Output()}, func(ctx context.Context,
			w *spmd.World) error {
			_, err := member.Divide(ctx, w, j, c.size, func(m *spmd.Member, line *member.AxisGroup) (struct{}, error) {
				mu.Lock()
				got[m.Index()] = fmt.Sprint(w.Rank(), m.Coordinate(mesh.Replica), line.Index())
				mu.Unlock()
				one := []float32{1}
				if err := line.Sum(one); err != nil {
					return struct{}{}, err
				}
				if int(one[0]) != c.size || line.Size() != c.size {
					return struct{}{}, fmt.Errorf("a line of %d members sums %v, expected %d", line.Size(), one, c.size)
				}
				return struct{}{}, nil
			})
			return err
		})
		test.OK(t, err)
		rolestest.Expect(t, fmt.Sprintf("%d parts on %d ranks", c.size, c.ranks), got, c.want...)
	}
}
