package metrics_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

// TestPace: the rate of a run is its work by the time of its iterations, without evaluations.
func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		text          string
		done, seconds float64
	}{
		"steps": {`{"step":1,"time/step":2,"env/steps":100,"time/env_steps_per_second":50}
{"step":2,"time/step":5,"time/eval":3,"env/steps":200,"time/env_steps_per_second":50}
{"step":2,"own/metric":3}
`, 200, 4},
		"several iterations in a line": {`{"step":10,"time/step":2,"time/eval":4,"env/steps":160,"time/env_steps_per_second":10}
{"step":20,"time/step":1,"env/steps":260,"time/env_steps_per_second":10}
`, 260, 26},
		"a run that continues another": {`{"step":101,"time/step":2,"env/steps":1e6,"time/env_steps_per_second":50}
`, 10100, 202},
		"tokens": {`{"step":1,"time/step":2,"time/tokens_per_second":30}
{"step":2,"time/step":3,"time/eval":2,"time/tokens_per_second":60}
`, 120, 3},
		"damaged": {`{"step":1,"time/step":null,"env/steps":3}
x
{"step":2,"time/step":1,"time/eval":7,"env/steps":4,"time/env_steps_per_second":2}
{"step":3,"time/st`, 4, 2},
		"nothing": {"", 0, 0},
	} {
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		test.OK(t, os.WriteFile(path, []byte(c.text), 0o666))
		p := metrics.ReadPace(path)
		if p.Done != c.done || p.Seconds != c.seconds || c.seconds == 0 != math.IsNaN(p.Rate()) {
			t.Errorf("%s: %v in %v s, want %v in %v s", name, p.Done, p.Seconds, c.done, c.seconds)
		}
	}
	if p := metrics.ReadPace(t.TempDir()); p.Done != 0 {
		t.Errorf("no file: %v", p)
	}
}
