package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func TestCommand(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	test.OK(t, run(strings.Fields("-ranks 4,8 -beyond 64 -strong 0 -skew 0.2 -iterations 1 -warmup 0 -steps 4 "+
		"-minibatches 2 -stretch 2 -fit 4 -out "+folder), &out))
	if text := out.String(); strings.Count(text, "weak ") != 3 || !strings.Contains(text, "\nweak      0.2     64") {
		t.Errorf("table:\n%s", text)
	}
	for _, name := range []string{"scaling.csv", "scaling.json", "scaling.svg"} {
		if s, err := os.Stat(filepath.Join(folder, name)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{"-ranks many", "-skew x", "-beyond ,", "-unknown"} {
		if err := run(strings.Fields(args), new(bytes.Buffer)); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", args, err)
		}
	}
	var out bytes.Buffer
	if err := run([]string{"-help"}, &out); err != nil || !strings.Contains(out.String(), "-ranks") {
		t.Errorf("-help: %v, %s", err, out.String())
	}
}
