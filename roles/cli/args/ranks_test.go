package args

import (
	"flag"
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/urfave/cli/v2"
)

// A flag without bounds refuses text that is no number.
func TestUnboundedNumbersAreFinite(t *testing.T) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	f := Float(cli.Float64Flag{Name: "below"}, -math.MaxFloat64, math.MaxFloat64)
	test.OK(t, f.Apply(set))
	set.Set("below", "NaN")
	if err := f.RunAction(cli.NewContext(nil, set, nil)); err == nil ||
		err.Error() != "--below NaN: expected a finite number" {
		t.Error(err)
	}
}

// A process refuses ranks for which it has no memory before they start.
func TestGoroutineRanksFitIntoMemory(t *testing.T) {
	for _, c := range []struct {
		np   int
		free int64
		want string
	}{
		{1, 4 << 20, ""},
		{8, 64 << 20, ""},
		{1024, 8 << 30, ""},
		{1025, 1 << 40, "1025 ranks in one process: expected at most 1024, or mpirun or srun to start them (-np, " +
			"cluster.component_placement)"},
		{1024, 4 << 30,
			"1024 ranks in one process: they take about 7168.0 MiB, and  has 4096.0 MiB free: expected fewer, " +
				"or mpirun or srun to start them (-np, cluster.component_placement)"},
	} {
		got := ""
		if err := checkGoroutineRanks(c.np, job.Available{Free: c.free}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d ranks in %d bytes:\ngot  %s\nwant %s", c.np, c.free, got, c.want)
		}
	}
}
