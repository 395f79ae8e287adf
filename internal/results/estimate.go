package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// An Estimate estimates the mean over all seeds from the values of a few seeds.
type Estimate struct {
	N      int
	Mean   float64 // NaN without values
	Std    float64 // sample standard deviation; 0 for a single value
	Margin float64 // half the width of the mean's 95 % confidence interval; infinite for a single value
	Least  float64 // the lowest value
}

// NewEstimate returns the Estimate of values.
func NewEstimate(values []float64) Estimate {
	e := Estimate{N: len(values), Mean: math.NaN(), Margin: math.Inf(1), Least: math.NaN()}
	if e.N == 0 {
		return e
	}
	e.Least = slices.Min(values)
	e.Mean = stat.Mean(values, nil)
	if e.N > 1 {
		e.Std = stat.StdDev(values, nil)
		e.Margin = student95(e.N-1) * stat.StdErr(e.Std, float64(e.N))
	}
	return e
}

// Minus returns the difference of the means of e and o, and half the width of its 95 % confidence interval. The
// interval is that of Welch's test (Welch 1947), which allows different variances. The degrees of freedom are rounded
// down.
func (e Estimate) Minus(o Estimate) (difference, margin float64) {
	difference, margin = e.Mean-o.Mean, math.Inf(1)
	if e.N < 2 || o.N < 2 {
		return difference, margin
	}
	a, b := e.Std*e.Std/float64(e.N), o.Std*o.Std/float64(o.N)
	if a+b == 0 {
		return difference, 0
	}
	freedom := (a + b) * (a + b) / (a*a/float64(e.N-1) + b*b/float64(o.N-1))
	return difference, student95(int(freedom)) * math.Sqrt(a+b)
}

// String returns the mean ± the standard deviation.
func (e Estimate) String() string {
	if e.N < 2 {
		return figure(e.Mean)
	}
	return figure(e.Mean) + " ± " + figure(e.Std)
}

// Interval returns the ends of the mean's 95 % confidence interval, or "" if there is none.
func (e Estimate) Interval() string {
	if math.IsInf(e.Margin, 0) {
		return ""
	}
	return fmt.Sprintf("%s … %s", figure(e.Mean-e.Margin), figure(e.Mean+e.Margin))
}

// figure formats x with about four digits, and at most one decimal for large numbers.
func figure(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// student95 returns t with P(|T| < t) = 0.95 for Student's distribution with n >= 1 degrees of freedom.
func student95(n int) float64 { return distuv.StudentsT{Sigma: 1, Nu: float64(n)}.Quantile(0.975) }

// Modes of a metric: whether lower or higher values are better.
const (
	ModeMin = "min"
	ModeMax = "max"
)

// ModeOf returns the mode of a metric by its name: min for a loss, max for other metrics.
func ModeOf(metric string) string {
	if strings.HasSuffix(metric, "loss") {
		return ModeMin
	}
	return ModeMax
}

// Better reports whether a is better than b. NaN is worse than every number.
func Better(mode string, a, b float64) bool {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return math.IsNaN(b) && !math.IsNaN(a)
	case mode == ModeMin:
		return a < b
	}
	return a > b
}

// Headlines returns the metrics that measure the quality of a policy or model, with the metrics of evaluation before
// the metrics of training.
func Headlines() []string {
	return []string{"eval/return", "eval/accuracy", "eval/loss", "env/return", "rollout/rewards", "train/sft/loss"}
}
