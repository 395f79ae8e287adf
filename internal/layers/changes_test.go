package layers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestChangeNotes: scripts/release accepts the notes in changes, and joins notes into a changelog. It refuses a note
// without a kind, and then changes no file.
func TestChangeNotes(t *testing.T) {
	if out, err := exec.Command("../../scripts/release", "--notes").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		test.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o777))
	}
	write("scripts/release", string(test.Must(os.ReadFile("../../scripts/release"))(t)))
	const head, old = "# Changelog\n\nNewest first.\n\n", "## 0.1.0 (2026-11-25)\n\n### Added\n- all\n"
	const unreleased = "## Unreleased\n\nFor all: one.\n\n### Added\n- one\n  of two lines\n\n### Fixed\n- two\n\n"
	write("CHANGELOG.md", head+unreleased+old)
	write("changes/README.md", "# Change notes\n")
	write("changes/b.md", "Added: four\n")
	write("changes/a.md", "Added: three\nof two lines\n")
	write("changes/c.md", "Changed: five\n")
	release := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(dir, "scripts", "release"), args...).CombinedOutput()
		return string(out), err
	}
	joined := "\n\nFor all: one.\n\n### Added\n- one\n  of two lines\n- three\n  of two lines\n- four\n\n" +
		"### Changed\n- five\n\n### Fixed\n- two\n\n" + old
	out, err := release("--notes")
	test.OK(t, err)
	test.Equal(t, out, head+"## Unreleased"+joined)

	write("changes/d.md", "Better: six\n")
	out, err = release("--version", "0.2.0")
	if err == nil || !strings.Contains(out, "changes/d.md: expected a note") {
		t.Errorf("a note without a kind: %v, %s", err, out)
	}
	test.OK(t, os.Remove(filepath.Join(dir, "changes", "d.md")))
	if out, err := release("--version", "0.1.0"); err == nil || !strings.Contains(out, "has that version already") {
		t.Errorf("an old version: %v, %s", err, out)
	}
	page := string(test.Must(os.ReadFile(filepath.Join(dir, "CHANGELOG.md")))(t))
	test.Equal(t, page, head+unreleased+old, "after two refusals")

	_, err = release("--version", "0.2.0")
	test.OK(t, err)
	page = string(test.Must(os.ReadFile(filepath.Join(dir, "CHANGELOG.md")))(t))
	heading, rest, _ := strings.Cut(strings.TrimPrefix(page, head), "\n")
	if !strings.HasPrefix(heading, "## 0.2.0 (20") || "\n"+rest != joined {
		t.Errorf("CHANGELOG.md of 0.2.0:\n%s", page)
	}
	out, err = release("--notes")
	test.OK(t, err)
	test.Equal(t, out, page, "with nothing unreleased")
	left := test.Must(filepath.Glob(filepath.Join(dir, "changes", "*")))(t)
	test.Equal(t, len(left), 1, "files in changes: %v", left)
}
