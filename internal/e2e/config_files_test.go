package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestConfigFiles gives rlinf files that are no configuration.
func TestConfigFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "job.yaml: empty, expected a YAML map of settings"},
		{"only a comment", "# nothing\n", "job.yaml: empty, expected a YAML map of settings"},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", "job.yaml: not a configuration: binary, expected YAML text in UTF-8"},
		{"list", "- actor\n- env\n", "job.yaml:1: expected a YAML map of settings, got a list"},
		{"bracket left open", "cluster:\n  ranks: [1,\nrunner: 2\n", "job.yaml:%: not valid YAML: %"},
		{"tab", "cluster:\n\tnum_nodes: 1\n",
			"job.yaml:2: not valid YAML: found character that cannot start any token"},
		{"key twice", strings.Replace(good, "max_steps: 2", "max_steps: 2\n  max_steps: 3", 1),
			"job.yaml:9: runner.max_steps: %"},
		{"interpolation of nothing", strings.Replace(good, "max_steps: 2", "max_steps: ${runner.steps}", 1),
			"job.yaml:8: runner.max_steps: ${runner.steps}: %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", c.text)
			refused(t, local, dir, 0, c.want, "-c", "job.yaml")
		})
	}
}

// TestConfigPaths: a path of a configuration may name nothing, a folder, a device, or a pipe.
func TestConfigPaths(t *testing.T) {
	t.Parallel()
	t.Run("missing", func(t *testing.T) {
		refused(t, local, t.TempDir(), 0, "job.yaml: no such file", "-c", "job.yaml")
	})
	t.Run("folder", func(t *testing.T) {
		dir := t.TempDir()
		test.OK(t, os.Mkdir(filepath.Join(dir, "job.yaml"), 0o777))
		refused(t, local, dir, 0, "job.yaml: is a folder, expected a YAML file", "-c", "job.yaml")
	})
	t.Run("endless", func(t *testing.T) {
		refused(t, local, t.TempDir(), 0, "/dev/zero: cannot be read: more than 16 MiB", "-c", "/dev/zero")
	})
	t.Run("a pipe", func(t *testing.T) { // rlinf reads it once, although two readers use the text
		dir := t.TempDir()
		for _, args := range [][]string{{"check", "-c", "pipe.yaml", "-np", "4"},
			{"sweep", "-c", "pipe.yaml", "--seeds", "2", "runner.max_steps=1"}} {
			pipe := filepath.Join(dir, "pipe.yaml")
			test.OK(t, syscall.Mkfifo(pipe, 0o666))
			go os.WriteFile(pipe, []byte(good), 0)
			if r := local.run(t, dir, -1, args...); args[0] == "sweep" && r.code != 0 || args[0] == "check" &&
				!strings.Contains(r.stderr, "cluster.allow_idle_ranks=true") {
				t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
			}
			os.Remove(pipe)
		}
	})
	t.Run("a pipe as preset", func(t *testing.T) {
		dir := t.TempDir()
		test.OK(t, syscall.Mkfifo(filepath.Join(dir, "other.yaml"), 0o666))
		writeFile(t, dir, "job.yaml", "defaults: [other]\n"+good)
		refused(t, local, dir, 0, "other.yaml: cannot be read: is a pipe, expected a file", "-c", "job.yaml")
	})
	t.Run("not named", func(t *testing.T) {
		refused(t, local, t.TempDir(), 0,
			"no configuration: expected -c FILE.yaml, for example -c configs/cartpole_ppo.yaml (rlinf help says more)")
	})
}
