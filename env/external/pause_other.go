//go:build !amd64

package external

func pause() {}
