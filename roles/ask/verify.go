package ask

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/loop"
)

// A Result is the result of a repeated stretch.
type Result struct {
	First       int64    `json:"first"` // the first step
	Last        int64    `json:"last"`
	Placement   string   `json:"placement"`   // of the repeated stretch
	Differences []string `json:"differences"` // empty if all is equal
}

// Inconsistent returns what in the folder of r contradicts itself: damaged checkpoints, checkpoints that are missing
// though the run keeps all, and a configuration that differs from that of the newest checkpoint.
func (r *Run) Inconsistent() (found []string, err error) {
	for _, damaged := range r.Damaged {
		found = append(found, damaged.Error())
	}
	runner := &r.Config.Runner
	if every := int64(runner.SaveInterval); every > 0 && runner.KeepCheckpoints < 1 {
		for step := every; step <= r.Last; step += every {
			if !slices.ContainsFunc(r.States, func(s StartPoint) bool { return s.Step == step }) {
				found = append(found, fmt.Sprintf("checkpoints/global_step_%d: missing", step))
			}
		}
	}
	newest := r.States[len(r.States)-1].Checkpoint
	if newest == nil {
		return found, nil
	}
	text, err := newest.Read("config.yaml")
	if err != nil {
		return nil, err
	}
	keys, err := checkpoint.CompareConfigs(text, r.Config.Record(), loop.Resumable()...)
	if err != nil {
		return nil, err
	}
	for _, d := range keys {
		found = append(found, fmt.Sprintf("config.yaml: %s: %s, but %s in %s", d.Key, d.Now, d.Then,
			filepath.Base(newest.Dir)))
	}
	return found, nil
}

// Sample returns n random stretches, in their original order. seed determines the choice. If n is 0 or too large,
// Sample returns all stretches.
func Sample(stretches []Stretch, n int, seed uint64) []Stretch {
	if n < 1 || n >= len(stretches) {
		return stretches
	}
	drawn := slices.Clone(stretches)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	drawn = drawn[:n]
	slices.SortFunc(drawn, func(a, b Stretch) int { return int(a.Until - b.Until) })
	return drawn
}

// Verify repeats a stretch of r in a temporary folder, and compares it with the run.
func (a *Again) Verify(ctx context.Context, r *Run, s Stretch) (Result, error) {
	result := Result{First: s.From.Step + 1, Last: s.Until, Differences: []string{}}
	dir, err := os.MkdirTemp("", "rlinf-verify-")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	again, err := a.Repeat(ctx, r, s, dir)
	if err != nil {
		return result, err
	}
	result.Placement = again.Place
	found, tensors, err := Compare(r, again, s)
	for _, d := range found {
		result.Differences = append(result.Differences, "metrics.jsonl: "+d.String())
	}
	for _, d := range tensors {
		result.Differences = append(result.Differences, fmt.Sprintf("checkpoints/%s/%v", filepath.Base(s.End.Dir), d))
	}
	return result, err
}
