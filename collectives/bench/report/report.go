package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/figures"
)

// Schema is the number of the JSON form that this package writes and reads.
const Schema = 1

// A Report is one run of a benchmark.
type Report struct {
	Schema   int       `json:"schema"`
	Bench    string    `json:"bench"`    // collectives, p2p, overlap, channel, weights, env, scale
	Complete bool      `json:"complete"` // false if the run was interrupted and rows are missing
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	Machine  Platform  `json:"machine"`
	Method   string    `json:"method"` // how a sample was taken
	// Keys are the columns that identify a row: some of op, algo, n, size, count, type, redop, root and mem. Figures
	// are the columns after the times: names in Measurement.Figures.
	Keys    []string `json:"keys"`
	Figures []string `json:"figure_names"`
	// Brief has the columns of Keys and Figures for the narrow table. If it is empty, the table has all columns.
	Brief []string      `json:"brief,omitempty"`
	Rows  []Measurement `json:"rows"`
	Fits  []Fit         `json:"fits,omitempty"`
	Notes []string      `json:"notes,omitempty"` // remarks about the results, for readers
}

// A Measurement is one row of a report.
type Measurement struct {
	Op        string `json:"op"`               // allreduce, latency, …
	Algorithm string `json:"algo,omitempty"`   // the algorithm, or another name that distinguishes rows of one op
	Chosen    string `json:"chosen,omitempty"` // the algorithm that auto chose
	Ranks     int    `json:"n"`
	// Size is in bytes. For a collective it is the size of the root's data, or of every member's data, as in
	// nccl-tests.
	Size  int64  `json:"size"`
	Count int64  `json:"count,omitempty"` // elements
	DType string `json:"type,omitempty"`  // f32, …
	RedOp string `json:"redop,omitempty"` // sum, …
	// Memory is the memory of the buffers: "arena" (communication memory) or "go" (Go's heap). The suffix "+out" means
	// that the input was in another buffer than the result. If the operation cannot read its input there, the time
	// includes a copy.
	Memory string `json:"mem,omitempty"`
	Root   string `json:"root,omitempty"` // a number, or "rotate"; "" if there is no root

	Samples []float64 `json:"samples_us"`          // times of one call, in the order taken; maxima over ranks
	Starts  []float64 `json:"starts_us,omitempty"` // the medians of several starts; empty for one start
	Batch   int       `json:"batch"`               // number of calls timed together; a sample is the mean of a batch
	Min     float64   `json:"min_us"`
	Median  float64   `json:"med_us"`
	CILow   float64   `json:"ci_low_us"` // 95 % confidence interval of the median
	CIHigh  float64   `json:"ci_high_us"`
	P90     float64   `json:"p90_us"`
	P99     float64   `json:"p99_us"`
	Max     float64   `json:"max_us"`
	Skew    float64   `json:"skew_us"` // median over samples of the difference between the slowest and the fastest rank
	CPU     float64   `json:"cpu_us"`  // processor time of all ranks per call, including the barrier before it

	Checked int   `json:"checked"` // calls whose results were checked
	Wrong   int64 `json:"wrong"`   // elements that differed

	Figures map[string]float64 `json:"figures,omitempty"`
}

// Summarize computes the statistics of Samples.
func (r *Measurement) Summarize() {
	if len(r.Samples) == 0 {
		return
	}
	s := stats.Summarize(r.Samples)
	r.Min, r.Median, r.CILow, r.CIHigh, r.P90, r.P99, r.Max = s.Min, s.Median, s.CILow, s.CIHigh, s.P90, s.P99, s.Max
}

// SetFigure sets the named figure to x. If x is not finite, it does nothing.
func (r *Measurement) SetFigure(name string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	r.Figures[name] = x
}

// Key returns a text that identifies the measurement. Compare matches the rows of two reports by their keys.
func (r *Measurement) Key() string {
	root := ""
	if r.Root != "" {
		root = "root " + r.Root
	}
	return join(" ", r.Op, r.Algorithm, r.DType, r.RedOp, r.Memory, root, fmt.Sprintf("n=%d", r.Ranks), Bytes(r.Size))
}

// Where returns the rows for which the predicate is true.
func (r *Report) Where(holds func(*Measurement) bool) (rows []*Measurement) {
	for i := range r.Rows {
		if holds(&r.Rows[i]) {
			rows = append(rows, &r.Rows[i])
		}
	}
	return rows
}

func (r *Report) rows() []*Measurement { return r.Where(func(*Measurement) bool { return true }) }

// Group returns each key with its rows. Keys come in the order of their first rows.
func Group[K comparable](rows []*Measurement, key func(*Measurement) K) iter.Seq2[K, []*Measurement] {
	var order []K
	groups := map[K][]*Measurement{}
	for _, row := range rows {
		k := key(row)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], row)
	}
	return func(yield func(K, []*Measurement) bool) {
		for _, k := range order {
			if !yield(k, groups[k]) {
				return
			}
		}
	}
}

// BySize returns each size with its rows, in ascending order.
func BySize(rows []*Measurement) iter.Seq2[int64, []*Measurement] {
	return Group(slices.SortedStableFunc(slices.Values(rows), bySize), func(row *Measurement) int64 { return row.Size })
}

// bySize is the order of rows by size.
func bySize(a, b *Measurement) int { return cmp.Compare(a.Size, b.Size) }

// A SizeSeries is a set of rows that differ only in size and number of ranks.
type SizeSeries struct {
	Op        string `json:"op"`
	Algorithm string `json:"algo,omitempty"`
	DType     string `json:"type,omitempty"`
	Memory    string `json:"mem,omitempty"`
}

// Series returns the series that the row is in.
func (r *Measurement) Series() SizeSeries { return SizeSeries{r.Op, r.Algorithm, r.DType, r.Memory} }

// Name returns the words that identify the series.
func (s SizeSeries) Name() string { return join(" ", s.Op, s.Algorithm, s.DType, s.Memory) }

// A Fit is the line through the times of a series: α·rounds + β·bytes. The rounds and bytes are those of the critical
// path.
type Fit struct {
	SizeSeries
	Rounds   string  `json:"rounds"`       // as a formula of n
	Bytes    string  `json:"bytes"`        // as a formula of n and S
	Alpha    float64 `json:"alpha_us"`     // time of a round
	Beta     float64 `json:"beta_us_byte"` // time of a byte
	Residual float64 `json:"residual"`     // root of the mean square of the relative errors
	Points   int     `json:"points"`
	// Predictions are times on more ranks than were measured, if each rank has a core and a network path of its own.
	Predictions []PredictedTime `json:"predictions,omitempty"`
}

// A PredictedTime is the predicted time of a call.
type PredictedTime struct {
	Ranks  int     `json:"n"`
	Size   int64   `json:"size"`
	TimeUS float64 `json:"time_us"`
}

// join joins the texts that are not empty.
func join(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// Distinct returns each element of list once, in the order of first occurrence.
func Distinct[E comparable](list []E) []E {
	var once []E
	for _, x := range list {
		if !slices.Contains(once, x) {
			once = append(once, x)
		}
	}
	return once
}

// Bytes writes n in the largest unit that keeps it whole: 64KiB, 65537B.
func Bytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// BelowBusBandwidth returns a message for each operation and number of ranks whose bus bandwidth is below least, in 10⁹
// bytes per second. The bus bandwidth that counts is the maximum over all sizes and algorithms.
func (r *Report) BelowBusBandwidth(least float64) (wrong []string) {
	rows := r.Where(func(row *Measurement) bool { return row.Size > 0 })
	key := func(row *Measurement) string { return row.Op + " on " + figures.Count(row.Ranks, "rank") }
	for key, rows := range Group(rows, key) {
		best := 0.0
		for _, row := range rows {
			best = max(best, row.Figures["busbw_gbs"])
		}
		if best < least {
			wrong = append(wrong, fmt.Sprintf("%s: best bus bandwidth %s GB/s, expected %s", key, short(best),
				short(least)))
		}
	}
	return wrong
}

// Read reads a report from a file in the JSON form, as rlinf bench -o json writes it. It returns an error if the file
// has another Schema.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w: expected the output of rlinf bench -o json", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %d: expected %d, which this rlinf writes", path, r.Schema, Schema)
	}
	if r.Bench == "" {
		return nil, errors.New(path + ": no report of a benchmark: expected the output of rlinf bench -o json")
	}
	return r, nil
}
