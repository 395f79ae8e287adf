//go:build !amd64

package external

// takeLines copies nothing: the gain was measured on amd64 only.
func takeLines(_, _ []byte) int { return 0 }

func pause() {}
