// Package probe answers: how fast are the cores, the links and the sums of this machine? It measures for a second or
// so, between goroutine ranks, and returns a planner.Machine.
package probe
