package mpi_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// If a C file calls another one, that one does not call it back, directly or through other files.
func TestCFilesAreLayered(t *testing.T) {
	files, err := filepath.Glob("*.c")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v: want the package's C files", files, err)
	}
	text, home := map[string]string{}, map[string]string{} // the text of each file, and the file of each function
	definition := regexp.MustCompile(`(?m)^[a-z][^;{}=]*?\b(rl_\w+)\([^;{}]*\) \{`)
	for _, f := range files {
		b := test.Must(os.ReadFile(f))(t)
		text[f] = regexp.MustCompile(`//.*`).ReplaceAllString(string(b), "")
		for _, d := range definition.FindAllStringSubmatch(text[f], -1) {
			home[d[1]] = f
		}
	}
	if home["rl_wake_progress"] != "wake.c" || home["rl_wait"] != "request.c" {
		t.Fatalf("want rl_wake_progress in wake.c and rl_wait in request.c, among the functions %v", home)
	}
	calls := map[string]map[string]bool{}
	for _, f := range files {
		calls[f] = map[string]bool{}
		for _, c := range regexp.MustCompile(`\b(rl_\w+)\(`).FindAllStringSubmatch(text[f], -1) {
			if to := home[c[1]]; to != "" && to != f {
				calls[f][to] = true
			}
		}
	}
	var visit func(path []string)
	visit = func(path []string) {
		for _, to := range slices.Sorted(maps.Keys(calls[path[len(path)-1]])) {
			if at := slices.Index(path, to); at >= 0 {
				t.Errorf("files that call each other: %s", strings.Join(append(path[at:], to), " → "))
				continue
			}
			visit(append(slices.Clone(path), to))
		}
	}
	for _, f := range files {
		visit([]string{f})
	}
}
