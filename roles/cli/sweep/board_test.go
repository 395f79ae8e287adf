package sweep

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
)

// boardRun is a run of 100 steps whose folder is in dir. Its configuration counts epochs, as in fine-tuning.
func boardRun(t *testing.T, dir, point string, steps string) *sweepRun {
	t.Helper()
	cfg := config.Default()
	cfg.Runner.MaxEpochs, cfg.Runner.Logger.LogPath, cfg.Runner.Logger.ExperimentName = 4, dir,
		filepath.Join(point, "seed_1")
	test.OK(t, os.MkdirAll(cfg.Folder(), 0o777))
	for name, text := range map[string]string{"metrics.jsonl": steps, "provenance.json": `[{"iterations":100}]`} {
		test.OK(t, os.WriteFile(filepath.Join(cfg.Folder(), name), []byte(text), 0o666))
	}
	return &sweepRun{point: point, seed: 1, cfg: cfg}
}

// The board shows the running runs with their steps, the best run so far, and the time left: at first by the progress
// of the running runs, then by the duration of finished runs.
func TestBoard(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	now := time.Unix(1_800_000_000, 0)
	b := newBoard(&out, false, nil, "eval/return", results.ModeMax, 6)
	b.now = func() time.Time { return now }
	earlier, first, second := boardRun(t, dir, "a=0", ""),
		boardRun(t, dir, "a=1", "{\"step\":10}\n{\"step\":25}\n{\"st"), boardRun(t, dir, "a=2", "")
	b.finished(earlier, 7, 0)
	b.tick()
	b.begin(first)
	b.begin(second)
	now = now.Add(10 * time.Second)
	b.tick() // a run takes 40 s: 30 s each of two, and three more on two places
	if done := b.finished(first, 12, 40*time.Second); done != 2 {
		t.Errorf("%d are done, want 2", done)
	}
	third := boardRun(t, dir, "a=3", "")
	b.begin(third)
	now = now.Add(20 * time.Second)
	b.tick() // 10 s and 20 s, and two more
	b.finished(third, math.NaN(), 20*time.Second)
	b.ended(second, true)
	b.print("%s failed\n", second.name())
	b.tick()
	b.begin(boardRun(t, dir, "a=4", ""))
	b.tick() // 30 s for this run, and 30 s for the only one that is left
	want := `1 of 6 done · best eval/return 7 (a=0/seed_1)
1 of 6 done · best eval/return 7 (a=0/seed_1) · ETA 1m30s · under way: a=1/seed_1 25/100, a=2/seed_1 0/100
2 of 6 done · best eval/return 12 (a=1/seed_1) · ETA 55s · under way: a=2/seed_1 0/100, a=3/seed_1 0/100
a=2/seed_1 failed
3 of 6 done · 1 failed · best eval/return 12 (a=1/seed_1)
3 of 6 done · 1 failed · best eval/return 12 (a=1/seed_1) · ETA 1m00s · under way: a=4/seed_1 0/100
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

// On a terminal it is one line below what is printed, cut to the width, and gone in the end.
func TestBoardOnATerminal(t *testing.T) {
	var out strings.Builder
	b := newBoard(&out, true, func() int { return 30 }, "eval/return", results.ModeMax, 6)
	b.finished(boardRun(t, t.TempDir(), "a=0", ""), 7, 0)
	b.tick()
	b.print("a remark\n")
	b.close()
	b.tick() // shows nothing any more
	const line = "1 of 6 done · best eval/re…"
	if want := "\r\x1b[K" + line + "\r\x1b[Ka remark\n" + line + "\r\x1b[K"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}

// Each mistake is reported once, with the points that have it.
func TestMistakes(t *testing.T) {
	var m mistakes
	test.Check(t, m.err(3), "of nothing")
	m.add("a=1", errors.Join(errors.New("everywhere"), errors.New("there")))
	m.add("a=2", errors.New("everywhere"))
	m.add("a=3", errors.Join(errors.New("everywhere"), errors.New("here alone"), errors.New("there")))
	err := m.err(3)
	if want := "everywhere\nthere [a=1 and 1 more points]\nhere alone [a=3]"; err == nil || err.Error() != want ||
		!errors.As(err, new(config.UsageError)) {
		t.Errorf("got %v, want %s", err, want)
	}
}
