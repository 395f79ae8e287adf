// Package trace answers: what did every worker do, and when? A Recorder keeps the spans of one goroutine in memory: its
// work, and its waits by cause. A Log writes the spans of some iterations, and the sums of all iterations, into the
// run's folder. Read reads these files.
package trace
