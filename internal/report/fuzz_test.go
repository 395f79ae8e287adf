package report_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/report/reporttest"
	"github.com/rlinf/rlinf/internal/test"
)

// FuzzFiles: any content of the files of a run gives a page, and none of it becomes HTML. All metrics have a value for
// every step.
func FuzzFiles(f *testing.F) {
	f.Add("{\"step\":1,\"time\":2,\"x\":3}\n{\"step\":1,\"y\":null}\n{\"step\":0}\n",
		"{\"step\":1,\"width\":0.5,\"reward/1\":2,\"reward/-1e38\":3,\"engine/pages\":0.5}\n",
		"== after step 1\n\nquestion 1: wrong, cut off, reward -1\na\n> b\nexpected: c\n\n== after step 1\n",
		reporttest.ConfigText, `[{"hosts":["a"],"resumed":"global_step_1"}]`, "done\n")
	f.Add(reporttest.MetricsText(3, 1), "{\"step\":2,\"width\":1e300,\"reward/3\":1e9}\n{\"step\":1",
		"\n\nquestion 1: \n> ", "a: [", "[{", reporttest.Hostile)
	scripts := bytes.Count(reporttest.PageOf(f, reporttest.RunFolder(f, 1, 0)), []byte("<script"))
	f.Fuzz(func(t *testing.T, metrics, generation, answers, config, provenance, status string) {
		dir := filepath.Join(t.TempDir(), "run")
		for name, text := range map[string]string{"metrics.jsonl": metrics, "generation.jsonl": generation,
			"answers.txt": answers, "config.yaml": config, "provenance.json": provenance, "STATUS": status} {
			reporttest.WriteFile(t, dir, name, text)
		}
		r := report.Gather(dir, report.About{Defaults: []byte(reporttest.ConfigText)}, nil)
		if !slices.IsSorted(r.Metrics.Steps) {
			t.Errorf("steps %v", r.Metrics.Steps)
		}
		for name, x := range r.Metrics.Columns {
			if len(x) != len(r.Metrics.Steps) {
				t.Errorf("%q has %d values of %d steps", name, len(x), len(r.Metrics.Steps))
			}
		}
		for _, e := range r.Answers {
			if len(e.Answers) > 12 {
				t.Errorf("%d answers", len(e.Answers))
			}
		}
		var page bytes.Buffer
		test.OK(t, report.WriteRun(&page, r))
		test.Equal(t, bytes.Count(page.Bytes(), []byte("<script")), scripts, "scripts")
	})
}
