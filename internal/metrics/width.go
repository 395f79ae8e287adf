package metrics

import (
	"os"

	"golang.org/x/sys/unix"
)

// Width returns the number of columns of the terminal f, or 0 if unknown.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
