package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestResultsScript checks two claims by scripts/results in a tree of its own. It meets one claim, keeps the results,
// and misses the other.
func TestResultsScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, sub := range []string{"scripts", "configs", "docs/results/data"} {
		test.OK(t, os.MkdirAll(filepath.Join(dir, sub), 0o777))
	}
	script := readFile(t, filepath.Join(root, "scripts", "results"))
	test.OK(t, os.WriteFile(filepath.Join(dir, "scripts", "results"), []byte(script), 0o777))
	writeFile(t, dir, "configs/job.yaml", good)
	writeFile(t, dir, "docs/results.md", "# Results\n<!-- table -->\nold\n<!-- end of table -->\nthe rest\n")
	writeFile(t, dir, "docs/results/claims", "# names\n"+
		"easy | short | job runner.val_check_interval=1 | CartPole-v1 | PPO | eval/return | 1 | 490.0 ± 6 CleanRL\n"+
		"hard | long | job runner.val_check_interval=1 algorithm.gamma=0.9 | CartPole-v1 | PPO | eval/return | 1000 "+
		"|\n")
	program := local.program(t, ".")
	results := func(code int, args ...string) (out string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "scripts", "results"), args...)
		cmd.Env = append(os.Environ(), "RLINF="+program, "SEEDS=2", "LOGS="+filepath.Join(dir, "logs"))
		text, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("results %q: exit code %d, want %d\n%s", args, cmd.ProcessState.ExitCode(), code, text)
		}
		return string(text)
	}
	page := func() string {
		text := readFile(t, filepath.Join(dir, "docs", "results.md"))
		return text
	}

	if out := results(0); !strings.Contains(out, "easy: CartPole-v1, PPO") || strings.Contains(out, "hard") {
		t.Errorf("the short ones: %s", out)
	}
	results(0, "keep", "easy", filepath.Join(dir, "logs", "easy-sweep"))
	if out := results(3, "hard"); !strings.Contains(out, "results: missed: hard") ||
		!strings.Contains(out, "expected at least 1000") {
		t.Errorf("a figure that is not reached: %s", out)
	}
	lines := strings.Split(page(), "\n")
	if len(lines) != 9 || lines[0] != "# Results" || lines[7] != "the rest" ||
		!like(lines[4], "| CartPole-v1 | PPO | `job runner.val_check_interval=1` | **%** | % to % | % | 1 to 2 | 128 "+
			"| [curve](results/easy.svg) | 1 | 490.0 ± 6 CleanRL |") {
		t.Errorf("the page:\n%s", page())
	}
	if !strings.Contains(page(),
		"| CartPole-v1 | PPO | `job runner.val_check_interval=1 algorithm.gamma=0.9` | not measured yet |") {
		t.Errorf("what is not measured:\n%s", page())
	}
	before := page()
	if results(0, "table"); page() != before {
		t.Errorf("again:\n%s\nbefore:\n%s", page(), before)
	}
	results(2, "keep", "other", filepath.Join(dir, "logs", "easy"))
	results(2, "other")
	results(2, "keep", "easy")
}
