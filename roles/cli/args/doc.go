// Package args answers: what do the arguments of a command mean? It reads configurations, overrides and numbers of
// ranks, and opens the ranks of this process.
package args
