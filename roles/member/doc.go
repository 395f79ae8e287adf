// Package member answers: what do workers of every task share? A worker is one member of a component. It records
// what it does when (Tracer), sums gradients with the other members (Replicas), and saves its part of the state
// of the run (State, Share).
package member
