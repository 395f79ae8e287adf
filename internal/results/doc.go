// Package results answers: what have runs achieved, over all seeds? It reads their metrics, and gives means with
// confidence intervals, tables, and curves.
//
//	groups, err := results.Load("logs/sweep", "eval/") // a group has runs that differ only in their seeds
//	finals := groups[0].At("eval/return", math.Inf(1))
//	fmt.Println(results.NewEstimate(finals))
//
// A Standing is the state of a run that may still be running: its status, step, rate and remaining time.
//
// A Run comes from a run's folder, or from a file written by Keep. Such a file has only evaluations, so it is small
// enough for version control.
//
// Intervals are Student's 95 % intervals: bootstrap intervals would be too short for few seeds. A single seed has no
// interval.
package results
