package watch

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
)

var update = flag.Bool("update", false, "write the screens in testdata anew")

// noon is the time of all screens.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func ref(x float64) *float64 { return &x }

// running is a run in environments with 8 ranks.
func running() State {
	s := State{Now: noon, Started: ago(754 * time.Second),
		Standing: results.Standing{Run: "logs/cartpole_disaggregated", Status: runfolder.Running, Step: 412,
			Steps: 1000, Metric: "env/return", Value: ref(187.3), Rate: ref(12345), RateUnit: "env steps/s",
			SecondsLeft: ref(1076),
			Checkpoint:  "logs/cartpole_disaggregated/checkpoints/global_step_400", Updated: ago(time.Second)},
		Record: NewestMetrics{Step: 412, At: ago(time.Second), Newest: PhaseTimes{Step: 412},
			Curves: map[string]MetricHistory{
				"env/return": curve(412, func(x float64) float64 {
					return 200 - 190*math.Exp(-x*4) + 8*math.Sin(x*90)
				}),
				"eval/return": curve(4, func(x float64) float64 { return 60 + 140*x }),
			}},
		Live: trace.Live{Time: ago(time.Second), Step: 412, Work: "rollout 82/256", Phases: []trace.Timing{
			{Phase: "step", Seconds: 1.83}, {Phase: "sync_weights", Seconds: 0.0112},
			{Phase: "generate_rollouts", Seconds: 1.31}, {Phase: "cal_adv_and_returns", Seconds: 0.004},
			{Phase: "actor_training", Seconds: 0.51}},
			Queues: []trace.Queue{{Channel: "obs", Items: 12}, {Channel: "act"}, {Channel: "out", Items: 3}}},
		Hosts: map[int]string{},
		Alert: Alert{5, "warning: environment 17 was restarted: tank.py: no answer in 10s", ago(187 * time.Second)},
	}
	for i := range s.Live.Phases {
		s.Live.Phases[i].At = ago(time.Second)
	}
	for i := range s.Live.Queues {
		s.Live.Queues[i].At = ago(time.Second)
	}
	for i := range 8 {
		s.Hosts[i] = []string{"node-a", "node-b"}[i/4]
		s.Live.Ranks = append(s.Live.Ranks, trace.Waiting{Rank: i, At: ago(2 * time.Second),
			Waits: map[trace.Cause]float64{trace.Observation: float64(i*5%8) / 20, trace.Gradient: float64(i*3%8) / 25,
				trace.Voting: 0.012, trace.Working: 0.5}})
	}
	return s
}

// curve returns a curve of n steps with the values f(share of the steps).
func curve(n int, f func(x float64) float64) MetricHistory {
	c := &MetricHistory{}
	for i := range n {
		c.add(int64(i+1), f(float64(i)/float64(n)))
	}
	return *c
}

// moving is the run after a move.
func moving() State {
	s := running()
	s.Moves, s.LastMove = 2, &moves.Move{Step: 380, Time: ago(57 * time.Second), Reason: "asked for by rlinf scale",
		Before: "{actor: 0-7, env: 0-3, rollout: 4-7}", After: "{actor: 0-7, env: 0-5, rollout: 6-7}", Seconds: 0.123,
		Bytes: 1300 << 10, Members: 4}
	return s
}

// ended is the run after its last step.
func ended() State {
	s := running()
	s.Status, s.Standing.Step, s.SecondsLeft, s.Updated = runfolder.Done, 1000, nil, ago(3*time.Hour+5*time.Minute)
	s.Started = s.Updated.Add(-30 * time.Minute)
	s.Record.Step, s.Record.At = 1000, s.Updated
	s.Record.Newest = PhaseTimes{1000, s.Updated, map[string]float64{"step": 14, "generate_rollouts": 1.5, "eval": 12}}
	s.Record.Usual = PhaseTimes{999, s.Updated,
		map[string]float64{"step": 2, "generate_rollouts": 1.5, "actor_training": 0.4}}
	s.Live.Step, s.Live.Time, s.Live.Work = 999, s.Updated.Add(-time.Second), "actor training"
	for i := range s.Live.Ranks {
		s.Live.Ranks[i].At = s.Live.Time
	}
	for i := range s.Live.Queues {
		s.Live.Queues[i].At = s.Live.Time
	}
	return s
}

// crowded is the run on too few cores. Its phases take longer than the step on their slowest ranks, and a rank is idle.
func crowded() State {
	s := running()
	s.Crowd = "8 ranks share 2 cores"
	s.Live.Phases[2].Seconds = 1.6
	s.Live.Ranks[3].Waits = map[trace.Cause]float64{trace.Idling: 0.67}
	return s
}

// alone is a run of one rank.
func alone() State {
	s := running()
	s.Live.Ranks = s.Live.Ranks[3:4]
	return s
}

// killed is the run after SIGKILL, with an error of a rank before.
func killed() State {
	s := ended()
	s.Status, s.Standing.Step, s.Record.Step, s.Live.Step = runfolder.Dead, 700, 700, 700
	s.Record.Newest = PhaseTimes{Step: 700}
	s.Alert = Alert{3, "rollout[1] rank 3 host node-a step 701: channel \"obs\": " +
		strings.Repeat("get key 0-3: ", 30), s.Updated}
	return s
}

// begun is a run without a finished iteration.
func begun() State {
	return State{Now: noon, Started: ago(3 * time.Second), NoLive: "no live.json", Standing: results.Standing{
		Run: "logs/new", Status: runfolder.Running, Steps: 100, Updated: ago(3 * time.Second)}}
}

// language is a run that trains on answers; its live.json has not been written for a while.
func language() State {
	s := running()
	s.Run, s.Metric, s.Value = "logs/加法_grpo", "rollout/rewards", ref(0.731)
	s.Rate, s.RateUnit = ref(8120), "tokens/s"
	s.Checkpoint = ""
	s.Record.Curves = map[string]MetricHistory{
		"rollout/rewards": curve(60, func(x float64) float64 { return 1 - math.Exp(-x*3) }),
		"eval/accuracy":   curve(1, func(float64) float64 { return 0.64 }),
	}
	old := ago(95 * time.Second)
	s.Live.Time, s.Live.Work = old, "answers 120/512"
	for i := range s.Live.Phases {
		s.Live.Phases[i].At = old
	}
	for i := range s.Live.Ranks {
		s.Live.Ranks[i].At = old
	}
	s.Live.Ranks[2].At = ago(10 * time.Minute)
	for i := range s.Live.Queues {
		s.Live.Queues[i].At = old
	}
	s.Record.At, s.Updated = old, old
	s.Alert = Alert{}
	return s
}

// large is a run of 512 ranks.
func large() State {
	s := running()
	s.Live.Ranks = nil
	for i := range 512 {
		s.Hosts[i] = fmt.Sprintf("node-%03d", i/8)
		s.Live.Ranks = append(s.Live.Ranks, trace.Waiting{Rank: i, At: ago(time.Second), Waits: map[trace.Cause]float64{
			trace.Gradient: float64(i*37%512) / 600, trace.NoRoom: 0.1}})
	}
	return s
}

// hostile has control characters and absurd values wherever a file could have them.
func hostile() State {
	s := running()
	evil := "\x1b[2J\x1b]0;title\x07\u202e\u0300\r\nx\x9b31m\xff\t" + strings.Repeat("長", 300)
	s.Run, s.Status, s.Checkpoint, s.Metric, s.RateUnit = evil, runfolder.Status(evil), evil, "env/return"+evil, evil
	s.Value, s.Rate = ref(math.Inf(1)), ref(math.NaN())
	s.Live.Work, s.Problem, s.Alert.Text, s.NoLive = evil, evil, evil, evil
	s.Steps, s.SecondsLeft = -7, ref(math.Inf(1))
	s.Record.Curves["eval/return"] = curve(9, func(x float64) float64 { return (x - 0.5) * math.MaxFloat64 * 1.9 })
	s.Live.Queues = append(s.Live.Queues, trace.Queue{Channel: evil, Items: math.MinInt64})
	s.Live.Phases[2].Seconds, s.Live.Phases[3].Seconds, s.Live.Phases[4].Seconds = math.NaN(), -1e300, 1e300
	s.Live.Ranks[0] = trace.Waiting{Rank: -1 << 62, Waits: map[trace.Cause]float64{trace.Cause(evil): 1e300,
		"nan": math.NaN(), "inf": math.Inf(1)}}
	s.Hosts[1] = evil
	s.Moves, s.LastMove = -1, &moves.Move{Step: math.MinInt64, Reason: evil, After: evil, Seconds: math.NaN(),
		Bytes: math.MinInt64, Members: -1 << 62}
	return s
}

var runs = map[string]func() State{"running": running, "ended": ended, "killed": killed, "begun": begun,
	"language": language, "crowded": crowded, "alone": alone, "moving": moving, "large": large, "hostile": hostile}

// TestScreens compares screens with the files in testdata.
func TestScreens(t *testing.T) {
	for _, c := range []struct {
		run           string
		width, height int
	}{
		{"running", 80, 24}, {"running", 200, 50}, {"running", 80, 12}, {"running", 50, 8}, {"running", 30, 3},
		{"ended", 80, 24}, {"killed", 80, 24}, {"killed", 80, 40}, {"begun", 80, 24}, {"language", 80, 24},
		{"crowded", 80, 24}, {"alone", 80, 24},
		{"large", 80, 24}, {"large", 200, 50}, {"hostile", 80, 24}, {"moving", 80, 24}, {"moving", 120, 30},
	} {
		name := fmt.Sprintf("%s-%dx%d.txt", c.run, c.width, c.height)
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, l := range Render(runs[c.run](), c.width, c.height) {
				text.WriteString(l.Text + "\n")
			}
			path := filepath.Join("testdata", name)
			if *update {
				test.OK(t, os.WriteFile(path, []byte(text.String()), 0o666))
			}
			want, err := os.ReadFile(path)
			if err != nil || text.String() != string(want) {
				t.Errorf("%v; -update writes the screen anew\n%s\nwant\n%s", err, text.String(), want)
			}
		})
	}
}

// TestPhasesAddTo100: the percents of the phases, with the rest of the step, add to 100.
func TestPhasesAddTo100(t *testing.T) {
	for _, times := range [][]float64{{1, 0.5, 0.5}, {3, 1, 1, 1}, {1, 0.7, 0.6}, {1, 0.1}, {0.5, 1, 1, 1},
		{7, 1, 1, 1, 1, 1, 1, 1}, {1, 1e-9, 0.999}, {2, 0, 0}} {
		all := []PhaseTime{{Name: "step", Seconds: times[0]}}
		for _, x := range times[1:] {
			all = append(all, PhaseTime{Name: "phase", Seconds: x})
		}
		percents, sum := shares(all), 0
		for _, p := range percents {
			sum += p
		}
		if sum != 100 || len(percents) != len(times) {
			t.Errorf("%v: %v", times, percents)
		}
	}
	for _, all := range [][]PhaseTime{nil, {{Name: "step"}}, {{Name: "train", Seconds: 1}},
		{{Name: "step", Seconds: 1}, {Name: "train", Seconds: math.NaN()}},
		{{Name: "step", Seconds: math.Inf(1)}, {Name: "train", Seconds: -1}}} {
		if got := shares(all); got != nil {
			t.Errorf("%v: %v", all, got)
		}
	}
}

// TestWaitsOfRanks: a rank that is alone does not wait for others, and ranks that share cores are not compared.
func TestWaitsOfRanks(t *testing.T) {
	for name, of := range map[string]struct {
		run  State
		want bool
	}{"running": {running(), true}, "alone": {alone(), false}, "crowded": {crowded(), false}} {
		line := Summary(of.run)
		if strings.Contains(line, "waits most") != of.want {
			t.Errorf("%s: %s", name, line)
		}
		if strings.Contains(line, "8 ranks share 2 cores") != (name == "crowded") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// TestEveryWindow: a screen fits every window, and no text can command the terminal.
func TestEveryWindow(t *testing.T) {
	for name, run := range runs {
		s := run()
		for height := range 28 {
			for width := 0; width < 220; width += 1 + width/9 {
				lines := Render(s, width, height)
				if len(lines) > height {
					t.Fatalf("%s, %dx%d: %d lines", name, width, height, len(lines))
				}
				for _, l := range lines {
					if n := columns(l.Text); n > width {
						t.Fatalf("%s, %dx%d: %d columns: %q", name, width, height, n, l.Text)
					}
					if i := strings.IndexFunc(l.Text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
						t.Fatalf("%s, %dx%d: %q", name, width, height, l.Text)
					}
				}
			}
		}
		if text := Summary(s); clean(text) != text {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// TestStyles: a run that failed is an alarm, and so is a warning.
func TestStyles(t *testing.T) {
	lines := Render(killed(), 80, 24)
	if lines[0].Style != Alarm || lines[len(lines)-1].Style != Faint {
		t.Errorf("%+v", lines)
	}
	if l := Render(running(), 80, 24); l[0].Style != Strong || l[1].Style != Plain {
		t.Errorf("%+v", l)
	}
}

// TestCurveThins: a long curve keeps its extremes and the order of its steps, and copies of it do not change.
func TestCurveThins(t *testing.T) {
	c := &MetricHistory{}
	var before MetricHistory
	for i := range 3 * mostPoints {
		x := 1.0
		if i == 7 {
			x = -100
		}
		c.add(int64(i), x)
		if i == mostPoints-2 {
			before = *c
		}
	}
	if c.Least != -100 || c.Most != 1 || len(c.Values) >= mostPoints || len(c.Steps) != len(c.Values) {
		t.Errorf("from %v to %v in %d points", c.Least, c.Most, len(c.Values))
	}
	if before.Values[7] != -100 || before.Values[8] != 1 {
		t.Error(errors.New("a copy has changed"))
	}
}

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []float64
		width  int
		want   string
	}{
		{nil, 5, ""}, {[]float64{3}, 0, ""}, {[]float64{3}, 5, "▁"}, {[]float64{0, 7}, 5, "▁█"},
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, 8, "▁▂▃▄▅▆▇█"}, {[]float64{0, 0, 7, 7}, 2, "▁█"},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, 2, "▁█"},
	} {
		if got := sparkline(c.values, c.width); got != c.want {
			t.Errorf("%v in %d: %q, want %q", c.values, c.width, got, c.want)
		}
	}
}
