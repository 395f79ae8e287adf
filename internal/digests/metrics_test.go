package digests

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

const explained = "../../docs/reference/metrics.md"

// metricsPage returns the names in the first column of the tables of docs/reference/metrics.md, as
// patterns: <name> stands for anything.
var metricsPage = sync.OnceValues(func() (patterns []*regexp.Regexp, err error) {
	text, err := os.ReadFile(explained)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok {
			continue
		}
		for _, name := range strings.Split(first, ", ") {
			if name = strings.Trim(name, "`"); strings.Contains(name, "/") {
				pattern := strings.ReplaceAll(regexp.QuoteMeta(name), "<name>", ".+")
				patterns = append(patterns, regexp.MustCompile("^"+pattern+"$"))
			}
		}
	}
	return patterns, nil
})

// checkExplained looks for every metric of a run on the page that explains them.
func checkExplained(t *testing.T, run string) {
	t.Helper()
	page := test.Must(metricsPage())(t)
	unknown := map[string]bool{}
	for _, line := range lines(t, run) {
		var values map[string]any
		test.OK(t, json.Unmarshal(line, &values))
		for name := range values {
			found := name == "step" || name == "time"
			for _, p := range page {
				found = found || p.MatchString(name)
			}
			if !found {
				unknown[name] = true
			}
		}
	}
	for name := range unknown {
		t.Errorf("the metric %s is not in %s: add a line with its unit and its meaning", name, explained)
	}
}
