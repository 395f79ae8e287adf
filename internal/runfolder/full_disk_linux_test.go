package runfolder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// STATUS becomes right even on a disk without room for one more file.
func TestStatusOnFullDisk(t *testing.T) {
	for _, c := range []struct {
		name, options string
		fill          func(t *testing.T, dir string) error // fills the disk of dir
	}{
		{"no bytes", "size=64k", func(t *testing.T, dir string) error {
			f, err := os.Create(filepath.Join(dir, "filler"))
			test.OK(t, err)
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			return err
		}},
		{"no inodes", "nr_inodes=8", func(t *testing.T, dir string) (err error) {
			for i := 0; err == nil; i++ {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o666)
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, c.options); err != nil {
				t.Skipf("mounting a small tmpfs needs root: %v", err)
			}
			defer syscall.Unmount(dir, 0)
			f, err := runfolder.Open(dir, "")
			if err == nil {
				err = f.SetStatus(runfolder.Running)
			}
			test.OK(t, err)
			if err := c.fill(t, dir); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			for _, s := range []runfolder.Status{runfolder.Failed, runfolder.Checkpointed, runfolder.Done} {
				test.Check(t, runfolder.Mark(dir, s))
				if text, err := os.ReadFile(filepath.Join(dir, "STATUS")); err != nil ||
					string(text) != string(s)+"\n" {
					t.Errorf("STATUS holds %q, %v, expected %s", text, err, s)
				}
			}
			test.Check(t, f.Close())
			if left, _ := filepath.Glob(filepath.Join(dir, "*STATUS?*")); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
