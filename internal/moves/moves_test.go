package moves_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/test"
)

func ask(t *testing.T, dir, placement string) string {
	t.Helper()
	id, err := moves.Ask(dir, placement)
	if err != nil || id == "" {
		t.Fatalf("id %q, %v", id, err)
	}
	return id
}

// wantPending checks the ID of the pending request; "" for none.
func wantPending(t *testing.T, dir, id string) *moves.Request {
	t.Helper()
	r, err := moves.Pending(dir)
	if err != nil || (r == nil) != (id == "") || r != nil && r.ID != id {
		t.Fatalf("pending %+v, %v, want %q", r, err, id)
	}
	return r
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := test.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A request is pending until it is answered. The process that asked then finds the answer.
func TestRequest(t *testing.T) {
	dir := t.TempDir()
	wantPending(t, dir, "")
	id := ask(t, dir, "{actor: 0-3}")
	r := wantPending(t, dir, id)
	if r.Placement != "{actor: 0-3}" || time.Since(r.Time) > time.Minute {
		t.Errorf("%+v", r)
	}
	wantPending(t, dir, id) // Pending does not remove the request
	if a, err := moves.Find(dir, id); a != nil || err != nil {
		t.Errorf("before the answer: %+v, %v", a, err)
	}
	test.OK(t, moves.Reply(dir, r, moves.Answer{Move: &moves.Move{Step: 7, After: "{actor: 0-3}"}}))
	wantPending(t, dir, "")
	a, err := moves.Find(dir, id)
	if err != nil || a == nil || a.ID != id || a.Move == nil || a.Move.Step != 7 || a.Refused != "" || a.Time.IsZero() {
		t.Fatalf("%+v, %v", a, err)
	}
	second := ask(t, dir, "{actor: 9}")
	test.OK(t, moves.Reply(dir, wantPending(t, dir, second), moves.Answer{Refused: "no room"}))
	if a, err := moves.Find(dir, second); err != nil || a == nil || a.Refused != "no room" || a.Move != nil {
		t.Errorf("a refusal: %+v, %v", a, err)
	}
	if a, err := moves.Find(dir, id); err != nil || a == nil || a.Move == nil {
		t.Errorf("the first answer after the second: %+v, %v", a, err)
	}
	test.EqualSlices(t, files(t, dir), []string{"move-answers.jsonl"}, "left")
}

// The newest request counts. It stays when the job answers an older request, which the job had read before.
func TestReplacedRequest(t *testing.T) {
	dir := t.TempDir()
	first := ask(t, dir, "a")
	read := wantPending(t, dir, first)
	second := ask(t, dir, "b")
	if _, err := moves.Find(dir, first); !errors.Is(err, moves.ErrReplaced) {
		t.Errorf("the first: %v, want ErrReplaced", err)
	}
	test.OK(t, moves.Reply(dir, read, moves.Answer{Refused: "x"}))
	wantPending(t, dir, second)
	if a, err := moves.Find(dir, first); err != nil || a == nil {
		t.Errorf("the first, answered all the same: %+v, %v", a, err)
	}
	test.OK(t, moves.Withdraw(dir, first))
	wantPending(t, dir, second)
	for range 2 { // the second time there is nothing to withdraw
		test.OK(t, moves.Withdraw(dir, second))
	}
	wantPending(t, dir, "")
	third, fourth := ask(t, dir, "c"), ask(t, dir, "d")
	test.OK(t, moves.Reply(dir, wantPending(t, dir, fourth), moves.Answer{Refused: "x"}))
	if _, err := moves.Find(dir, third); !errors.Is(err, moves.ErrReplaced) {
		t.Errorf("the third, after the answer to the fourth: %v, want ErrReplaced", err)
	}
	fifth := ask(t, dir, "e")
	test.OK(t, os.Rename(filepath.Join(dir, "move-request.json"), filepath.Join(dir, "move-request.taken")))
	if a, err := moves.Find(dir, fifth); a != nil || err != nil {
		t.Errorf("while an older request is taken away: %+v, %v", a, err)
	}
}

// If many processes ask while a job answers, each request is answered or replaced, and no process waits forever.
func TestManyAsk(t *testing.T) {
	dir, ids := t.TempDir(), make([]string, 40)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = moves.Ask(dir, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	asked := make(chan struct{})
	go func() { all.Wait(); close(asked) }()
	for done := false; ; {
		r := test.Must(moves.Pending(dir))(t)
		if r != nil {
			test.OK(t, moves.Reply(dir, r, moves.Answer{Refused: r.Placement}))
			continue
		}
		if done {
			break
		}
		select {
		case <-asked:
			done = true
		default:
		}
	}
	last := ask(t, dir, "last")
	answered := 0
	for i, id := range ids {
		a, err := moves.Find(dir, id)
		if a != nil && a.Refused != fmt.Sprint(i) || (a == nil) != errors.Is(err, moves.ErrReplaced) {
			t.Errorf("%d: %+v, %v", i, a, err)
		}
		if a != nil {
			answered++
		}
	}
	if answered == 0 {
		t.Error("no request was answered")
	}
	wantPending(t, dir, last)
}

// A file that is no request gives an error once. It does not block later requests.
func TestDamagedRequest(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "move-request.json", "{")
	if _, err := moves.Pending(dir); err == nil || !strings.Contains(err.Error(),
		"move-request.json: expected a request of rlinf scale; the file was removed") {
		t.Errorf("%v", err)
	}
	wantPending(t, dir, "")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
}

func record(t *testing.T, dir string) (steps []int64, damaged int) {
	t.Helper()
	all, damaged, err := moves.Read(dir)
	test.OK(t, err)
	for _, m := range all {
		steps = append(steps, m.Step)
	}
	return steps, damaged
}

// Read returns the moves that were appended, also after an incomplete line of a crash.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if steps, _ := record(t, dir); steps != nil {
		t.Errorf("without a record: %v", steps)
	}
	want := moves.Move{Step: 120, Time: time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC), Reason: "asked for",
		Before: "{a: 0}", After: "{a: 1}", Seconds: 0.5, Bytes: 1 << 40, Members: 3, Iteration: 2, Predicted: 1}
	test.OK(t, moves.Append(dir, want))
	f, err := os.OpenFile(filepath.Join(dir, "moves.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	test.OK(t, err)
	f.WriteString(`{"step":1`)
	f.Close()
	if steps, damaged := record(t, dir); !slices.Equal(steps, []int64{120}) || damaged != 0 {
		t.Errorf("with a line that is being written: %v, %d damaged", steps, damaged)
	}
	test.OK(t, moves.Append(dir, moves.Move{Step: 130, After: "{a: 0}"}))
	all, damaged, err := moves.Read(dir)
	if err != nil || damaged != 1 || len(all) != 2 || all[0] != want || all[1].Time.IsZero() {
		t.Errorf("%+v, %d damaged, %v", all, damaged, err)
	}
}

// A job that resumes has only the moves before its step. An earlier request is refused.
func TestCutBack(t *testing.T) {
	dir := t.TempDir()
	if err := moves.CutBack(dir, 5); err != nil || len(files(t, dir)) > 0 {
		t.Errorf("an empty folder: %v, %q", err, files(t, dir))
	}
	for _, step := range []int64{10, 20, 30} {
		test.OK(t, moves.Append(dir, moves.Move{Step: step, After: "{a: 0}"}))
	}
	id := ask(t, dir, "{a: 1}")
	test.OK(t, moves.CutBack(dir, 20))
	if steps, _ := record(t, dir); !slices.Equal(steps, []int64{10}) {
		t.Errorf("moves after %v, want 10", steps)
	}
	wantPending(t, dir, "")
	if a, err := moves.Find(dir, id); err != nil || a == nil || a.Refused != "the job ended before it could move" {
		t.Errorf("%+v, %v", a, err)
	}
	put(t, dir, "moves.jsonl", "{\"step\":3,\"after\":\"{a: 0}\"}\n{\x00\n")
	put(t, dir, "move-request.json", "?")
	test.OK(t, moves.CutBack(dir, 9))
	if steps, damaged := record(t, dir); !slices.Equal(steps, []int64{3}) || damaged > 0 {
		t.Errorf("of a damaged record: %v, %d damaged", steps, damaged)
	}
}

// The moves of a job are those since its start.
func TestSince(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	all := []moves.Move{{Step: 1, Time: at(1)}, {Step: 2, Time: at(2)}, {Step: 3, Time: at(3)}}
	for second, want := range map[int]int{0: 3, 2: 2, 4: 0} {
		if got := moves.Since(all, at(second)); len(got) != want {
			t.Errorf("since second %d: %v", second, got)
		}
	}
}

// A gain uses the rows between two moves, but no row in which the job moved.
func TestGain(t *testing.T) {
	all := []moves.Move{{Step: 3}, {Step: 7, Iteration: 9}, {Step: 20, Iteration: 5}}
	steps := []float64{1, 2, 3, 4, 6, 8, 9, 10, 12}
	seconds := []float64{8, 4, 6, 3, 2, 99, 1, math.NaN(), 1.5}
	for i, want := range [][2]float64{{6, 2.5}, {2.5, 1.25}, {1.25, 0}} {
		if before, after := moves.Gain(all, i, steps, seconds); before != want[0] || after != want[1] {
			t.Errorf("move %d: %v before, %v after, want %v", i, before, after, want)
		}
	}
	if before, after := moves.Gain(all, 1, nil, nil); before != 9 || after != 0 {
		t.Errorf("without metrics: %v, %v", before, after)
	}
	long := make([]float64, 100)
	for i := range long {
		steps, long[i] = append(steps[:i:i], float64(i+1)), float64(i+1)
	}
	if before, after := moves.Gain([]moves.Move{{Step: 50}}, 0, steps[:100], long); before != 40.5 || after != 60.5 {
		t.Errorf("of a long run: %v, %v, want the medians of 20 rows", before, after)
	}
}

// Change names the components whose ranks have changed.
func TestChange(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"{actor: 0-3, env: 4, rollout: 5}", "{actor: 0-3, env: 4-5, rollout: 6}", "env 4 → 4-5, rollout 5 → 6"},
		{"{'actor,env': 0-3, rollout: 4}", "{actor: 0-3, 'rollout, env': '0-1:0-3'}",
			"rollout 4 → 0-1:0-3, env 0-3 → 0-1:0-3"},
		{"{env: 0}", "{env: {node_group: [a], placement: 0}, reward: 1}", "env 0 → {node_group: [a], placement: 0}, " +
			"reward → 1"},
		{"", "{env: 0}", "→ {env: 0}"},
		{"{env: [", "x", "{env: [ → x"},
		{"{env: 0}", "{env: 0}", "{env: 0} → {env: 0}"},
	} {
		if got := (&moves.Move{Before: c.before, After: c.after}).Change(); got != c.want {
			t.Errorf("%s to %s: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		bytes   int64
		members int
		want    string
	}{
		{0.0123, 999, 1, "12.3 ms, 1 member, 999 B sent"}, {1.5, 1 << 20, 2, "1.5 s, 2 members, 1 MiB sent"},
		{123.4, 1 << 45, 0, "123 s, 0 members, 3.28e+04 GiB sent"}, {0, 1000, 3, "0 s, 3 members, 0.977 KiB sent"},
	} {
		if got := (&moves.Move{Seconds: c.seconds, Bytes: c.bytes, Members: c.members}).Cost(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
