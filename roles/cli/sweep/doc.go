// Package sweep answers: which settings train best? It is the command rlinf sweep, which trains each point of a
// grid of settings with several seeds, on the available ranks.
package sweep
