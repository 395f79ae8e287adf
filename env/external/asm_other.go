//go:build !amd64

package external

// takeLines copies nothing, because only the assembly for amd64 exists.
func takeLines(_, _ []byte) int { return 0 }

func pause() {}
