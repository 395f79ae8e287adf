// Package trace answers: what did every worker do, and when? A Recorder writes the spans of one goroutine into memory:
// work, and waits by what is awaited. A Log keeps some iterations whole, and the sums of all, in the run's folder. Read
// returns what the files tell.
package trace
