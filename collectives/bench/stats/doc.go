// Package stats describes sets of timings: medians with their confidence intervals,
// percentiles, a rank test that tells a change from noise, when a measurement may stop, and the
// straight line through times by size.
//
// Timings are neither normal nor symmetric, so nothing here assumes that they are (Hoefler and
// Belli, "Scientific Benchmarking of Parallel Computing Systems", SC'15). Samples of one
// measurement have one unit, which the caller chooses. Samples need not be sorted. No function
// changes its arguments.
package stats
