package emulate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rlinf/rlinf/spmd/local"
)

// example is a short run with 1 ms steps.
func example() Setting {
	return Setting{
		Machine: Machine{PerNode: 8, Between: local.Link{Latency: 50 * time.Microsecond, BytesPerSecond: 10e9}},
		Job: Job{Steps: 8, Minibatches: 2, Params: 70_000, Shrink: 32,
			Step: Cost{Call: time.Millisecond}, Infer: Cost{Call: 200 * time.Microsecond, Row: 20 * time.Microsecond},
			Update: Cost{Call: time.Millisecond, Row: 50 * time.Microsecond}},
		Iterations: 3, Warmup: 1, Seed: 1,
	}
}

// TestCurves runs the real program with emulated environments, policy and network: 8 and 32 ranks with and without
// skew, and 128 ranks; with RLINF_TEST_FULL also 512. No iteration is shorter than its waits, and real work is
// reported.
func TestCurves(t *testing.T) {
	studies := []Study{
		{Ranks: []int{8, 32}, Beyond: []int{48, 64}, WeakEnvs: 4, StrongEnvs: 128, Skews: []float64{0, 0.3}},
		{Ranks: []int{128}, WeakEnvs: 2, Skews: []float64{0.3}},
	}
	stretch := 4.0
	if os.Getenv("RLINF_TEST_FULL") != "" {
		studies = []Study{{Ranks: []int{8, 32, 128, 512}, WeakEnvs: 4, StrongEnvs: 512, Skews: []float64{0, 0.3}}}
		stretch = 0
	}
	var all []Point
	for _, s := range studies {
		s.Setting, s.FitRanks, s.Predictor = example(), 32, &ClosedForm{Sums: "hierarchical", Rollout: VirtualRollout}
		s.Setting.Stretch = stretch
		points, err := s.Curves(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, envs := range []int{s.WeakEnvs, s.StrongEnvs} {
			if envs > 0 {
				want += (len(s.Ranks) + len(s.Beyond)) * len(s.Skews)
			}
		}
		if len(s.Beyond) > 0 {
			want -= len(s.Skews) // 128 environments cannot be divided among 48 ranks
		}
		if len(points) != want {
			t.Errorf("%d points, want %d", len(points), want)
		}
		all = append(all, points...)
	}
	for _, p := range all {
		set := p.result.Setting
		if p.Iterations == 0 {
			if !(p.Predicted > 0) || p.Fitted {
				t.Errorf("%+v", p)
			}
			continue
		}
		t.Logf("%s, skew %g, %d ranks: %.1f ms, predicted %.1f; efficiency %.2f; stretch %g, real work %.2f, late %.3f",
			p.Kind, p.Skew, p.Ranks, 1e3*p.Seconds, 1e3*p.Predicted, p.Efficiency, p.Stretch, p.RealWork, p.Late)
		if shortest := set.Computing().Seconds(); p.Skew == 0 && p.Low < shortest {
			t.Errorf("%+v: iterations of %g s, but the waits last %g s", p, p.Low, shortest)
		}
		if p.Iterations != set.Iterations || !(p.RealWork > 0) || p.Stretch < 1 || !(p.Predicted > 0) {
			t.Errorf("%+v", p)
		}
		if p.Ranks == 8 && (math.Abs(p.Efficiency-1) > 1e-9 || math.Abs(p.PredictedEfficiency-1) > 1e-9) {
			t.Errorf("%+v: efficiency of the first point is not 1", p)
		}
	}
	checkFiles(t, all)
}

// TestRecordsGrowWithRanks: the files of a recorded run have about as many bytes for each rank, however many ranks
// there are.
func TestRecordsGrowWithRanks(t *testing.T) {
	ranks := []int{16, 64}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		ranks = append(ranks, 512)
	}
	var least float64
	for _, n := range ranks {
		s := example()
		s.Ranks, s.Envs, s.Stretch, s.Record = n, 2*n, 2, t.TempDir()
		if _, err := Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		if err := filepath.WalkDir(s.Record, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		per := float64(size) / float64(n)
		t.Logf("%d ranks: %.0f bytes for each", n, per)
		if least == 0 {
			least = per
		}
		if per > 1.3*least {
			t.Errorf("%d ranks: %.0f bytes for each, with %d ranks %.0f", n, per, ranks[0], least)
		}
	}
}

// checkFiles reads what points look like in files.
func checkFiles(t *testing.T, points []Point) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, points); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+len(points) {
		t.Errorf("%d rows of %d points: %v", len(rows), len(points), err)
	}
	b.Reset()
	var read []Point
	if err := errors.Join(WriteJSON(&b, points), json.Unmarshal(b.Bytes(), &read)); err != nil ||
		len(read) != len(points) || read[0].Seconds != points[0].Seconds {
		t.Errorf("%d of %d points: %v", len(read), len(points), err)
	}
	d := xml.NewDecoder(bytes.NewReader(Picture(points)))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestClosedForm fits α and β on results that follow from the formulas, and predicts others.
func TestClosedForm(t *testing.T) {
	f := ClosedForm{Sums: "doubling"}
	const alpha, beta = 80e-6, 2e-3
	truth := func(ranks int) Result {
		s := example()
		s.Ranks, s.Envs, s.Skew = ranks, 4*ranks, 0.3
		rounds, seconds := f.costs(&s)
		r := Result{Setting: s}
		r.Summary.Median = seconds + alpha*rounds + beta
		return r
	}
	f.Fit([]Result{truth(8), truth(16), truth(32)})
	if math.Abs(f.Alpha/alpha-1) > 1e-6 || math.Abs(f.Beta/beta-1) > 1e-6 {
		t.Errorf("fitted %+v, want %g and %g", f, alpha, beta)
	}
	if r := truth(4096); math.Abs(f.Predict(r.Setting)/r.Summary.Median-1) > 1e-6 {
		t.Errorf("predicted %g for 4096 ranks, want %g", f.Predict(r.Setting), r.Summary.Median)
	}
	// The expected maximum of 8 normal numbers is 1.4236 (Teichroew 1956).
	s := truth(8).Setting
	s.Steps, s.Skew = 1, math.Sqrt(math.Log(2)) // the factor's variance is 1
	if got := (SlowestRollout(&s) - s.rollout().Seconds()) / s.Step.Of(4).Seconds(); math.Abs(got-1.4236) > 0.02 {
		t.Errorf("the slowest of 8 is %g deviations above the mean, want 1.42", got)
	}
}

func TestTimesInTensors(t *testing.T) {
	x := make([]float32, 2*digits)
	for _, want := range []int64{0, 1, 1<<digitBits - 1, 1 << digitBits, 123_456_789_012_345,
		1<<(digits*digitBits) - 1} {
		putTime(x[digits:], want)
		if got := latest(x); got != want {
			t.Errorf("%d came back as %d", want, got)
		}
	}
}

func TestSettingsThatCannotRun(t *testing.T) {
	for _, change := range []func(s *Setting){
		func(s *Setting) { s.Ranks = 0 },
		func(s *Setting) { s.Envs = 9 },
		func(s *Setting) { s.Minibatches = 7 },
		func(s *Setting) { s.Stretch = 0.5 },
		func(s *Setting) { s.Skew = -1 },
		func(s *Setting) { s.Keys = []string{"no.key=1"} },
	} {
		s := example()
		s.Ranks, s.Envs = 8, 32
		change(&s)
		if _, err := Run(t.Context(), s); err == nil {
			t.Errorf("%+v ran", s)
		}
	}
}
