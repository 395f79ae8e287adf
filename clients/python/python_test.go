// Package python_test runs the tests of the Python client, which are Python's own.
package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env/external"
)

func TestPython(t *testing.T) {
	python := python(t)
	for _, glob := range []string{"rlb/*.py", "tests/*.py", "bench/*.py"} { // so go test knows what its result depends on
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", glob, err)
		}
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-m", "unittest", "discover", "-s", "tests")
	cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// TestChecked holds children of each kind against the whole protocol. Vector environments of Gymnasium can't do all of it, and say so.
func TestChecked(t *testing.T) {
	python := python(t)
	t.Setenv("PYTHONPATH", ".")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	kinds, only := map[string]string{"rich": ""}, "STEP"
	if os.Getenv("RLINF_TEST_FULL") != "" { // each starts Python a hundred times
		only = ""
		kinds = map[string]string{
			"single": "", "rich": "", "batch": "", "solver": "", "same step": "can't", "next step": "can't", "disabled": "can't",
		}
	}
	for kind, lacks := range kinds {
		t.Run(kind, func(t *testing.T) {
			check := external.Check{Command: []string{python, "tests/children.py", kind}, Envs: 3, Steps: 40, Timeout: time.Minute, Only: only}
			check.Run(func(v external.Verdict) {
				if v.Err != nil && (lacks == "" || !strings.Contains(v.Err.Error(), lacks)) {
					t.Errorf("%s: %v", v.Rule, v.Err)
				}
			})
		})
	}
}

// python finds a Python with NumPy: the one in PATH, or the system's own.
func python(t testing.TB) string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	t.Skip("no python3 with numpy: apt-get install python3-numpy")
	return ""
}
