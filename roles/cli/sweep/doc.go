// Package sweep answers: which settings train best? It is the command rlinf sweep, which trains each point of a
// grid of settings with several seeds, as many runs at a time as the ranks allow.
package sweep
