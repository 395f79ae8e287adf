package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/roles/loop"
)

// TestReport: the page of a run is written into its folder, that of a sweep into the sweep's, or to the file of --out.
// A page that is written again is the same file.
func TestReport(t *testing.T) {
	run1, logs := recorded(t), t.TempDir()
	for name, seed := range map[string]int{"seed_1": 1, "seed_2": 2} {
		evaluated(t, filepath.Join(logs, name), seed, float64(10*seed))
	}
	elsewhere := filepath.Join(t.TempDir(), "x.html")
	for _, c := range []struct {
		path, has string
		args      []string
	}{
		{filepath.Join(run1, "report.html"), "<title>a · rlinf report</title>", []string{run1}},
		{filepath.Join(logs, "report.html"), "<title>2 runs · rlinf report</title>", []string{logs}},
		{elsewhere, "<title>2 runs in 2 groups · rlinf report</title>",
			[]string{filepath.Join(logs, "seed_1"), filepath.Join(logs, "seed_2"), "--out", elsewhere}},
	} {
		var pages [2][]byte
		for i := range pages {
			code, out, errs := run(t, append([]string{"report"}, c.args...)...)
			if want := c.path + ": open it in a browser\n"; code != loop.ExitOK || out != want || errs != "" {
				t.Fatalf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
			}
			var err error
			if pages[i], err = os.ReadFile(c.path); err != nil || !strings.Contains(string(pages[i]), c.has) {
				t.Errorf("%s lacks %q (%v)", c.path, c.has, err)
			}
		}
		if !bytes.Equal(pages[0], pages[1]) {
			t.Errorf("%s: another file at the second time", c.path)
		}
	}
}

// TestReportOfNone: a folder without a run is a mistake that names the folder. The files that are left of a run have a
// page.
func TestReportOfNone(t *testing.T) {
	empty, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "report: expected the folders of runs or of sweeps\n"},
		{[]string{empty}, "report: " + empty + ": expected the folder of a run or of a sweep, or a file of kept " +
			"results\n"},
		{[]string{missing}, "report: stat " + missing + ": no such file or directory\n"},
		{[]string{empty, "--out", "x.pdf"}, "--out x.pdf: expected a file with the ending .html\n"},
	} {
		code, out, errs := run(t, append([]string{"report"}, c.args...)...)
		if code != loop.ExitConfig || out != "" || errs != c.want {
			t.Errorf("%q: code %d\n%s%s\nwant\n%s", c.args, code, out, errs, c.want)
		}
	}
	left := t.TempDir()
	writeFile(t, filepath.Join(left, "STATUS"), "failed\n")
	if code, out, errs := run(t, "report", left); code != loop.ExitOK {
		t.Errorf("of the rest of a run: code %d\n%s%s", code, out, errs)
	}
}
