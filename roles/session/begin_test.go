package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// A job that is asked to stop ends its wait for another job that has its folder.
func TestStoppedWhileFolderIsBusy(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(dir, "lock"), []byte(`{"host":"elsewhere","pid":1}`), 0o666))
	asked := new(loop.Requests)
	asked.Fail()
	_, err := New(Options{Asked: asked, Log: t.Output()}).lock(t.Context(), dir, true)
	if !errors.Is(err, external.ErrStopRequested) || !errors.As(err, new(*runfolder.BusyError)) {
		t.Errorf("got %v", err)
	}
}
