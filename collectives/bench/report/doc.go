// Package report holds the results of a benchmark: the machine, a row with all samples for each measurement, and the
// lines fitted through the times. It writes the results in forms for people and programs.
//
//	out, err := report.NewWriter("table", os.Stdout)
//	err = out.Update(r)                   // the header
//	r.Rows = append(r.Rows, row)
//	err = out.Update(r)                   // the row, as soon as it is measured
//	err = out.End(r)                      // fits, notes
//
// Every row is a set of times, so smaller is better. Compare distinguishes regressions from noise. Times are in
// microseconds, sizes in bytes, bandwidths in 10⁹ bytes per second. The JSON form has everything, and Read reads it.
// Its schema has a number, which changes when a field changes its meaning or is removed.
package report
