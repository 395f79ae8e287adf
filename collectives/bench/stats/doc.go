// Package stats has the statistics of timings: medians with confidence intervals, percentiles, a rank test that
// distinguishes a change from noise, a rule for the end of a measurement, and a linear fit of times by size.
//
// Timings are neither normal nor symmetric, so nothing here assumes that they are (Hoefler and Belli, "Scientific
// Benchmarking of Parallel Computing Systems", SC'15). Samples of one measurement have one unit, which the caller
// chooses. Samples need not be sorted. No function changes its arguments.
package stats
