package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
)

// learn runs one of configs for so many iterations, and returns its metrics and what its evaluation behind them returns.
func learn(t *testing.T, config string, steps int, args ...string) (m metrics, evaluation float64) {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(root, "configs", config+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-c", path, fmt.Sprint("runner.max_steps=", steps), fmt.Sprint("runner.val_check_interval=", steps), "runner.save_interval=-1"}, args...)
	local.ok(t, dir, 0, args...)
	m = readMetrics(t, filepath.Join(dir, "logs", config))
	last := m[len(m)-1]
	if evaluation, err = strconv.ParseFloat(fmt.Sprint(last["eval/return"]), 64); err != nil {
		t.Fatalf("step %v: eval/return is %v", last["step"], last["eval/return"])
	}
	return m, evaluation
}
