package runfolder_test

import (
	"os"
	"path/filepath"
	"strings"
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
	if _, err := runfolder.Open(path, ""); err == nil || !strings.Contains(err.Error(), path+": cannot write in it: ") {
		t.Errorf("got %v", err)
	}
}
