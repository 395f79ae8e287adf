package e2e

import (
	"path/filepath"
	"testing"
)

// verified repeats all of a run by rlinf verify, in one process. The run may come from other ranks, after kills and
// moves: its numbers must repeat.
func verified(t testing.TB, dir, run string) {
	t.Helper()
	local.ok(t, dir, 0, "verify", "--all", "--out", filepath.Join(t.TempDir(), "receipt.json"), run)
}
