// Package sweep answers: which settings train best? It is rlinf sweep, which trains a grid of
// settings with several seeds each, on the available ranks.
package sweep
