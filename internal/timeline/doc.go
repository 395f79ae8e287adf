// Package timeline answers: what does the trace of a run say about where the time went, and why? Its functions are
// pure: the same trace gives the same result, in the same order. They read no file and no clock.
//
//	table := timeline.Waits(a)                       // seconds of each worker by cause
//	path := timeline.CriticalPath(a, &a.Windows[0])  // what bounded an iteration
//	shares := timeline.SharesOf(a, path)             // the path by component, site and link
//	findings := timeline.Conclude(attempts, load)            // at most five sentences
//
// An iteration has a critical path: the chain of work and transfers that ends with the iteration. Only a shorter chain
// makes the iteration shorter. CriticalPath follows the chain back from the end of the iteration. At a wait it
// continues at the worker that ended the wait.
//
// Times of single spans are integers in nanoseconds, on the clock of the trace. Sums of times are in seconds. Workers
// are indices in Attempt.Workers. A damaged or incomplete trace gives incomplete results, but never an error.
package timeline
