package e2e

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
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
