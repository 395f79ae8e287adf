package runfolder_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

func TestUnwritableFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sealed")
	test.OK(t, os.Mkdir(path, 0o555))
	if os.Getuid() == 0 {
		if err := syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("root writes everywhere, and cannot mount a read-only file system here: %v", err)
		}
		defer syscall.Unmount(path, 0)
	}
	test.Fails(t, test.Err(runfolder.Open(path, "")), path+": cannot write in it: ")
}
