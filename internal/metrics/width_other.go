//go:build !linux

package metrics

import "os"

// Width returns the number of columns of the terminal f, or 0 if unknown.
func Width(*os.File) int { return 0 }
