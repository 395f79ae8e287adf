package reporttest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/trace"
)

// Hostile is a text that would run as a script, or change the page, if the page had it as it is.
const Hostile = "</script><script>hacked()</script><img src=x onerror=hacked()><b>\u2028\u202e\x1b[31m\x00 \"'&"

// HostileFolder writes a run whose names and values are hostile, and returns its folder.
func HostileFolder(t testing.TB) string {
	t.Helper()
	name, err := json.Marshal(Hostile)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), `<b>run" onload=hacked() x="`)
	WriteFile(t, dir, "metrics.jsonl", fmt.Sprintf("{\"step\":1,\"time\":1,\"time/step\":1,\"env/return\":3,%s:1}\n"+
		"{\"step\":2,\"time\":2,\"time/step\":1,\"env/return\":4,\"eval/success_once/%s:2}\n", name, name[1:]))
	WriteFile(t, dir, "config.yaml", fmt.Sprintf("runner: {%s: %s}\n", name, name))
	WriteFile(t, dir, "STATUS", "<img src=x onerror=hacked()>\n")
	WriteFile(t, dir, "answers.txt", "== after step "+Hostile+"\n\nquestion 1: "+Hostile+"\n"+Hostile+"\n> "+Hostile+
		"\n")
	WriteFile(t, dir, "generation.jsonl", fmt.Sprintf("{\"step\":1,\"reward/1\":3,\"reward/%s:4,\"engine/%s:1}\n",
		name[1:], name[1:]))
	WriteFile(t, dir, "logs/rank-0000.log", Hostile)
	WriteFile(t, dir, "moves.jsonl", fmt.Sprintf(`{"step":1,"reason":%[1]s,"before":%[1]s,"after":%[1]s,`+
		`"seconds":1e308,`+
		`"predicted":1e308}`+"\n", name))
	WriteFile(t, dir, "provenance.json", fmt.Sprintf(
		`[{"args":[%[1]s],"hosts":[%[1]s],"build":{"version":%[1]s},"resumed":%[1]s}]`, name))
	Film(t, filepath.Join(dir, "videos", "<img src=x onerror=hacked()>_1.png"), 2, false)
	return dir
}

// HostileTrace returns an attempt with hostile names, and with numbers that are out of range.
func HostileTrace() trace.Attempt {
	a := Emulated(2, 3, 1, 10)
	a.Hosts = []string{Hostile}
	for i := range a.Workers {
		a.Workers[i].Component += Hostile
		for k := range a.Workers[i].Sites {
			s := &a.Workers[i].Sites[k]
			s.Name, s.Peer, s.Cause = Hostile, Hostile, trace.Cause(Hostile)
		}
	}
	a.Windows[0].Why = Hostile
	a.Windows[0].Tracks[0].Spans[0] = trace.Span{Site: 99, Start: math.MinInt64 / 4, End: math.MaxInt64 / 4,
		Arg: math.MaxInt64}
	a.Windows[1].Tracks[0].Worker = 1000
	a.Sums[0].Times = a.Sums[0].Times[:1]
	a.Sums[1].Worker = -1
	a.Sent = append(a.Sent, trace.Sent{From: -1, To: 7, Messages: math.MaxInt64, Bytes: -1}, trace.Sent{From: 1 << 40})
	return a
}

// A Damage is something missing or wrong in a run, and a part of the message on its page.
type Damage struct {
	Name string
	Do   func(t testing.TB, dir string)
	Says string
}

// Damages returns Damages of metrics.jsonl. From "no status" on, they are Damages of other files.
func Damages() []Damage {
	return []Damage{
		{"no metrics", remove("metrics.jsonl"), "metrics.jsonl is missing"},
		{"empty metrics", put("metrics.jsonl", ""), "metrics.jsonl is empty"},
		{"half a file", func(t testing.TB, dir string) {
			text := MetricsText(40, 2)
			WriteFile(t, dir, "metrics.jsonl", text[:len(text)/2])
		}, "1 line is damaged, the first is line 2"},
		{"no JSON", put("metrics.jsonl", "a\nb\n{\"step\":1}\n[]\n"), "3 lines are damaged, the first is line 1"},
		{"not finite", put("metrics.jsonl", `{"step":1,"time":1,"train/actor/policy_loss":null}`+"\n"),
			"train/actor/policy_loss is never a finite number"},
		{"numbers too large", put("metrics.jsonl", `{"step":1,"time":1,"x":1e999}`+"\n"), "1 line is damaged"},
		{"clock set back", put("metrics.jsonl", "{\"step\":1,\"time\":9}\n{\"step\":2,\"time\":3}\n"),
			"set back 1 time."},
		{"steps again", put("metrics.jsonl",
			"{\"step\":1,\"time\":1}\n{\"step\":5,\"time\":2}\n{\"step\":2,\"time\":3}\n"),
			"1 older line is replaced"},
		{"no status", remove("STATUS"), "STATUS is missing"},
		{"no provenance", remove("provenance.json"), "provenance.json is missing"},
		{"provenance cut", put("provenance.json", `[{"started":`), "provenance.json is damaged"},
		{"no configuration", remove("config.yaml"), "config.yaml is missing"},
		{"configuration damaged", put("config.yaml", "a: [\n"), "config.yaml is damaged"},
		{"configuration a list", put("config.yaml", "[1, 2]\n"), "config.yaml is damaged"},
		{"answers empty", put("answers.txt", "nothing\n"), "answers.txt has no evaluation"},
		{"moves damaged", put("moves.jsonl", "{\n{\"step\":1,\"after\":\"{}\"}\n"), "moves.jsonl: 1 line is damaged"},
		{"film cut", func(t testing.TB, dir string) {
			path := filepath.Join(dir, "videos", "global_step_9.png")
			Film(t, path, 3, false)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			WriteFile(t, dir, "videos/global_step_9.png", string(text[:len(text)-30]))
		}, "global_step_9.png: frame 2: cut off"},
		{"no trace", func(testing.TB, string) {}, "The run has no trace"},
	}
}

func remove(name string) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func put(name, text string) func(testing.TB, string) {
	return func(t testing.TB, dir string) { WriteFile(t, dir, name, text) }
}

// AnyReturn says that returns have no bounds.
func AnyReturn(string) (least, most float64) { return math.Inf(-1), math.Inf(1) }

// Sweep writes two groups of three seeds, and returns their folder.
func Sweep(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for lr := range 2 {
		for seed := range 3 {
			run := filepath.Join(dir, fmt.Sprintf("lr=%d", lr+1), fmt.Sprintf("seed_%d", seed))
			var b strings.Builder
			for i := 1; i <= 50; i++ {
				fmt.Fprintf(&b, `{"step":%d,"time":%d,"time/step":1,"env/steps":%d,"env/return":%v`, i, i, 10*i,
					float64(i*(lr+1))+Noise(seed, i))
				if i%10 == 0 {
					fmt.Fprintf(&b, ",\"eval/return\":%v", float64(i*(lr+1))+Noise(seed, lr, i))
				}
				b.WriteString("}\n")
			}
			WriteFile(t, run, "metrics.jsonl", b.String())
			WriteFile(t, run, "config.yaml", fmt.Sprintf("actor: {seed: %d}\nlr: %d\nenv: {train: {env_type: X}}\n",
				seed, lr))
			WriteFile(t, run, "STATUS", "done\n")
		}
	}
	return dir
}
