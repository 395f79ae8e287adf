//go:build !amd64

package external

// takeLines is for processors on which it was measured.
func takeLines(_, _ []byte) int { return 0 }
