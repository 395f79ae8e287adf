package report_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/report/reporttest"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
)

// document returns the JSON document of a page, and its arrays.
func document(t *testing.T, page []byte) (d map[string]any, arrays []byte) {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte(`id="data">`))
	text, _, ok2 := bytes.Cut(rest, []byte("<"))
	if !ok || !ok2 {
		t.Fatal("the page has no data")
	}
	packed := test.Must(base64.StdEncoding.DecodeString(string(text)))(t)
	in := test.Must(gzip.NewReader(bytes.NewReader(packed)))(t)
	all := test.Must(io.ReadAll(in))(t)
	n := binary.LittleEndian.Uint32(all)
	test.OK(t, json.Unmarshal(all[4:4+n], &d))
	return d, all[4+n:]
}

// texts returns all texts in a part of a document.
func texts(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(b)
}

// Equal input gives an equal page, also in another folder of the same name.
func TestEqualPages(t *testing.T) {
	a := reporttest.Emulated(4, 60, 50, 100)
	dir := reporttest.RunFolder(t, 60, 2)
	one, two := reporttest.PageOf(t, dir, a), reporttest.PageOf(t, dir, a)
	if !bytes.Equal(one, two) {
		t.Error("two pages of one run differ")
	}
	if bytes.Contains(one, []byte("secret")) || strings.Contains(texts(first(document(t, one))), "RLINF_X") {
		t.Error("the page tells the environment's variables")
	}
	for _, part := range []string{"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; " +
		"img-src data: blob:", "<noscript>", "<svg "} {
		if !bytes.Contains(one, []byte(part)) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// No text of a run is in the page as HTML.
func TestHostileTexts(t *testing.T) {
	page := reporttest.PageOf(t, reporttest.HostileFolder(t), reporttest.HostileTrace())
	for _, part := range []string{"<img", "<b>", "</script><", "\u2028", "\u202e", "\x00", "\x1b"} {
		if at := bytes.Index(page, []byte(part)); at >= 0 {
			t.Errorf("the page has %q: …%q…", part, page[max(0, at-80):min(len(page), at+80)])
		}
	}
	d, _ := document(t, page)
	if text := texts(d); !strings.Contains(text, `\u003cimg src=x onerror=hacked()\u003e`) {
		t.Error("the document lacks a reporttest.Hostile name")
	} else if strings.Contains(text, `\u001b`) || strings.Contains(text, `\u2028`) {
		t.Error("the document has control characters")
	}
}

// If ranks share cores, the page says so first, with and without a trace. It blames no rank then. A run that failed
// says that before.
func TestCrowdedRanks(t *testing.T) {
	dir := reporttest.RunFolder(t, 60, 0)
	says := func(attempts ...trace.Attempt) (all []string) {
		d, _ := document(t, reporttest.PageOf(t, dir, attempts...))
		for _, x := range d["sentences"].([]any) {
			all = append(all, x.(map[string]any)["text"].(string))
		}
		return all
	}
	if got := says(reporttest.Emulated(4, 60, 50, 100)); strings.Contains(strings.Join(got, " "), "share") {
		t.Errorf("ranks with a core each: %q", got)
	}
	reporttest.WriteFile(t, dir, "provenance.json", `[{"started":"1960-01-02T03:04:05Z","transport":"mpi",`+
		`"hosts":["a","a","a","a"],"binding":["0-1","0-1","0-1","0-1"]}]`)
	for _, got := range [][]string{says(), says(reporttest.Emulated(4, 60, 50, 100))} {
		all := strings.Join(got, " ")
		if !strings.HasPrefix(all, "4 ranks share 2 cores: ") || strings.Contains(all, "more ranks") ||
			strings.Contains(all, "No fault") {
			t.Errorf("%q", got)
		}
	}
	for status, first := range map[string]string{"failed": "The run failed", "checkpointed": "4 ranks share"} {
		reporttest.WriteFile(t, dir, "STATUS", status+"\n")
		if got := says(); len(got) != 3 || !strings.HasPrefix(got[0], first) {
			t.Errorf("%s: %q", status, got)
		}
	}
}

// The page has a verdict on learning: of evaluations, or of training if there are too few of them.
func TestLearning(t *testing.T) {
	for name, c := range map[string]struct {
		evals []float64
		want  string
	}{
		"collapsed": {[]float64{20, 180, 400, 480, 490, 480, 120, 20, 25}, "Learning: eval/return reached the task's " +
			"threshold (475) in iteration 40, was best in iterations 40 to 50 (mean 485), and has collapsed, to 22.5 " +
			"at the end: "},
		"rises": {[]float64{20, 60, 100, 140, 180, 220, 260, 300}, "Learning: eval/return has not reached the task's " +
			"threshold (475), was best in iterations 70 to 80 (mean 280), and still rises, from 40 to 280."},
		"small beside training": {[]float64{1, 2, 3, 4, 5, 6, 7, 8}, "Learning: eval/return has not reached the " +
			"task's threshold (475), was best in iterations 70 to 80 (mean 7.5), and is flat, at 7.5 at the end: "},
		"too few": {[]float64{20, 180}, "Learning: too few evaluations: eval/return has 2 values, and a verdict " +
			"needs 6."},
	} {
		dir, lines := filepath.Join(t.TempDir(), "run"), ""
		for i, v := range c.evals {
			training := 0.0
			if name == "small beside training" {
				training = 200 * float64(i%2)
			}
			lines += fmt.Sprintf("{\"step\":%d,\"time\":%d,\"eval/return\":%v,\"env/return\":%v}\n", 10*(i+1), i+1, v,
				training)
		}
		reporttest.WriteFile(t, dir, "metrics.jsonl", lines)
		reporttest.WriteFile(t, dir, "config.yaml", reporttest.ConfigText)
		about := report.About{Threshold: func(task string) (float64, bool) { return 475, task == "CartPole-v1" }}
		var page bytes.Buffer
		test.OK(t, report.WriteRun(&page, report.Gather(dir, about, nil)))
		d, _ := document(t, page.Bytes())
		if text := d["sentences"].([]any)[0].(map[string]any)["text"].(string); !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
	d, _ := document(t, reporttest.PageOf(t, reporttest.RunFolder(t, 300, 0), reporttest.Emulated(2, 300, 50, 20)))
	text := texts(d["sentences"])
	if !strings.Contains(text, "Learning: eval/return was best") {
		t.Errorf("six evaluations: %s", text)
	}
	d, _ = document(t, reporttest.PageOf(t, reporttest.RunFolder(t, 100, 0)))
	if text := texts(d["sentences"]); !strings.Contains(text, "Learning: env/return") {
		t.Errorf("two evaluations: %s", text)
	}
}

// A page names what is missing.
func TestDamaged(t *testing.T) {
	for _, c := range reporttest.Damages() {
		dir := reporttest.RunFolder(t, 40, 0)
		c.Do(t, dir)
		d, _ := document(t, reporttest.PageOf(t, dir))
		if text := texts(d["problems"]); !strings.Contains(text, c.Says) {
			t.Errorf("%s: the page says %s, want %q", c.Name, text, c.Says)
		}
	}
}

// A long run's curves have the lowest and the highest value of each bucket.
func TestThinning(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 10_000; i++ {
		v := 1.0
		switch i {
		case 5001:
			v = 99
		case 7003:
			v = -99
		}
		fmt.Fprintf(&b, "{\"step\":%d,\"time\":%d,\"env/return\":%v}\n", i, i, v)
	}
	dir := filepath.Join(t.TempDir(), "run")
	reporttest.WriteFile(t, dir, "metrics.jsonl", b.String())
	d, arrays := document(t, reporttest.PageOf(t, dir))
	curves := d["curves"].(map[string]any)
	raw := curves["columns"].(map[string]any)["env/return"].(map[string]any)["raw"].(map[string]any)
	values := floats(arrays, raw)
	if len(values) != 2000 || slices.Max(values) != 99 || slices.Min(values) != -99 {
		t.Errorf("%d values", len(values))
	}
}

// float64s returns an array of type f64.
func float64s(arrays []byte, a map[string]any) []float64 {
	at, n := int(a["at"].(float64)), int(a["n"].(float64))
	out := make([]float64, n)
	for i := range out {
		var bits uint64
		for k := range 8 {
			bits |= uint64(arrays[at+k*n+i]) << (8 * k)
		}
		out[i] = math.Float64frombits(bits)
	}
	return out
}

// floats returns an array of type f32. Missing values are 0.
func floats(arrays []byte, a map[string]any) []float32 {
	at, n := int(a["at"].(float64)), int(a["n"].(float64))
	out := make([]float32, n)
	for i := range out {
		var bits uint32
		for k := range 4 {
			bits |= uint32(arrays[at+k*n+i]) << (8 * k)
		}
		if v := math.Float32frombits(bits); v == v {
			out[i] = v
		}
	}
	return out
}

// Settings that differ from the default are marked. A value that comes from another key is a default.
func TestSettings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	reporttest.WriteFile(t, dir, "config.yaml", "runner: {seed: 7, steps: 5}\nactor: {seed: 7, sizes: [64, 64]}\n")
	r := report.Gather(dir, report.About{Defaults: []byte("runner: {seed: 1, steps: 5}\nactor: {seed: 2}\n"),
		Key: func(name string) (string, string) {
			if name == "actor.seed" {
				return "a seed", "runner.seed"
			}
			return "", ""
		}}, nil)
	var got []string
	for _, s := range r.Settings {
		got = append(got, fmt.Sprintf("%s=%s (%s%s) %v", s.Key, s.Value, s.Default, s.From, s.Changed))
	}
	want := []string{"runner.seed=7 (1) true", "runner.steps=5 (5) false", "actor.seed=7 (7runner.seed) false",
		"actor.sizes=[64, 64] () true"}
	test.EqualSlices(t, got, want)
}

func TestAnswers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	reporttest.WriteFile(t, dir, "answers.txt", `== after step 20

question 0: right
1+1=
> 2

question 1: wrong, cut off, reward -0.5
question of
two lines
> 3
> and more
expected: 4, or four

== after step 40

question 0: right
1+1=
> 2

`)
	r := report.Gather(dir, report.About{}, nil)
	want := []report.AnswerSamples{
		{Step: "20", Answers: []report.Answer{{Number: "0", Outcome: "right", Question: "1+1=", Text: "2"},
			{Number: "1", Outcome: "wrong, cut off", Reward: "-0.5", Question: "question of\ntwo lines",
				Text: "3\nand more", Expected: "4, or four"}}},
		{Step: "40", Answers: []report.Answer{{Number: "0", Outcome: "right", Question: "1+1=", Text: "2"}}},
	}
	if fmt.Sprint(r.Answers) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", r.Answers, want)
	}
}

// A run that moved has a table of its moves, and marks in its charts. A run that did not has neither.
func TestMoves(t *testing.T) {
	dir := reporttest.RunFolder(t, 40, 0)
	d, _ := document(t, reporttest.PageOf(t, dir))
	if d["moves"] != nil || d["curves"].(map[string]any)["marks"] != nil {
		t.Errorf("without moves: %v, %v", d["moves"], d["curves"].(map[string]any)["marks"])
	}
	reporttest.WriteFile(t, dir, "metrics.jsonl", "{\"step\":1,\"time/step\":3}\n{\"step\":2,\"time/step\":1}\n"+
		"{\"step\":3,\"time/step\":0.5}\n")
	reporttest.WriteFile(t, dir, "moves.jsonl", `{"step":2,"time":"2026-03-04T05:06:07.123Z","reason":"asked for",`+
		`"before":"{env: 0}","after":"{env: 1}","seconds":0.25,"bytes":2048,"members":1,"predicted":0.4}
{"step":9,"time":"2026-03-04T05:06:08Z","reason":"again","before":"{env: 1}","after":"{env: 0}"}
`)
	d, _ = document(t, reporttest.PageOf(t, dir))
	want := `{"rows":[{"after":"500 ms","before":"2 s","change":"env 0 → 1","cost":"250 ms, 1 member, 2 KiB sent",` +
		`"predicted":"400 ms","reason":"asked for","step":2,"time":"2026-03-04 05:06:07"},{"after":"",` +
		`"before":"500 ms","change":"env 1 → 0","cost":"0 s, 0 members, 0 B sent","predicted":"","reason":"again",` +
		`"step":9,"time":"2026-03-04 05:06:08"}]}`
	if got := texts(d["moves"]); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	marks := texts(d["curves"].(map[string]any)["marks"])
	if marks != `[{"at":2,"text":"moved"},{"at":9,"text":"moved"}]` {
		t.Errorf("marks %s", marks)
	}
	if !strings.Contains(texts(d["facts"]), `{"label":"moves","note":"the last after iteration 9","value":"2"}`) {
		t.Errorf("facts %s", texts(d["facts"]))
	}
}

// A long file of answers is read in pieces: a page has some of its evaluations, and the beginnings of long texts.
func TestManyAnswers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var b strings.Builder
	long := strings.Repeat("0123456789", 500)
	for i := range 100 {
		fmt.Fprintf(&b, "== after step %d\n", i)
		for k := range 13 {
			fmt.Fprintf(&b, "\nquestion %d: wrong, reward -0.5\n%s\n\n> %s\nexpected: 4\n", k, long, long)
		}
		if i == 50 { // a resumed run evaluates again
			fmt.Fprintf(&b, "== after step 50\n\nquestion 0: right\n1+1=\n> 2\n")
		}
	}
	reporttest.WriteFile(t, dir, "answers.txt", b.String())
	r := report.Gather(dir, report.About{}, nil)
	if n := len(r.Answers); n != 40 || r.Answers[0].Step != "0" || r.Answers[39].Step != "99" {
		t.Fatalf("%d evaluations, from %q to %q", n, r.Answers[0].Step, r.Answers[n-1].Step)
	}
	cut := long[:4000] + " …"
	for i, e := range r.Answers {
		if e.Step == "50" {
			if len(e.Answers) != 1 || e.Answers[0].Outcome != "right" {
				t.Errorf("after step 50: %+.40v, expected the answers of the resumed run", e)
			}
			continue
		}
		if step := fmt.Sprint(i * 99 / 39); e.Step != step || len(e.Answers) != 12 {
			t.Errorf("evaluation %d: after step %s, %d answers, expected %s and 12", i, e.Step, len(e.Answers), step)
		}
		for k, a := range e.Answers {
			if a != (report.Answer{Number: fmt.Sprint(k), Outcome: "wrong", Reward: "-0.5", Question: cut, Text: cut,
				Expected: "4"}) {
				t.Errorf("evaluation %d, answer %d: %+.40v", i, k, a)
			}
		}
	}
	if text := texts(r.Problems); !strings.Contains(text, "Answers are shown of 40 of 100 evaluations.") {
		t.Errorf("problems %s", text)
	}
}

// A page has only the newest moves if there are many.
func TestManyMoves(t *testing.T) {
	dir := reporttest.RunFolder(t, 300, 0)
	for i := range 250 {
		test.OK(t, moves.Append(dir, moves.Move{Step: int64(i + 1), After: "{env: 1}"}))
	}
	d, _ := document(t, reporttest.PageOf(t, dir))
	m := d["moves"].(map[string]any)
	rows, marks := m["rows"].([]any), d["curves"].(map[string]any)["marks"].([]any)
	if len(rows) != 200 || rows[199].(map[string]any)["step"] != 250.0 || m["left"] != 50.0 || len(marks) != 40 {
		t.Errorf("%d rows, %v left, %d marks", len(rows), m["left"], len(marks))
	}
}

// A resumed run repeats an iteration, and a line is damaged. The use of the engines is a metric.
func TestRewards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	reporttest.WriteFile(t, dir, "metrics.jsonl", "{\"step\":10}\n{\"step\":20}\n{\"step\":30}\n")
	reporttest.WriteFile(t, dir, "generation.jsonl", `{"step":10,"time":1,"width":0,"reward/-0.5":2,"reward/1":6,"engine/pages":0.25}
{"step":20,"time":2,"width":0,"reward/-0.5":8}
{"step":30,"width":0,"reward/7":8}
{"step":20,"width":0,"reward/0":3,"reward/1":1,"engine/pages":0.5,"reward/NaN":1,"reward/x":1,"reward/2":null}
{"step":30,"wid
`)
	r := report.Gather(dir, report.About{}, nil)
	if got, want := fmt.Sprint(r.Rewards), "[{10 0 map[-0.5:2 1:6] 1} {20 0 map[0:3 1:1] 1}]"; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := fmt.Sprint(r.Metrics.Columns["engine/pages"]); got != "[0.25 0.5 NaN]" {
		t.Errorf("pages %v", got)
	}
	if text := texts(r.Problems); !strings.Contains(text, "generation.jsonl: 1 line is damaged") {
		t.Errorf("problems %s", text)
	}
	d, _ := document(t, reporttest.PageOf(t, dir))
	if rows := texts(d["rewards"].(map[string]any)["rows"]); rows != `["1","0","-0.5"]` {
		t.Errorf("rows %s", rows)
	}
}

// A long file of rewards needs little memory. No answer is lost.
func TestManyLinesOfRewards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var b strings.Builder
	const lines = 50_000
	for i := range lines {
		fmt.Fprintf(&b, "{\"step\":%d,\"width\":0,\"reward/%v\":3}\n", i+1, i%2)
	}
	reporttest.WriteFile(t, dir, "generation.jsonl", b.String())
	r := report.Gather(dir, report.About{}, nil)
	total := 0.0
	for _, line := range r.Rewards {
		total += line.Counts[0] + line.Counts[1]
	}
	if n := len(r.Rewards); n < 1000 || n > 10_000 || r.Rewards[n-1].Step != lines || total != 3*lines {
		t.Errorf("%d groups of lines with %v answers, expected %d answers", n, total, 3*lines)
	}
	d, arrays := document(t, reporttest.PageOf(t, dir))
	w := d["rewards"].(map[string]any)
	steps := float64s(arrays, w["iterations"].(map[string]any))
	if each := w["each"].(float64); len(steps) > 600 || steps[1]-steps[0] != each || steps[0] != each {
		t.Errorf("%d columns, each of %v lines, at %v", len(steps), each, steps[:2])
	}
}

// If there are many rewards, a row is a range of rewards. Each reward is in the row of its range.
func TestRangesOfRewards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "{\"step\":%d,\"width\":0,\"reward/%v\":%d}\n", i+1, float64(i)/100, i+1)
	}
	reporttest.WriteFile(t, dir, "generation.jsonl", b.String())
	d, arrays := document(t, reporttest.PageOf(t, dir))
	w := d["rewards"].(map[string]any)
	rows, counts := w["rows"].([]any), float64s(arrays, w["counts"].(map[string]any))
	if len(rows) != 24 || rows[0] != "0.9488" || rows[23] != "0" {
		t.Errorf("rows %v", rows)
	}
	for i := range 100 {
		for r := range rows {
			want, from := 0.0, 0.99*float64(23-r)/24
			if x := float64(i) / 100; x >= from-1e-9 && (x < from+0.99/24-1e-9 || r == 0) {
				want = float64(i + 1)
			}
			test.Equal(t, counts[r*100+i], want, "reward %d/100 in row %v", i, rows[r])
		}
	}
}

// A page has the first and the newest film, and some between them. A large film loses frames.
func TestFilms(t *testing.T) {
	dir := reporttest.RunFolder(t, 1, 0)
	for _, step := range []int{5, 100, 20, 30, 40, 60} {
		reporttest.Film(t, filepath.Join(dir, "videos", fmt.Sprintf("global_step_%d.png", step)), 2, false)
	}
	reporttest.WriteFile(t, dir, "videos/other.mp4", "")
	r := report.Gather(dir, report.About{}, nil)
	var names []string
	for _, f := range r.Films {
		names = append(names, f.Name)
	}
	want := []string{"global_step_5", "global_step_20", "global_step_40", "global_step_100"}
	test.EqualSlices(t, names, want, "films")
	if len(r.Unseen) != 2 {
		t.Errorf("unseen: %q", r.Unseen)
	}
}

// A page of 512 ranks shows 64 of them in detail, and all of them by nodes.
func TestManyRanks(t *testing.T) {
	dir := reporttest.RunFolder(t, 200, 0)
	page := reporttest.PageOf(t, dir, reporttest.Emulated(512, 200, 50, 200))
	if len(page) > 10<<20 {
		t.Errorf("%d bytes", len(page))
	}
	d, arrays := document(t, page)
	window := d["timeline"].(map[string]any)["windows"].([]any)[0].(map[string]any)
	if n := window["workers"].(map[string]any)["n"].(float64); n != 3*64 {
		t.Errorf("%v tracks, want 3 of 64 ranks", n)
	}
	if rows := d["heat"].(map[string]any)["rows"].([]any); len(rows) != 64 || rows[0] != "node 0" {
		t.Errorf("rows of the heat map: %v", rows)
	}
	// Rank 7 of each node sends to the next node, and all ranks send to node 0.
	m := d["messages"].(map[string]any)
	sent := float64s(arrays, m["messages"].(map[string]any))
	bytes := float64s(arrays, m["bytes"].(map[string]any))
	if m["of"] != "node" || len(sent) != 64*64 || sent[2*64+2] != 7000 || sent[2*64+3] != 1000 || sent[2*64] != 80 ||
		bytes[2*64+3] != 23<<20 || sent[2*64+4] != 0 {
		t.Errorf("messages of %v: %v", m["of"], sent[2*64:2*64+5])
	}
	if name := d["phases"].(map[string]any)["meanName"]; name != "median of ranks" {
		t.Errorf("the phases are beside the %v", name)
	}
	t.Logf("%d bytes", len(page))
}

// If a trace has too many spans, the page has the first iterations and every n-th of the others.
func TestManySpans(t *testing.T) {
	d, _ := document(t, reporttest.PageOf(t, reporttest.RunFolder(t, 100, 0), reporttest.Emulated(2, 100, 1, 3000)))
	line := d["timeline"].(map[string]any)
	spans, windows := 0.0, line["windows"].([]any)
	var at []float64
	for _, w := range windows {
		spans += w.(map[string]any)["sites"].(map[string]any)["n"].(float64)
		at = append(at, w.(map[string]any)["iteration"].(float64))
	}
	if want := []float64{1, 2, 3, 4, 8, 12}; spans > 400_000 || len(at) < 20 || !slices.Equal(at[:6], want) {
		t.Errorf("%v spans of the iterations %v", spans, at)
	}
	if note := texts(line["note"]); !strings.Contains(note, "more iterations, for which the page has no room") {
		t.Errorf("the page says %s", note)
	}
}

// A page of several runs has the table of rlinf compare.
func TestSeveralRuns(t *testing.T) {
	dir := reporttest.Sweep(t)
	reporttest.WriteFile(t, dir, "lr=2/seed_9/metrics.jsonl", "no JSON\n")
	reporttest.WriteFile(t, dir, "lr=2/seed_9/config.yaml", "actor: {seed: 9}\n")
	runs := test.Must(report.GatherRuns([]string{dir, filepath.Join(dir, "none")}, reporttest.AnyReturn))(t)
	test.OK(t, os.RemoveAll(filepath.Join(dir, "lr=2/seed_9")))
	groups := test.Must(results.Load(dir, "eval/return"))(t)
	want := results.ComparisonTable{Metric: "eval/return", At: math.Inf(1), Groups: groups}
	if got := runs.Table.Rows(); fmt.Sprint(got) != fmt.Sprint(want.Rows()) {
		t.Errorf("got %q\nwant %q", got, want.Rows())
	}
	if len(runs.Keys) != 1 || runs.Keys[0].Key != "lr" {
		t.Errorf("keys that differ: %+v", runs.Keys)
	}
	if len(runs.Problems) != 2 || !strings.Contains(runs.Problems[0], "seed_9: metrics.jsonl: line") ||
		!strings.Contains(runs.Problems[1], "none: no such file") {
		t.Errorf("problems: %q", runs.Problems)
	}
	if _, err := report.GatherRuns([]string{t.TempDir()}, reporttest.AnyReturn); err == nil {
		t.Error("an empty folder has runs")
	}
}

// A fork is a branch: its curves begin with those of its parent, as far as the checkpoint from which it goes on.
func TestFork(t *testing.T) {
	dir := reporttest.Sweep(t)
	parent, fork := filepath.Join(dir, "lr=1", "seed_0"), filepath.Join(dir, "forks", "lr=9", "seed_0")
	text := string(test.Must(os.ReadFile(filepath.Join(parent, "metrics.jsonl")))(t))
	lines := strings.SplitAfter(text, "\n")
	reporttest.WriteFile(t, fork, "metrics.jsonl", strings.ReplaceAll(strings.Join(lines[20:30], ""),
		`"env/return":`, `"env/return":1`))
	reporttest.WriteFile(t, fork, "config.yaml",
		string(test.Must(os.ReadFile(filepath.Join(parent, "config.yaml")))(t)))
	reporttest.WriteFile(t, fork, "STATUS", "done\n")
	reporttest.WriteFile(t, fork, "provenance.json", fmt.Sprintf(`[{"started":"2026-01-02T03:04:05Z",`+
		`"resumed":"kept/global_step_20","forked":%q}]`, filepath.Join(parent, "checkpoints", "global_step_20")))
	r := report.Gather(fork, report.About{}, nil)
	steps, values := r.Metrics.Steps, r.Metrics.Columns["env/return"]
	if len(steps) != 30 || steps[19] != 20 || steps[20] != 21 || values[19] > 100 || values[20] < 100 {
		t.Errorf("steps %v, returns %v", steps, values)
	}
	d, _ := document(t, reporttest.PageOf(t, fork))
	if got := texts(d["curves"].(map[string]any)["marks"]); got != `[{"at":20,"text":"forked from seed_0"}]` {
		t.Errorf("marks %s", got)
	}
	runs := test.Must(report.GatherRuns([]string{filepath.Join(dir, "forks")}, reporttest.AnyReturn))(t)
	rows := runs.Groups[0].Runs[0].Rows
	if len(rows) != 30 || rows[0].Step != 1 || rows[29].Step != 30 {
		t.Errorf("%d rows from %d to %d", len(rows), rows[0].Step, rows[len(rows)-1].Step)
	}
	test.Equal(t, len(runs.Table.Groups[0].Runs[0].Rows), 1) // the table compares the fork alone
	test.OK(t, os.RemoveAll(parent))
	if r := report.Gather(fork, report.About{}, nil); len(r.Metrics.Steps) != 10 ||
		!strings.Contains(strings.Join(r.Problems, " "), "its curves begin at iteration 20") {
		t.Errorf("without its parent: %d steps, %q", len(r.Metrics.Steps), r.Problems)
	}
}

// The files of uPlot are those of its package on npm.
func TestUPlot(t *testing.T) {
	list := test.Must(os.ReadFile("page/uplot/SHA256"))(t)
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		text, err := os.ReadFile(filepath.Join("page/uplot", name))
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); err != nil || got != sum {
			t.Errorf("%s: %s (%v), want %s", name, got, err, sum)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d files", len(lines))
	}
}
