package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestTuningTutorial follows docs/tutorials/fine-tuning.md line by line. Commands that train take two steps.
func TestTuningTutorial(t *testing.T) {
	t.Parallel()
	text, dir := followed(t, "fine-tuning.md", "bash", "head")
	writeFile(t, dir, "lora.yaml", test.Blocks(text, "yaml")[0])
	for _, script := range test.Blocks(text, "bash") {
		lines := strings.Split(script, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "./rlinf -c") {
				lines[i] += " runner.max_steps=2"
			}
		}
		bash := exec.Command("bash", "-euc", strings.Join(lines, "\n"))
		bash.Dir = dir
		if out, err := bash.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v: %s", script, err, out)
		} else if strings.Contains(script, " check ") &&
			(!strings.Contains(string(out), "model: 189568 parameters, 76816 of them trained\nsizes: qwen2, 4 layers "+
				"of width 64, ") || strings.Contains(string(out), "hidden_size")) {
			t.Errorf("check: %s", out)
		}
	}
}

// followed returns the text of a page of docs/tutorials, and a folder with rlinf and configs, in which its commands
// run. It skips the test if a tool is missing.
func followed(t *testing.T, page string, tools ...string) (text, dir string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	b := readFile(t, filepath.Join(root, "docs", "tutorials", page))
	top := test.Must(filepath.Abs(root))(t)
	dir = t.TempDir()
	for name, target := range map[string]string{"configs": filepath.Join(top, "configs"),
		"rlinf": local.program(t, ".")} {
		test.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	return b, dir
}
