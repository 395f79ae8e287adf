package advice

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/roles/planner/probe"
)

// TestUnequal: one warning names each host that is slower or faster than the first one by more than a fifth.
func TestUnequal(t *testing.T) {
	got := unequalHosts([]probe.NodeProbe{{Host: "a", Copy: 10, Core: 10}, {Host: "b", Copy: 9, Core: 5},
		{Host: "b", Copy: 1}, {Host: "c", Copy: 11, Core: 9}, {Host: "d", Copy: 13, Core: 10}})
	text := strings.Join(got, "\n")
	if len(got) != 2 || !strings.Contains(text, "host b computes 0.50 times as fast as host a") ||
		!strings.Contains(text, "host d copies memory 1.30 times as fast as host a") {
		t.Errorf("%s", text)
	}
}
