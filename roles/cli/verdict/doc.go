// Package verdict answers: does this configuration run, and if not, what does it take?
package verdict
