// Package verdict answers: does a configuration run, and which overrides would make it run? rlinf check prints the
// Verdict.
package verdict
