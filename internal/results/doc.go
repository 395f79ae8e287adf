// Package results reads what runs have left, and says what their figures are worth: means over
// seeds with confidence intervals, tables, and curves.
//
//	groups, err := results.Load("logs/sweep", "eval/") // runs that differ in their seeds together
//	finals := groups[0].At("eval/return", math.Inf(1))
//	fmt.Println(results.NewEstimate(finals))
//
// A Run is read from a run's folder, or from a file that Keep wrote: the evaluations alone, small
// enough to be kept beside the code.
//
// Intervals are Student's, at 95 %: seeds are few, and resampling few values makes intervals too
// short. One seed has none.
package results
