package emulate

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/plot"
)

// A Study measures the time of an iteration for several numbers of ranks.
type Study struct {
	Setting  Setting // Curves sets Ranks and Envs for each point. Run sets Stretch if Stretch is 0.
	Ranks    []int   // ascending; efficiencies are relative to the first
	Beyond   []int   // numbers of ranks that are only predicted
	WeakEnvs int     // environments of each rank in weak scaling; 0 means no weak scaling
	// StrongEnvs are the environments of all ranks in strong scaling. 0 means no strong scaling.
	StrongEnvs int
	Skews      []float64
	FitRanks   int // predictions are fitted on runs with at most this many ranks
}

// The kinds of scaling.
const (
	Weak   = "weak"   // the work grows with the ranks
	Strong = "strong" // the work stays the same
)

// A StudyPoint is a run of a Study, or only a prediction. In a prediction, Iterations and all measured values are 0.
type StudyPoint struct {
	Kind  string  `json:"kind"`
	Skew  float64 `json:"skew"`
	Ranks int     `json:"ranks"`
	// Seconds is the median time of an iteration. Low and High are its 95 % interval.
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// Efficiency is the work per second and rank, relative to the smallest number of ranks. EfficiencyLow and
	// EfficiencyHigh are its 95 % interval.
	Efficiency     float64 `json:"efficiency"`
	EfficiencyLow  float64 `json:"efficiency_low"`
	EfficiencyHigh float64 `json:"efficiency_high"`

	Predicted           float64 `json:"predicted"` // seconds
	PredictedEfficiency float64 `json:"predicted_efficiency"`
	Fitted              bool    `json:"fitted"` // the prediction was fitted on this point
	Iterations          int     `json:"iterations"`
	Stretch             float64 `json:"stretch"`
	RealWork            float64 `json:"real_work"` // real work as a share of the cores' time
	Late                float64 `json:"late"`      // lateness of waits as a share of their duration
	Disturbed           bool    `json:"disturbed"` // other programs delayed the ends of waits

	result Result
}

// Curves runs the study and returns its points: weak before strong, then by skew, then by ranks. report, unless nil,
// gets the point of each run. Curves leaves out numbers of ranks in Beyond that do not divide the environments.
func (s *Study) Curves(ctx context.Context, report func(StudyPoint)) ([]StudyPoint, error) {
	var points []StudyPoint
	fixed := s.Setting.Stretch > 0
	for _, kind := range []string{Weak, Strong} {
		for _, skew := range s.Skews {
			first := len(points)
			for i, ranks := range slices.Concat(s.Ranks, s.Beyond) {
				set := s.Setting
				set.Ranks, set.Skew = ranks, skew
				if set.Envs = s.StrongEnvs; kind == Weak {
					set.Envs = ranks * s.WeakEnvs
				}
				if set.Envs == 0 {
					continue
				}
				if i >= len(s.Ranks) {
					if set.check() == nil {
						points = append(points, StudyPoint{Kind: kind, Skew: skew, Ranks: ranks,
							result: Result{Setting: set}})
					}
					continue
				}
				r, err := Run(ctx, set)
				if err != nil {
					return points, err
				}
				p := StudyPoint{Kind: kind, Skew: skew, Ranks: ranks, Seconds: r.Summary.Median, Low: r.Summary.CILow,
					High: r.Summary.CIHigh, Iterations: len(r.Iterations), Stretch: r.Setting.Stretch,
					RealWork: r.RealWork, Late: r.Late, Disturbed: r.Disturbed(),
					Fitted: ranks <= s.FitRanks && (fixed || !r.Disturbed()), result: r}
				points = append(points, p)
				points[len(points)-1].relate(&points[first])
				if report != nil {
					report(points[len(points)-1])
				}
				runtime.GC() // the next run needs the memory of this run
			}
		}
	}
	predict(points)
	return points, nil
}

// share returns the work of a rank at p, relative to the work of a rank at base.
func (p *StudyPoint) share(base *StudyPoint) float64 {
	if p.Kind == Weak {
		return 1
	}
	return float64(base.Ranks) / float64(p.Ranks)
}

// relate sets the efficiency of p, relative to base.
func (p *StudyPoint) relate(base *StudyPoint) {
	ratio, low, high, _ := stats.RatioInterval(base.result.Iterations, p.result.Iterations)
	share := p.share(base)
	p.Efficiency, p.EfficiencyLow, p.EfficiencyHigh = share*ratio, share*low, share*high
}

// predict sets the predictions. Each is the time that package planner predicts, plus the time of real work. Real work
// grows with the number of ranks, because they share the cores of this machine. Its time is a line, fitted to the
// excess of the fitted points over the planner's prediction.
func predict(points []StudyPoint) {
	var real []stats.FitPoint
	for i := range points {
		p := &points[i]
		if p.Predicted = p.result.Setting.planned(); p.Fitted {
			real = append(real, stats.FitPoint{Rounds: 1, Bytes: float64(p.Ranks), Time: p.Seconds - p.Predicted})
		}
	}
	line, first := stats.Fit(real), 0
	for i := range points {
		p := &points[i]
		if p.Kind != points[first].Kind || p.Skew != points[first].Skew {
			first = i
		}
		p.Predicted += line.At(1, float64(p.Ranks))
		p.PredictedEfficiency = p.share(&points[first]) * points[first].Predicted / p.Predicted
	}
}

// Error returns the relative error of the prediction.
func (p *StudyPoint) Error() float64 { return p.Predicted/p.Seconds - 1 }

// Errors returns the median and the maximum of the absolute relative errors. It uses only predictions for undisturbed
// runs that were not fitted.
func Errors(points []StudyPoint) (median, most float64) {
	var x []float64
	for _, p := range points {
		if !p.Fitted && p.Iterations > 0 && !p.Disturbed {
			x = append(x, math.Abs(p.Error()))
		}
	}
	sum := stats.Summarize(x)
	return sum.Median, sum.Max
}

// WriteJSON writes points as JSON.
func WriteJSON(w io.Writer, points []StudyPoint) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(points)
}

// WriteCSV writes points as a table, with a header.
func WriteCSV(w io.Writer, points []StudyPoint) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"kind", "skew", "ranks", "seconds", "low", "high", "efficiency", "efficiency_low",
		"efficiency_high", "predicted", "predicted_efficiency", "fitted", "iterations", "stretch", "real_work", "late",
		"disturbed"}}
	for _, p := range points {
		row := []string{p.Kind, number(p.Skew), strconv.Itoa(p.Ranks)}
		for _, x := range []float64{p.Seconds, p.Low, p.High, p.Efficiency, p.EfficiencyLow, p.EfficiencyHigh,
			p.Predicted, p.PredictedEfficiency} {
			row = append(row, number(x))
		}
		rows = append(rows, append(row, strconv.FormatBool(p.Fitted), strconv.Itoa(p.Iterations), number(p.Stretch),
			number(p.RealWork), number(p.Late), strconv.FormatBool(p.Disturbed)))
	}
	return c.WriteAll(rows)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// Picture returns the efficiencies as SVG, with a chart for each kind of scaling. A chart has the measured and the
// predicted curve of each skew.
func Picture(points []StudyPoint) []byte {
	f := plot.Figure{Title: "Efficiency of emulated ranks"}
	for _, kind := range []string{Weak, Strong} {
		c := plot.Chart{Title: kind + " scaling", X: "ranks", Y: "efficiency", XScale: plot.Log2}
		measured, predicted := -1, -1
		for i, p := range points {
			if p.Kind != kind {
				continue
			}
			if i == 0 || points[i-1].Kind != kind || points[i-1].Skew != p.Skew {
				name := fmt.Sprintf("skew %g", p.Skew)
				measured, predicted = len(c.Curves), len(c.Curves)+1
				c.Curves = append(c.Curves, plot.Curve{Name: name + ", emulated", Marks: true},
					plot.Curve{Name: name + ", predicted"})
			}
			m, q := &c.Curves[measured], &c.Curves[predicted]
			if p.Iterations > 0 {
				m.X, m.Y = append(m.X, float64(p.Ranks)), append(m.Y, p.Efficiency)
				m.Low, m.High = append(m.Low, p.EfficiencyLow), append(m.High, p.EfficiencyHigh)
			}
			q.X, q.Y = append(q.X, float64(p.Ranks)), append(q.Y, p.PredictedEfficiency)
		}
		if len(c.Curves) > 0 {
			f.Charts = append(f.Charts, c)
		}
	}
	return f.SVG()
}
