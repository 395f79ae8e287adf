package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// readmes are the README in both languages.
var readmes = []string{"README.md", "README.zh-CN.md"}

// TestReadmeJob trains the job that each README shows.
func TestReadmeJob(t *testing.T) {
	t.Parallel()
	for _, name := range readmes {
		text := readFile(t, filepath.Join(root, name))
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", block(t, text, "yaml", "component_placement"))
		local.ok(t, dir, 0, append([]string{"-c", "job.yaml"}, short...)...)
		if m := readMetrics(t, filepath.Join(dir, "logs", "job")); len(m) != 2 {
			t.Errorf("%s: metrics of %d iterations, want 2", name, len(m))
		}
	}
}

// TestCounts: the READMEs count the results as the table of docs/results.md, and pages name the newest version.
func TestCounts(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readFile(t, filepath.Join(root, "docs/results.md")), "<!-- table -->")
	table, _, _ = strings.Cut(table, "<!-- end of table -->")
	rows := strings.Count(table, "\n| ") - 1
	version := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) `).FindStringSubmatch(readFile(t, filepath.Join(root,
		"CHANGELOG.md")))[1]
	for _, name := range append(readmes, "docs/extending.md") {
		text := readFile(t, filepath.Join(root, name))
		for _, count := range regexp.MustCompile(`(\d+)( results| 项结果)`).FindAllStringSubmatch(text, -1) {
			if count[1] != strconv.Itoa(rows) {
				t.Errorf("%s: %q, but docs/results.md has %d", name, count[0], rows)
			}
		}
		of := regexp.MustCompile(`rlinf[@ ]v([\w.-]*\w)`).FindAllStringSubmatch(text, -1)
		if len(of) == 0 {
			t.Errorf("%s names no version", name)
		}
		for _, v := range of {
			if v[1] != version {
				t.Errorf("%s: %q, but the newest version is %s", name, v[0], version)
			}
		}
	}
}

// TestOwnParts builds examples/own_parts, which docs/extending.md shows completely, in a module with the go.mod of the
// page. It runs the tests of the example, and trains to the result that the page states.
func TestOwnParts(t *testing.T) {
	t.Parallel()
	page := readFile(t, filepath.Join(root, "docs", "extending.md"))
	module := t.TempDir()
	files := shownFiles(t, page)
	for name, text := range files {
		if name == "go.mod" {
			continue
		}
		own, err := os.ReadFile(filepath.Join(root, "examples", "own_parts", name))
		if err != nil || string(own) != text {
			t.Errorf("docs/extending.md does not show examples/own_parts/%s as it is (%v)", name, err)
		}
		writeFile(t, module, name, text)
	}
	have, err := os.ReadDir(filepath.Join(root, "examples", "own_parts"))
	if err != nil || len(have)+1 != len(files) { // only the page has go.mod
		t.Errorf("%d files in examples/own_parts (%v), %d on the page, go.mod among them", len(have), err, len(files))
	}
	top := test.Must(filepath.Abs(root))(t)
	mod := strings.Replace(files["go.mod"], "=> ../rlinf", "=> "+top, 1)
	if mod == files["go.mod"] {
		t.Fatalf("docs/extending.md shows no go.mod beside a clone:\n%s", mod)
	}
	writeFile(t, module, "go.mod", mod)
	sums := readFile(t, filepath.Join(root, "go.sum"))
	writeFile(t, module, "go.sum", sums)
	for _, args := range [][]string{{"build", "-mod=mod", "-o", "mine", "."}, {"test", "-mod=mod", "-vet=off", "."}} {
		c := exec.Command("go", args...)
		c.Dir, c.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOPROXY=off", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	j := local.startProgram(t, filepath.Join(module, "mine"), module, 0, "-c", "job.yaml")
	if code := j.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &j.stdout, &j.stderr)
	}
	m := readMetrics(t, filepath.Join(module, "logs", "job"))
	got, ok := m[len(m)-1]["eval/return"].(json.Number)
	if x, err := got.Float64(); !ok || err != nil || x < -7 {
		t.Errorf("eval/return %v, want nearly the best, -5.5", got)
	}
}

var shownFile = regexp.MustCompile("(?s)\n`([a-z_.]+)`:\n\n```[a-z]*\n(.*?\n)```")

// shownFiles returns the files that a page shows behind their names.
func shownFiles(t *testing.T, page string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, m := range shownFile.FindAllStringSubmatch(page, -1) {
		files[m[1]] = m[2]
	}
	return files
}

// blocks returns the parts of a page of Markdown that are in that language.
func blocks(page, language string) (all []string) {
	for _, b := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```").FindAllStringSubmatch(page, -1) {
		all = append(all, b[1])
	}
	return all
}
