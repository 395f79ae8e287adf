package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/trace"
)

// TestReasoningTrace: the trace has the work of every component. The answers of each stage are graded, and go through
// inference.
func TestReasoningTrace(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	reason(t, local, dir, 4, "actor: 0-1\n    rollout: 2\n    reward: 3\n    inference: 3",
		"cluster.tracer.enable=true", "rollout.pipeline_stage_num=4", "algorithm.recompute_logprobs=true")
	run := filepath.Join(dir, "logs", "run")
	tr, err := trace.Read(run)
	if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
		t.Fatalf("%v, problems %q, %d attempts", err, tr.Problems, len(tr.Attempts))
	}
	if _, err := os.Stat(filepath.Join(run, "trace.json")); err != nil {
		t.Error(err)
	}
	spans := map[string]int{}
	type span struct {
		worker, site int
		n            int64
	}
	seen := map[span]bool{} // waits cut a span in pieces
	for _, w := range tr.Attempts[0].Windows {
		for _, track := range w.Tracks {
			of := tr.Attempts[0].Workers[track.Worker]
			for _, s := range track.Spans {
				if site := of.Sites[s.Site]; site.Op == trace.Work && !seen[span{track.Worker, s.Site, s.N}] {
					seen[span{track.Worker, s.Site, s.N}] = true
					spans[fmt.Sprintf("%s %d %s", of.Component, of.Member, site.Name)]++
				}
			}
		}
	}
	for span, want := range map[string]int{"rollout 0 generate": 12 * 4, "reward 0 score": 12 * 8,
		"inference 0 infer": 12 * 8, "actor 0 receive": 12,
		"actor 1 train": 12, "rollout 0 evaluate": 3} {
		if spans[span] != want {
			t.Errorf("%d spans of %s, want %d: %v", spans[span], span, want, spans)
		}
	}
}
