// Package trace answers: what did every worker do, and when? A Recorder writes the spans of one goroutine into memory:
// its work, and its waits with what it waits for. A Log writes the spans of some iterations, and the sums of all
// iterations, into the run's folder. Read reads these files.
package trace
