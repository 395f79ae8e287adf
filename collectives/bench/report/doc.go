// Package report is what a benchmark hands over: the machine it ran on, a row for each thing
// measured with all its samples, the lines fitted through them; and the forms in which people and
// programs read it.
//
//	out, err := report.NewWriter("table", "collectives", os.Stdout)
//	err = out.Update(r)                   // the header
//	r.Rows = append(r.Rows, row)
//	err = out.Update(r)                   // the row, as soon as it is measured
//	err = out.End(r)                      // fits, notes
//
// Every row is a set of times: what is smaller is better, always, and Compare tells a regression
// from noise for any of them. Times are in microseconds, sizes in bytes, bandwidths in 10⁹ bytes
// per second. The JSON form has all of it and can be read back; its schema has a number, which
// changes when a field changes its meaning or goes.
package report
