// Package browser answers: does a browser show the pages of rlinf report? It has only tests.
package browser
