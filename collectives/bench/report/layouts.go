package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// A block identifies the rows under one heading in the layouts of OSU and nccl-tests: one operation by one algorithm on
// one group.
type block struct{ title, dtype string }

// blocks returns each block with its rows. Blocks come in the order in which their first rows were measured.
func (r *Report) blocks() iter.Seq2[block, []*Row] {
	return Group(r.rows(), func(row *Row) block {
		memory := strings.TrimSuffix(row.Memory, "+out")
		return block{join(", ", row.Op, row.Algorithm, memory, plural(row.Ranks, "rank")), row.DType}
	})
}

// osu returns the report in the layout of the OSU Micro-Benchmarks. Latencies are means, as in OSU, but each sample is
// the maximum over the ranks.
func (r *Report) osu() (string, error) {
	var b strings.Builder
	for of, rows := range r.blocks() {
		fmt.Fprintf(&b, "\n# %s, in the layout of OSU\n", of.title)
		if t := typeNames[of.dtype].mpi; t != "" {
			fmt.Fprintf(&b, "# Datatype: %s.\n", t)
		}
		slices.SortStableFunc(rows, bySize)
		for i, row := range rows {
			heads, line := osuLine(r.Bench, row)
			if i == 0 {
				b.WriteString(heads + "\n")
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String(), nil
}

// osuLine returns the column heads and the line of a row, in the layout of OSU's benchmark of the same name.
func osuLine(bench string, row *Row) (heads, line string) {
	add := func(head string, width int, text string) {
		heads, line = heads+fmt.Sprintf("%*s", width, head), line+fmt.Sprintf("%*s", width, text)
	}
	number := func(head string, width int, x float64) { add(head, width, fmt.Sprintf("%.2f", x)) }
	add("# Size", -10, fmt.Sprint(row.Size))
	switch {
	case bench == "overlap":
		number("Overall(us)", 18, row.Figures["overall_us"])
		number("Compute(us)", 18, row.Figures["compute_us"])
		number("Pure Comm.(us)", 18, row.Figures["pure_us"])
		number("Overlap(%)", 18, row.Figures["overlap_pct"])
	case bench == "p2p" && (row.Op == "bandwidth" || row.Op == "bibandwidth"):
		number("Bandwidth (MB/s)", 20, 1e3*row.Figures["bw_gbs"])
	case bench == "p2p" && row.Op == "message_rate":
		number("MB/s", 20, 1e3*row.Figures["bw_gbs"])
		number("Messages/s", 20, row.Figures["msgs_s"])
	case bench == "p2p":
		number("Latency (us)", 20, stat.Mean(row.Samples, nil))
	default:
		pass := "-"
		if row.Checked > 0 {
			if pass = "Pass"; row.Wrong > 0 {
				pass = "Fail"
			}
		}
		number("Avg Latency(us)", 20, stat.Mean(row.Samples, nil))
		number("Min Latency(us)", 18, row.Min)
		number("Max Latency(us)", 18, row.Max)
		add("Iterations", 12, fmt.Sprint(len(row.Samples)))
		add("Validation", 18, pass)
	}
	return heads, line
}

// typeNames has the names of element types in MPI and in nccl-tests.
var typeNames = map[string]struct{ mpi, nccl string }{
	"f32":  {"MPI_FLOAT", "float"},
	"f64":  {"MPI_DOUBLE", "double"},
	"i32":  {"MPI_INT32_T", "int32"},
	"i64":  {"MPI_INT64_T", "int64"},
	"u8":   {"MPI_UINT8_T", "uint8"},
	"bf16": {"MPI_UINT16_T", "bfloat16"},
}

// nccl returns the report in the layout of nccl-tests. Times are medians. A row with "+out" in its Memory fills the
// columns for out of place.
func (r *Report) nccl() (string, error) {
	var b strings.Builder
	wrong, sum := int64(0), 0.0
	for _, row := range r.Rows {
		wrong += row.Wrong
		sum += row.Figures["busbw_gbs"]
	}
	for of, rows := range r.blocks() {
		ncclHead(&b, of.title)
		for _, same := range BySize(rows) {
			var places [2]*Row // out of place, in place
			for _, row := range same {
				at := 1
				if strings.HasSuffix(row.Memory, "+out") {
					at = 0
				}
				places[at] = row
			}
			ncclLine(&b, places)
		}
	}
	verdict := "OK"
	if wrong > 0 {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %d %s\n# Avg bus bandwidth    : %.6g\n#\n", wrong, verdict,
		sum/float64(max(1, len(r.Rows))))
	return b.String(), nil
}

func ncclHead(b *strings.Builder, title string) {
	fmt.Fprintf(b, "#\n# %s, in the layout of nccl-tests; time: median of the maximum over ranks\n", title)
	fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s  %38s  %38s\n", "", "", "", "", "", "out-of-place              ",
		"in-place              ")
	half := func(texts ...any) string { return strings.Repeat(fmt.Sprintf("  %10s  %8s  %8s  %6s", texts...), 2) }
	fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s%s\n", "size", "count", "type", "redop", "root",
		half("time", "algbw", "busbw", "#wrong"))
	fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s%s\n", "(B)", "(elements)", "", "", "",
		half("(us)", "(GB/s)", "(GB/s)", ""))
}

// ncclLine writes the results of one size, out of place and in place.
func ncclLine(b *strings.Builder, places [2]*Row) {
	row := cmp.Or(places[0], places[1])
	fmt.Fprintf(b, "  %10d  %12d  %8s  %6s  %6s", row.Size, row.Count, cmp.Or(typeNames[row.DType].nccl, "none"),
		cmp.Or(row.RedOp, "none"), cmp.Or(row.Root, "-1"))
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
