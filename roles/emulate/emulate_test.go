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
	"runtime"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd/local"
)

// example is a short run with 1 ms steps.
func example() Setting {
	return Setting{
		Topology: Topology{PerNode: 8, Between: local.Link{Latency: 50 * time.Microsecond,
			BytesPerSecond: 10e9}},
		Load: Load{Steps: 8, Minibatches: 2, Params: 70_000, Shrink: 32,
			Step: CallTime{Call: time.Millisecond}, Infer: CallTime{Call: 200 * time.Microsecond,
				Row: 20 * time.Microsecond},
			Update: CallTime{Call: time.Millisecond, Row: 50 * time.Microsecond}},
		Iterations: 3, Warmup: 1, Seed: 1,
	}
}

// TestCurves runs the real program with emulated environments, policy and network, with and without skew: 8 and 16
// ranks, and with RLINF_TEST_FULL up to 512. No iteration is shorter than its waits, and real work is reported.
func TestCurves(t *testing.T) {
	s := Study{Setting: example(), Ranks: []int{8, 16}, Beyond: []int{48, 64}, WeakEnvs: 4, StrongEnvs: 64,
		Skews: []float64{0, 0.3}, FitRanks: 8}
	if s.Setting.Stretch = 2; os.Getenv("RLINF_TEST_FULL") != "" {
		s.Ranks, s.StrongEnvs, s.FitRanks, s.Setting.Stretch = []int{8, 32, 128, 512}, 512, 32, 0
	}
	all := test.Must(s.Curves(t.Context(), nil))(t)
	// The environments of strong scaling cannot be divided among 48 ranks.
	if want := 2*len(s.Ranks) + 2*len(s.Ranks) + 2*2 + 2; len(all) != want {
		t.Errorf("%d points, want %d", len(all), want)
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
	ranks := []int{8, 32}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		ranks = append(ranks, 512)
	}
	var least float64
	for _, n := range ranks {
		s := example()
		s.Ranks, s.Envs, s.Stretch, s.Record = n, 2*n, 2, t.TempDir()
		test.Must(Run(t.Context(), s))(t)
		size := int64(0)
		test.OK(t, filepath.WalkDir(s.Record, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		}))
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
func checkFiles(t *testing.T, points []StudyPoint) {
	t.Helper()
	var b bytes.Buffer
	test.OK(t, WriteCSV(&b, points))
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+len(points) {
		t.Errorf("%d rows of %d points: %v", len(rows), len(points), err)
	}
	b.Reset()
	var read []StudyPoint
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

// TestPredict: predictions add real work, which grows with the ranks as that of the fitted points.
func TestPredict(t *testing.T) {
	var points []StudyPoint
	for _, ranks := range []int{8, 16, 64} {
		s := example()
		s.Ranks, s.Envs = ranks, 4*ranks
		points = append(points, StudyPoint{Kind: Weak, Ranks: ranks, Seconds: s.planned() + 1e-3 + 1e-4*float64(ranks),
			Fitted: ranks < 64, result: Result{Setting: s}})
	}
	predict(points)
	for _, p := range points {
		if math.Abs(p.Predicted/p.Seconds-1) > 1e-9 || p.PredictedEfficiency != points[0].Predicted/p.Predicted {
			t.Errorf("%+v, want %g s", p, p.Seconds)
		}
	}
}

// slowestRollout returns the seconds of the rollout of the slowest rank. A rollout is a sum of Steps independent waits,
// so its time is almost normally distributed. The expected maximum of n normal numbers is about the quantile at (n -
// 3/8)/(n + 1/4) (Blom 1958).
func slowestRollout(s *Setting) float64 {
	n := float64(s.Ranks)
	deviation := s.Step.Of(s.rows()).Seconds() * math.Sqrt(float64(s.Steps)*math.Expm1(s.Skew*s.Skew))
	return s.rollout().Seconds() + deviation*distuv.UnitNormal.Quantile((n-0.375)/(n+0.25))
}

// TestPlanned: a plan agrees with the formula of a rollout, without skew exactly. Each of the two updates follows, and
// its sum goes up and down a tree of nodes.
func TestPlanned(t *testing.T) {
	for _, skew := range []float64{0, 0.3} {
		for _, ranks := range []int{8, 64, 512} {
			s := example()
			s.Ranks, s.Envs, s.Skew, s.Steps = ranks, 4*ranks, skew, 32
			rounds := math.Log2(float64(ranks / s.PerNode))
			want := slowestRollout(&s) + s.updates().Seconds() + 2*2*rounds*(50e-6+4*70_000/10e9)
			got, limit := s.planned(), 0.03*skew/0.3
			t.Logf("skew %g, %d ranks: formula %g s, simulation %g s", skew, ranks, want, got)
			if math.Abs(got/want-1) > limit+1e-9 {
				t.Errorf("skew %g, %d ranks: simulation %g s, formula %g s", skew, ranks, got, want)
			}
		}
	}
}

// TestThousandsOfRanks simulates an iteration of 4096 ranks twice.
func TestThousandsOfRanks(t *testing.T) {
	s := example()
	s.Ranks, s.Envs, s.Skew, s.Steps = 4096, 4*4096, 0.3, 32
	m, p, l := s.toPlanner()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	first, again := planner.Predict(m, p, l, noisy()), planner.Predict(m, p, l, noisy())
	runtime.ReadMemStats(&after)
	if first.Seconds != again.Seconds {
		t.Errorf("%g s, then %g s", first.Seconds, again.Seconds)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<30 {
		t.Errorf("%d events: %d bytes allocated", first.Events, bytes)
	}
}

func noisy() planner.Options { return planner.Options{Noise: true, Seed: 1, Whole: true} }

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
