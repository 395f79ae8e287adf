package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
)

// A tally records the reports of each work.
type tally struct {
	last  map[string][2]int
	moves map[string]int
	back  bool // a count decreased
}

func newTally() *tally { return &tally{last: map[string][2]int{}, moves: map[string]int{}} }

func (y *tally) report(what string, done, total int) {
	before := y.last[what]
	y.back = y.back || done < before[0] && done > 0 || done > total
	y.last[what] = [2]int{done, total}
	if done > before[0] {
		y.moves[what]++
	}
}

// expect checks that the work was reported to its end, in at least the given number of reports.
func (y *tally) expect(t *testing.T, what string, total, moves int) {
	t.Helper()
	if got := y.last[what]; got != [2]int{total, total} || y.moves[what] < moves || y.back {
		t.Errorf("%s: %v in %d moves, back %v; expected %d in %d", what, got, y.moves[what], y.back, total, moves)
	}
}

// TestTextProgress: an update and an evaluation report all texts, by micro-batches.
func TestTextProgress(t *testing.T) {
	texts, targets, tokens := someTexts(12)
	y := newTally()
	sft := test.Must(algo.NewSFT(algo.SFTSetup{Model: tinyModel(t, lm.Options{}), Optim: algo.DefaultOptimConfig(),
		Iterations: 10, MicroBatch: algo.MicroBatch{Tokens: 100, Sequences: 3}, Progress: y.report}))(t)
	test.Must(sft.Update(texts, targets, tokens))(t)
	y.expect(t, "update", 12, 4)
	test.Must(sft.Evaluate(texts))(t)
	y.expect(t, "evaluation", 12, 4)

	y = newTally()
	m := tinyModel(t, lm.Options{})
	s := setup(m)
	s.Config.UpdateEpoch, s.Text.NMinibatches, s.MicroBatch.Sequences, s.Progress = 3, 2, 1, y.report
	p := newTextPPO(t, s)
	b := batchOf(t, m, 1, 0, 2, 1)
	test.OK(t, p.Prepare(b))
	test.Must(p.Update(b))(t)
	y.expect(t, "update", 12, 12)
}
