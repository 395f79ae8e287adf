//go:build !linux

package metrics

import "os"

// Width returns the columns of the terminal f, 0 where that is not known.
func Width(*os.File) int { return 0 }
