package e2e

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// good is a job of two ranks that ends quickly. Each case makes one mistake in it. Messages have the numbers of its
// lines.
const good = `cluster:
  num_nodes: 1
  component_placement:
    actor: 0-1
    env: 0
    rollout: 1
runner:
  max_steps: 2
  save_interval: 1
env:
  train:
    env_type: CartPole-v1
    total_num_envs: 8
    max_steps_per_rollout_epoch: 8
  eval:
    max_steps_per_rollout_epoch: 500
algorithm:
  update_epoch: 1
actor:
  micro_batch_size: 16
  global_batch_size: 32
  model:
    model_type: mlp_policy
    hidden_sizes: [8]
  optim:
    lr: 1.0e-3
`

// refused runs a job that must be refused: with exit code 2, only want on standard error, and no change of any file.
func refused(t *testing.T, p *platform, dir string, np int, want string, args ...string) {
	t.Helper()
	refusedProgram(t, p, p.program(t, "."), dir, max(np, 0), want, args...)
}

func refusedProgram(t *testing.T, p *platform, program, dir string, np int, want string, args ...string) {
	t.Helper()
	before := contents(t, dir)
	r := p.startProgram(t, program, dir, np, args...).result()
	test.Equal(t, r.code, 2, "exit code")
	if r.stdout != "" {
		t.Errorf("on standard output: %s", r.stdout)
	}
	got := strings.Split(strings.TrimSuffix(withoutLaunchers(r.stderr), "\n"), "\n")
	lines := strings.Split(want, "\n")
	if !slices.EqualFunc(got, lines, like) {
		t.Errorf("rlinf %s\nsaid: %s\nwant: %s", strings.Join(args, " "), strings.Join(got, "\n      "),
			strings.Join(lines, "\n      "))
	}
	if after := contents(t, dir); !slices.Equal(after, before) {
		t.Errorf("files before:\n%s\nfiles after:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// like reports whether text matches pattern, in which "%" stands for any text.
func like(text, pattern string) bool {
	parts := strings.Split(pattern, "%")
	if len(parts) == 1 {
		return text == pattern
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) || !strings.HasSuffix(text[len(first):], last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// withoutLaunchers removes what Open MPI's launcher says about processes that end with an exit code.
func withoutLaunchers(text string) string {
	var b strings.Builder
	skip := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "-----"):
			skip = !skip
		case !skip:
			b.WriteString(line)
		}
	}
	return b.String()
}

// contents lists the folders and files below dir, with the modification times of files.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() { // the lock may appear and disappear
			path += " " + info.ModTime().String()
		}
		files = append(files, path)
		return nil
	})
	test.OK(t, err)
	return files
}
