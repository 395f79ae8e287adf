package checkpoint_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small tmpfs needs root: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	s := open(t, dir, 1)
	test.Must(s.Save(checkpoint.Info{Step: 10, Config: config},
		checkpoint.BytesFile("actor", pattern(400_000, 1))))(t)
	_, err := s.Save(checkpoint.Info{Step: 20, Config: config}, checkpoint.BytesFile("actor", pattern(800_000, 2)))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	want(t, dir, "global_step_10", "latest")
	if c, rejected, err := s.Newest(); err != nil || c == nil || c.Step != 10 || rejected != nil {
		t.Errorf("got %+v, %v, %v, want step 10", c, rejected, err)
	}
}
