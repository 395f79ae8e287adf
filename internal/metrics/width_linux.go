package metrics

import (
	"os"

	"golang.org/x/sys/unix"
)

// Width returns the columns of the terminal f, 0 where that is not known.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
