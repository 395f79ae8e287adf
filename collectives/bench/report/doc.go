// Package report has the results of a benchmark: the machine, a row for each thing measured with all
// its samples, and the lines fitted through them. It writes them in forms for people and programs.
//
//	out, err := report.NewWriter("table", "collectives", os.Stdout)
//	err = out.Update(r)                   // the header
//	r.Rows = append(r.Rows, row)
//	err = out.Update(r)                   // the row, as soon as it is measured
//	err = out.End(r)                      // fits, notes
//
// Every row is a set of times, so smaller is always better, and Compare tells a regression from noise
// for any of them. Times are in microseconds, sizes in bytes, bandwidths in 10⁹ bytes
// per second. The JSON form has all of it and can be read back; its schema has a number, which
// changes when a field changes its meaning or goes.
package report
