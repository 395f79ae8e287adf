package plan

import (
	"os"
	"testing"
)

// TestMain runs the tests in the parent folder, like those of all packages below roles.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
