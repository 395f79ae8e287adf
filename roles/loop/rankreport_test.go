package loop

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func reports() []RankReport {
	return []RankReport{
		{Times: []float64{}, Episodes: []float64{}, Evals: []float64{}, Names: []string{}, Values: []float64{},
			Rewards: []float64{}, Engine: []float64{}, Simulated: []float64{}},
		{
			Times:    []float64{0.25, 1e-9, 0, 3},
			Episodes: []float64{1, 200, -3.5, 0, 1, 7, 500, 500, 1, 1},
			Evals:    []float64{0, 1, math.Inf(-1), 0, 0},
			Names:    []string{"actor/policy_loss", "", "critic/üñ"},
			Values:   []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)},
			Rewards:  []float64{0.5, 1, 3}, Engine: []float64{4, 2}, Simulated: []float64{0.5},
			Rollouts: 1 << 40,
		},
		{Times: []float64{1}, Episodes: []float64{}, Evals: []float64{}, Names: []string{"a"}, Values: []float64{2},
			Rewards: []float64{}, Engine: []float64{}, Simulated: []float64{}},
	}
}

// A decoded report equals the encoded one, whatever the report held before.
func TestReportComesBack(t *testing.T) {
	got := reports()[1]
	for _, want := range reports() {
		b := want.append([]byte("before"))
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("append wrote over what stood before: %q", b[:6])
		}
		test.OK(t, got.parse(b[len("before"):]))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestDamagedReportIsAnError(t *testing.T) {
	for _, r := range reports() {
		whole := r.append(nil)
		for n := range whole {
			if err := new(RankReport).parse(whole[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are taken for a report", n, len(whole))
			}
		}
		if err := new(RankReport).parse(append(whole, 0)); err == nil {
			t.Errorf("%d bytes and one more are taken for a report", len(whole))
		}
	}
	huge := bytes.Repeat([]byte{0xff}, 64)
	if err := new(RankReport).parse(huge); err == nil {
		t.Error("lengths beyond all measure are taken for a report")
	}
}

// A report that can be read is written again with the same bytes.
func FuzzReport(f *testing.F) {
	for _, r := range reports() {
		f.Add(r.append(nil))
	}
	f.Add(bytes.Repeat([]byte{0xff}, 48))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r RankReport
		if r.parse(b) == nil && !bytes.Equal(r.append(nil), b) {
			t.Errorf("%x is read as %v, which is written as %x", b, r, r.append(nil))
		}
	})
}
