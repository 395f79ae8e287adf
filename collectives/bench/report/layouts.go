package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// A block is the rows that stand under one heading in the layouts of others: those of one operation
// by one algorithm on one group.
type block struct {
	title string
	rows  []*Row
}

// blocks returns the rows by block, in the order in which the first of each was measured, and in
// each by size.
func (r *Report) blocks() []block {
	var all []block
	for i := range r.Rows {
		row := &r.Rows[i]
		parts := []string{row.Op}
		for _, part := range []string{row.Algorithm, strings.TrimSuffix(row.Memory, "+out")} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		title := fmt.Sprintf("%s, %s", strings.Join(parts, ", "), plural(row.Ranks, "rank"))
		at := slices.IndexFunc(all, func(b block) bool { return b.title == title && b.rows[0].DType == row.DType })
		if at < 0 {
			at = len(all)
			all = append(all, block{title: title})
		}
		all[at].rows = append(all[at].rows, row)
	}
	for _, b := range all {
		slices.SortStableFunc(b.rows, func(x, y *Row) int { return int(min(1, max(-1, x.Size-y.Size))) })
	}
	return all
}

// osu is the layout of the OSU Micro-Benchmarks, for programs that read theirs. Latencies are
// means, as theirs are, but over samples that are the maximum over the ranks.
type osu struct{ w io.Writer }

func (o *osu) Begin(*Report) error     { return nil }
func (o *osu) Row(*Report, *Row) error { return nil }

func (o *osu) End(r *Report) error {
	var b strings.Builder
	for _, bl := range r.blocks() {
		fmt.Fprintf(&b, "\n# %s, in the layout of OSU\n", bl.title)
		if t := mpiType(bl.rows[0].DType); t != "" {
			fmt.Fprintf(&b, "# Datatype: %s.\n", t)
		}
		head := true
		for _, row := range bl.rows {
			o.row(&b, r.Bench, row, head)
			head = false
		}
	}
	_, err := io.WriteString(o.w, b.String())
	return err
}

func (o *osu) row(b *strings.Builder, bench string, row *Row, head bool) {
	columns := func(format string, names ...any) {
		if head {
			fmt.Fprintf(b, format, names...)
		}
	}
	switch {
	case bench == "overlap":
		columns("%-10s%18s%18s%18s%18s\n", "# Size", "Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)")
		fmt.Fprintf(b, "%-10d%18.2f%18.2f%18.2f%18.2f\n", row.Size, row.Figures["overall_us"],
			row.Figures["compute_us"], row.Figures["pure_us"],
			row.Figures["overlap_pct"])
	case bench == "p2p" && (row.Op == "bandwidth" || row.Op == "bibandwidth"):
		columns("%-10s%20s\n", "# Size", "Bandwidth (MB/s)")
		fmt.Fprintf(b, "%-10d%20.2f\n", row.Size, 1e3*row.Figures["bw_gbs"])
	case bench == "p2p" && row.Op == "message_rate":
		columns("%-10s%20s%20s\n", "# Size", "MB/s", "Messages/s")
		fmt.Fprintf(b, "%-10d%20.2f%20.2f\n", row.Size, 1e3*row.Figures["bw_gbs"], row.Figures["msgs_s"])
	case bench == "p2p":
		columns("%-10s%20s\n", "# Size", "Latency (us)")
		fmt.Fprintf(b, "%-10d%20.2f\n", row.Size, stat.Mean(row.Samples, nil))
	default:
		pass := "-"
		if row.Checked > 0 {
			if pass = "Pass"; row.Wrong > 0 {
				pass = "Fail"
			}
		}
		columns("%-10s%20s%18s%18s%12s%18s\n", "# Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)",
			"Iterations", "Validation")
		fmt.Fprintf(b, "%-10d%20.2f%18.2f%18.2f%12d%18s\n", row.Size, stat.Mean(row.Samples, nil), row.Min, row.Max,
			len(row.Samples), pass)
	}
}

func mpiType(dtype string) string {
	return map[string]string{"f32": "MPI_FLOAT", "f64": "MPI_DOUBLE", "i32": "MPI_INT32_T", "i64": "MPI_INT64_T",
		"u8": "MPI_UINT8_T", "bf16": "MPI_UINT16_T"}[dtype]
}

// nccl is the layout of nccl-tests. Times are medians; a row with "+out" in its memory stands in
// the columns for out of place.
type nccl struct{ w io.Writer }

func (f *nccl) Begin(*Report) error     { return nil }
func (f *nccl) Row(*Report, *Row) error { return nil }

func (f *nccl) End(r *Report) error {
	var b strings.Builder
	wrong, sum, rows := int64(0), 0.0, 0
	for _, row := range r.Rows {
		wrong += row.Wrong
		sum += row.Figures["busbw_gbs"]
		rows++
	}
	for _, bl := range r.blocks() {
		f.head(&b, bl.title)
		for i := 0; i < len(bl.rows); {
			var places [2]*Row // out of place, in place
			size := bl.rows[i].Size
			for ; i < len(bl.rows) && bl.rows[i].Size == size; i++ {
				at := 1
				if strings.HasSuffix(bl.rows[i].Memory, "+out") {
					at = 0
				}
				places[at] = bl.rows[i]
			}
			f.line(&b, places)
		}
	}
	verdict := "OK"
	if wrong > 0 {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %d %s\n# Avg bus bandwidth    : %.6g\n#\n", wrong, verdict,
		sum/float64(max(1, rows)))
	_, err := io.WriteString(f.w, b.String())
	return err
}

func (f *nccl) head(b *strings.Builder, title string) {
	fmt.Fprintf(b, "#\n# %s, in the layout of nccl-tests; time: median of the maximum over ranks\n", title)
	fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s  %38s  %38s\n", "", "", "", "", "", "out-of-place              ",
		"in-place              ")
	fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root")
	for range 2 {
		fmt.Fprintf(b, "  %10s  %8s  %8s  %6s", "time", "algbw", "busbw", "#wrong")
	}
	fmt.Fprintf(b, "\n# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "")
	for range 2 {
		fmt.Fprintf(b, "  %10s  %8s  %8s  %6s", "(us)", "(GB/s)", "(GB/s)", "")
	}
	b.WriteString("\n")
}

// line writes what was measured of one size, out of place and in place.
func (f *nccl) line(b *strings.Builder, places [2]*Row) {
	row := places[0]
	if row == nil {
		row = places[1]
	}
	dtype, redop, root := ncclType(row.DType), row.RedOp, row.Root
	for _, s := range []*string{&dtype, &redop} {
		if *s == "" {
			*s = "none"
		}
	}
	if root == "" {
		root = "-1"
	}
	fmt.Fprintf(b, "  %10d  %12d  %8s  %6s  %6s", row.Size, row.Count, dtype, redop, root)
	for _, r := range places {
		if r == nil {
			fmt.Fprintf(b, "  %10s  %8s  %8s  %6s", "N/A", "N/A", "N/A", "N/A")
			continue
		}
		wrong := "N/A"
		if r.Checked > 0 {
			wrong = fmt.Sprint(r.Wrong)
		}
		fmt.Fprintf(b, "  %10s  %8.2f  %8.2f  %6s", short(r.Median), r.Figures["algbw_gbs"], r.Figures["busbw_gbs"],
			wrong)
	}
	b.WriteString("\n")
}

func ncclType(dtype string) string {
	return map[string]string{"f32": "float", "f64": "double", "i32": "int32", "i64": "int64", "u8": "uint8",
		"bf16": "bfloat16"}[dtype]
}
