// Package bench answers: how fast is this machine? It is rlinf bench: collectives, messages,
// channels, weights, environments, and whole jobs on several numbers of ranks.
package bench
