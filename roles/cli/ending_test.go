package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// A crash of Go's runtime does not end with exit code 2, which means wrong usage. A child process has the default
// SIGPIPE, and a crash leaves no core file.
func TestEndOnlyAsDocumented(t *testing.T) {
	if os.Getenv("RLINF_TEST_CRASH") != "" {
		endOnlyAsDocumented()
		new(sync.Mutex).Unlock() // a fatal error, from which there is no recovery
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "RLINF_TEST_CRASH=yes")
	out, _ := cmd.CombinedOutput()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGABRT ||
		!strings.Contains(string(out), "fatal error: ") {
		t.Errorf("a crash: %v, expected SIGABRT, which a shell calls 134\n%s", cmd.ProcessState, out)
	}

	defer endOnlyAsDocumented()()
	text, err := exec.Command("sh", "-c", "ulimit -Sc; kill -PIPE $$; echo ignored").Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE ||
		string(text) != "0\n" {
		t.Errorf("a program that is started: %v, says %q", err, text)
	}
}

// A command that only prints succeeds, even if nobody reads its output.
func TestNobodyReads(t *testing.T) {
	if os.Getenv("RLINF_TEST_NOBODY") != "" {
		os.Exit(Run([]string{"rlinf", "help"}, rolestest.Registries(), tasks(), Own{}))
	}
	r, w, err := os.Pipe()
	test.OK(t, err)
	r.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "RLINF_TEST_NOBODY=yes")
	cmd.Stdout, cmd.Stderr = w, w
	test.Check(t, cmd.Run())
}

// A run that resumes names exactly the steps whose metrics it lacks.
func TestResumeNamesLostMetrics(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if code := Run(append(append([]string{"rlinf"}, momentary(dir)...), args...), rolestest.Registries(),
			tasks(), Own{}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	run()
	metrics := filepath.Join(dir, "grid", "metrics.jsonl")
	text := readFile(t, metrics)
	lines := strings.SplitAfter(text, "\n") // four, as a crash leaves them
	writeFile(t, metrics, lines[0]+"{\x00\x00\n"+lines[2])
	run("--resume", "auto", "runner.max_epochs=6")
	log, err := os.ReadFile(filepath.Join(dir, "grid", "logs", "rank-0000.log"))
	if want := "warning: " + metrics + " lacks the metrics of step 2\nwarning: " + metrics +
		" lacks the metrics of step 4\n"; !strings.Contains(string(log), want) {
		t.Errorf("%q, %v, expected %q", log, err, want)
	}
	os.Remove(filepath.Join(dir, "grid", "logs", "rank-0000.log"))
	run("--resume", "auto", "runner.max_epochs=8")
	if log, _ := os.ReadFile(filepath.Join(dir, "grid", "logs", "rank-0000.log")); strings.Contains(string(log),
		"lacks") {
		t.Errorf("metrics that are not lost: %s", log)
	}
}
