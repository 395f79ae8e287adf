// Package bench answers: how fast is this machine? It is the command rlinf bench, which measures collectives, messages,
// channels, weights, environments, and whole jobs on several numbers of ranks.
package bench
