package report

import (
	"fmt"
	"io"
	"strings"
)

// osu is the layout of the OSU Micro-Benchmarks, for programs that read theirs. Latencies are means, as theirs are, but over samples that are the
// maximum over the ranks.
type osu struct {
	w     io.Writer
	block string // what the rows since the last head are about
}

func (o *osu) Begin(r *Report) error {
	var b strings.Builder
	for _, line := range r.header() {
		b.WriteString("# " + line + "\n")
	}
	_, err := io.WriteString(o.w, b.String())
	return err
}

func (o *osu) Row(r *Report, row *Row) error {
	var b strings.Builder
	block := fmt.Sprintf("%s, %s, %d ranks", row.Op, row.Algorithm, row.Ranks)
	fresh := block != o.block
	if o.block = block; fresh {
		fmt.Fprintf(&b, "\n# %s, in the layout of OSU\n", strings.ReplaceAll(block, " ,", ""))
		if t := mpiType(row.DType); t != "" {
			fmt.Fprintf(&b, "# Datatype: %s.\n", t)
		}
	}
	head := func(format string, names ...any) {
		if fresh {
			fmt.Fprintf(&b, format, names...)
		}
	}
	switch {
	case r.Bench == "overlap":
		head("%-10s%18s%18s%18s%18s\n", "# Size", "Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)")
		fmt.Fprintf(&b, "%-10d%18.2f%18.2f%18.2f%18.2f\n", row.Size, row.Figures["overall_us"], row.Figures["compute_us"], row.Figures["pure_us"],
			row.Figures["overlap_pct"])
	case row.Op == "latency":
		head("%-10s%20s\n", "# Size", "Latency (us)")
		fmt.Fprintf(&b, "%-10d%20.2f\n", row.Size, mean(row.Samples))
	case row.Op == "message_rate":
		head("%-10s%20s%20s\n", "# Size", "MB/s", "Messages/s")
		fmt.Fprintf(&b, "%-10d%20.2f%20.2f\n", row.Size, 1e3*row.Figures["bw_gbs"], row.Figures["msgs_s"])
	case r.Bench == "p2p":
		head("%-10s%20s\n", "# Size", "Bandwidth (MB/s)")
		fmt.Fprintf(&b, "%-10d%20.2f\n", row.Size, 1e3*row.Figures["bw_gbs"])
	default:
		pass := "-"
		if row.Checked > 0 {
			if pass = "Pass"; row.Wrong > 0 {
				pass = "Fail"
			}
		}
		head("%-10s%20s%18s%18s%12s%18s\n", "# Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations", "Validation")
		fmt.Fprintf(&b, "%-10d%20.2f%18.2f%18.2f%12d%18s\n", row.Size, mean(row.Samples), row.Min, row.Max, len(row.Samples), pass)
	}
	_, err := io.WriteString(o.w, b.String())
	return err
}

func (o *osu) End(*Report) error { return nil }

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

func mpiType(dtype string) string {
	return map[string]string{"f32": "MPI_FLOAT", "f64": "MPI_DOUBLE", "i32": "MPI_INT32_T", "i64": "MPI_INT64_T", "u8": "MPI_UINT8_T", "bf16": "MPI_UINT16_T"}[dtype]
}

// nccl is the layout of nccl-tests. Times are medians; a row with "+copy" in its memory stands in the columns for out of place.
type nccl struct {
	w     io.Writer
	block string
	out   *Row // out of place, waits for its row in place
	sum   float64
	rows  int
}

func (f *nccl) Begin(r *Report) error {
	var b strings.Builder
	for _, line := range r.header() {
		b.WriteString("# " + line + "\n")
	}
	_, err := io.WriteString(f.w, b.String())
	return err
}

func (f *nccl) Row(_ *Report, row *Row) error {
	var b strings.Builder
	copies := strings.HasSuffix(row.Memory, "+copy")
	if f.out != nil && (copies || f.out.Op != row.Op || f.out.Algorithm != row.Algorithm || f.out.Ranks != row.Ranks || f.out.Size != row.Size || f.out.DType != row.DType) {
		f.line(&b, f.out, nil)
	}
	if copies {
		copied := *row
		f.out = &copied
	} else {
		f.line(&b, f.out, row)
	}
	_, err := io.WriteString(f.w, b.String())
	return err
}

// line writes one line of what was measured out of place, in place, or both.
func (f *nccl) line(b *strings.Builder, out, in *Row) {
	f.out = nil
	row := in
	if row == nil {
		row = out
	}
	if block := fmt.Sprintf("%s, %s, %d ranks", row.Op, row.Algorithm, row.Ranks); block != f.block {
		f.block = block
		fmt.Fprintf(b, "#\n# %s, in the layout of nccl-tests; time: median of the maximum over ranks\n", block)
		fmt.Fprintf(b, "# %10s  %12s  %8s  %6s  %6s  %38s  %38s\n", "", "", "", "", "", "out-of-place              ", "in-place              ")
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
	redop, root := row.RedOp, row.Root
	if redop == "" {
		redop = "none"
	}
	if root == "" {
		root = "-1"
	}
	fmt.Fprintf(b, "  %10d  %12d  %8s  %6s  %6s", row.Size, row.Count, ncclType(row.DType), redop, root)
	for _, r := range []*Row{out, in} {
		if r == nil {
			fmt.Fprintf(b, "  %10s  %8s  %8s  %6s", "N/A", "N/A", "N/A", "N/A")
			continue
		}
		wrong := "N/A"
		if r.Checked > 0 {
			wrong = fmt.Sprint(r.Wrong)
		}
		fmt.Fprintf(b, "  %10s  %8.2f  %8.2f  %6s", short(r.Median), r.Figures["algbw_gbs"], r.Figures["busbw_gbs"], wrong)
		f.sum += r.Figures["busbw_gbs"]
		f.rows++
	}
	b.WriteString("\n")
}

func (f *nccl) End(r *Report) error {
	var b strings.Builder
	if f.out != nil {
		f.line(&b, f.out, nil)
	}
	wrong := int64(0)
	for _, row := range r.Rows {
		wrong += row.Wrong
	}
	verdict := "OK"
	if wrong > 0 {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %d %s\n# Avg bus bandwidth    : %.6g\n#\n", wrong, verdict, f.sum/float64(max(1, f.rows)))
	_, err := io.WriteString(f.w, b.String())
	return err
}

func ncclType(dtype string) string {
	return map[string]string{"f32": "float", "f64": "double", "i32": "int32", "i64": "int64", "u8": "uint8", "bf16": "bfloat16"}[dtype]
}
