// Package python_test runs the Python client's own tests, which are in Python.
package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
)

func TestPython(t *testing.T) {
	python := python(t, "numpy")
	// so that go test reruns after a change of a file
	for _, glob := range []string{"rlb/*.py", "tests/*.py", "bench/*.py"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", glob, err)
		}
		for _, file := range files {
			test.Must(os.Stat(file))(t)
		}
	}
	unittest(t, python, "test*.py")
}

// TestTorch runs environments that return tensors of torch. TestPython uses a stand-in for tensors.
func TestTorch(t *testing.T) {
	unittest(t, python(t, "numpy", "torch"), "torch_*.py")
}

// TestHDF5 converts files that h5py writes.
func TestHDF5(t *testing.T) {
	unittest(t, python(t, "numpy", "h5py"), "hdf5_*.py")
}

// unittest runs the tests of the files that match the pattern.
func unittest(t *testing.T, python, pattern string) {
	cmd := exec.CommandContext(t.Context(), python, "-m", "unittest", "discover", "-s", "tests", "-p", pattern)
	cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// TestChecked runs rlinf's check of the whole protocol on children of each kind. Vector environments of Gymnasium
// refuse a part of the protocol.
func TestChecked(t *testing.T) {
	python := python(t, "numpy")
	t.Setenv("PYTHONPATH", ".")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	kinds, only := map[string]string{"rich": ""}, "STEP"
	if os.Getenv("RLINF_TEST_FULL") != "" { // each starts Python a hundred times
		only = ""
		kinds = map[string]string{
			"single": "", "rich": "", "batch": "", "solver": "", "same step": "can't", "next step": "can't",
			"disabled": "can't",
		}
	}
	run := func(kind, only, lacks string) {
		t.Run(kind+" "+only, func(t *testing.T) {
			check := external.BridgeCheck{Command: []string{python, "tests/children.py", kind}, Envs: 3, Steps: 40,
				Timeout: time.Minute, Only: only}
			check.Run(func(v external.RuleResult) {
				if only == "EXPERT" && v.Skipped != "" {
					t.Errorf("%s: skipped: %s", v.Rule, v.Skipped)
				}
				if v.Err != nil && (lacks == "" || !strings.Contains(v.Err.Error(), lacks)) {
					t.Errorf("%s: %v", v.Rule, v.Err)
				}
			})
		})
	}
	for kind, lacks := range kinds {
		run(kind, only, lacks)
	}
	for _, kind := range []string{"single", "rich", "batch", "solver"} {
		run(kind, "EXPERT", "")
	}
}

// python finds a Python with these modules: the one in PATH, or the system's own.
func python(t testing.TB, modules ...string) string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+strings.Join(modules, ", ")).Run() == nil {
			return python
		}
	}
	t.Skipf("no python3 with %s: apt-get install python3-%s", strings.Join(modules, " and "),
		strings.Join(modules, " python3-"))
	return ""
}
