package external

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestSecret: ranks that make a token file at the same time have the same secret, and nobody else may read it.
func TestSecret(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		var secrets [8]string
		var ranks sync.WaitGroup
		for i := range secrets {
			ranks.Go(func() {
				var err error
				if secrets[i], err = secret(file); err != nil {
					t.Error(err)
				}
			})
		}
		ranks.Wait()
		for _, s := range secrets {
			if len(s) != 64 || s != secrets[0] {
				t.Fatalf("secrets %q", secrets)
			}
		}
		info, err := os.Stat(file)
		left, _ := os.ReadDir(dir)
		if err != nil || info.Mode().Perm() != 0o600 || len(left) != 1 {
			t.Fatalf("%v, mode %v, %d files", err, info.Mode(), len(left))
		}
	}
}
