package external

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestWithClient: children find the client beside the program, after what the user's PYTHONPATH has.
func TestWithClient(t *testing.T) {
	dir := t.TempDir()
	client := filepath.Join(dir, "clients", "python")
	program := func() (string, error) { return filepath.Join(dir, "rlinf"), nil }
	test.EqualSlices(t, withClient([]string{"A=1"}, program), []string{"A=1"}, "no client")
	test.OK(t, os.MkdirAll(filepath.Join(client, "rlb"), 0o777))
	for _, c := range [][2]string{{"A=1", "PYTHONPATH=" + client}, {"PYTHONPATH=/own", "PYTHONPATH=/own:" + client}} {
		got := withClient([]string{c[0]}, program)
		if got[len(got)-1] != c[1] {
			t.Errorf("%s: %q, want %s", c[0], got, c[1])
		}
	}
}
