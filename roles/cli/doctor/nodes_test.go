package doctor

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestCompare: rank 0 writes its facts, and the facts of another rank that differ.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		change func(rank int, facts []fact) []fact
		want   string
	}{
		{func(_ int, facts []fact) []fact { return facts }, "all ranks find the same"},
		{func(rank int, facts []fact) []fact {
			facts[2].Text = fmt.Sprint(rank)
			return facts
		}, "all ranks find the same"},
		{func(rank int, facts []fact) []fact {
			if rank == 2 {
				facts[1].Same = "AVX2"
			}
			return facts
		}, ": vectors AVX2; rank 0: AVX-512\n"},
		{func(rank int, facts []fact) []fact {
			if rank == 1 {
				return append(facts[:1], fact{Name: "srun", Same: "/bin/srun"})
			}
			return facts
		}, ": vectors none; rank 0: AVX-512\nDIFFERENT on H: srun /bin/srun; rank 0: none\n"},
		{func(rank int, facts []fact) []fact {
			if rank == 1 {
				facts[0].Same = "rlinf v2"
			}
			return facts
		}, ": rlinf v2; rank 0: rlinf v1\n"},
	} {
		var out bytes.Buffer
		host := ""
		err := spmd.Run(context.Background(), local.New(3), spmd.Options{},
			func(ctx context.Context, w *spmd.World) error {
				facts := []fact{{"", "rlinf v1", "rlinf v1"}, {"vectors", "AVX-512", "AVX-512"},
					{"memory", "3 GiB free", ""}}
				if w.Rank() == 0 {
					host = w.Host()
				}
				return compare(ctx, w, &out, c.change(w.Rank(), facts))
			})
		got := strings.ReplaceAll(out.String(), host, "H")
		if err != nil || !strings.HasPrefix(got, "rlinf v1\nvectors        AVX-512\n") ||
			!strings.Contains(got, "nodes          1, with so many ranks: H (3)\n") || !strings.Contains(got, c.want) {
			t.Errorf("%v, got\n%s\nwant %q", err, got, c.want)
		}
	}
}
