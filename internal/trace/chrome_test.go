package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
)

// An event is an entry of traceEvents.
type event struct {
	Ph, Name, Cat string
	Pid, Tid, ID  json.Number
	Ts, Dur       *float64
	Args          map[string]any
}

// A track is a thread of a process.
type track struct{ pid, tid json.Number }

// readChrome returns the events of a trace, by phase. It checks the rules of the format: numbers are integers, each
// thread and process has a name, slices of a thread nest, and each flow has two ends.
func readChrome(t *testing.T, tr *trace.Trace) (all map[string][]event) {
	t.Helper()
	var text bytes.Buffer
	test.OK(t, trace.WriteChrome(&text, tr))
	var file struct {
		TraceEvents []event
		OtherData   struct{ Problems []string }
	}
	if err := json.Unmarshal(text.Bytes(), &file); err != nil || file.TraceEvents == nil {
		t.Fatalf("%v:\n%s", err, text.Bytes())
	}
	if tr != nil && !slices.Equal(file.OtherData.Problems, tr.Problems) {
		t.Errorf("problems %q", file.OtherData.Problems)
	}
	all = map[string][]event{}
	named, flows := map[string]bool{}, map[string]int{}
	tracks := map[track][]event{}
	for _, e := range file.TraceEvents {
		all[e.Ph] = append(all[e.Ph], e)
		for _, id := range []json.Number{e.Pid, e.Tid} {
			if n, err := id.Int64(); err != nil || n < 0 {
				t.Errorf("%+v: %q is no number of a process or a thread", e, id)
			}
		}
		if e.Ph != "M" && (e.Ts == nil || *e.Ts < 0) {
			t.Errorf("%+v has no time", e)
		}
		switch e.Ph {
		case "M":
			named[fmt.Sprint(e.Name, e.Pid, e.Tid)] = true
		case "X":
			tracks[track{e.Pid, e.Tid}] = append(tracks[track{e.Pid, e.Tid}], e)
		case "s":
			flows[e.ID.String()]++
		case "f":
			flows[e.ID.String()]--
		}
	}
	for at, list := range tracks {
		if !named[fmt.Sprint("thread_name", at.pid, at.tid)] || !named[fmt.Sprint("process_name", at.pid, 0)] {
			t.Errorf("%v has no name", at)
		}
		nest(t, list)
	}
	for id, n := range flows {
		if n != 0 {
			t.Errorf("flow %s has one end", id)
		}
	}
	return all
}

// nest checks that any two slices are disjoint, or one contains the other.
func nest(t *testing.T, list []event) {
	t.Helper()
	const rounding = 1e-6
	var open []float64 // ends
	last := math.Inf(-1)
	for _, e := range list {
		from, to := *e.Ts, *e.Ts+*e.Dur
		if from < last || to < from {
			t.Errorf("%s begins at %v, after a slice that begins at %v", e.Name, from, last)
		}
		for last = from; len(open) > 0 && open[len(open)-1] <= from+rounding; {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && to > open[len(open)-1]+rounding {
			t.Errorf("%s ends at %v, after the slice around it, at %v", e.Name, to, open[len(open)-1])
		}
		open = append(open, to)
	}
}

// twoRanks is an attempt of an env and a rollout on two ranks. Its clock begins at zero.
func twoRanks(id, zero int64) trace.Attempt {
	return trace.Attempt{ID: id, Ranks: 2, Hosts: []string{"alpha", "beta"},
		Workers: []trace.Lane{
			{Rank: 0, Node: 0, Component: "env", Member: 0, Sites: []trace.Site{
				{Op: trace.Idle, Cause: trace.Idling},
				{Op: trace.Work, Name: "simulate", Cause: trace.Working},
				{Op: trace.Put, Name: "obs", Key: "0", Peer: "rollout", Cause: trace.Other}}},
			{Rank: 0, Node: 0, Component: trace.Runner, Member: 0, Sites: []trace.Site{
				{Op: trace.Idle, Cause: trace.Other},
				{Op: trace.Await, Name: "GenerateRollouts", Peer: "env", Cause: trace.Calling}}},
			{Rank: 1, Node: 1, Component: "rollout", Member: 3, Sites: []trace.Site{
				{Op: trace.Get, Name: "obs", Key: "0", Peer: "env", Cause: trace.Observation},
				{Op: trace.Adopt, Name: "actor", Cause: trace.Weights}}},
		},
		Windows: []trace.Window{{Iteration: 1, Why: trace.First, Tracks: []trace.Track{
			{Worker: 0, Spans: []trace.Span{{Site: 0, Start: zero, End: zero + 1500},
				{Site: 1, Start: zero + 1500, End: zero + 4001}, {Site: 0, Start: zero + 4001, End: zero + 9000}},
				Marks: []trace.Mark{{Site: 2, At: zero + 3000, Arg: 3, N: 4}}},
			{Worker: 1, Spans: []trace.Span{{Site: 0, Start: zero, End: zero + 1000},
				{Site: 1, Start: zero + 1000, End: zero + 8000}}},
			{Worker: 2, Spans: []trace.Span{{Site: 0, Start: zero, End: zero + 3100, Arg: 0, Item: 4},
				{Site: 1, Start: zero + 3100, End: zero + 9000, Arg: 7}}},
		}}},
	}
}

// TestChrome: a trace becomes processes, threads, slices that nest, instants and flows, with times from 0.
func TestChrome(t *testing.T) {
	all := readChrome(t, &trace.Trace{Attempts: []trace.Attempt{twoRanks(1e18, 77_000_000_000)}})
	var got []string
	for _, e := range all["M"] {
		if strings.HasSuffix(e.Name, "_name") {
			got = append(got, fmt.Sprintf("%s %v.%v %v", e.Name, e.Pid, e.Tid, e.Args["name"]))
		}
	}
	for _, ph := range []string{"X", "i", "s", "f"} {
		for _, e := range all[ph] {
			dur := 0.0
			if e.Dur != nil {
				dur = *e.Dur
			}
			delete(e.Args, "iteration")
			got = append(got, fmt.Sprintf("%s %v.%v %s %v+%v %s %v", e.Ph, e.Pid, e.Tid, e.Name, *e.Ts, dur, e.Cat,
				e.Args))
		}
	}
	want := []string{
		"process_name 0.0 rank 0 (alpha)", "thread_name 0.0 env 0", "thread_name 0.1 runner",
		"process_name 1.0 rank 1 (beta)", "thread_name 1.0 rollout 3",
		"X 0.0 simulate 1.5+2.501 work map[cause:work]",
		"X 0.1 iteration 1 0+8 iteration map[attempt:1 kept:first]",
		"X 0.1 wait for env.GenerateRollouts 1+7 wait map[cause:call]",
		"X 1.0 wait for obs 0+3.1 wait map[cause:observation key:0 peer:env 0]",
		"X 1.0 adopt actor 3.1+5.9 wait map[cause:weights version:7]",
		"i 0.0 put obs 3+0 put map[cause:other key:0 peer:rollout 3]",
		"s 0.0 item 3+0 item map[]", "f 1.0 item 3.099+0 item map[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestChromeOfAttempts: the attempts of a run follow each other, whatever their clocks are. They have the same threads.
func TestChromeOfAttempts(t *testing.T) {
	second := twoRanks(1e18+1, 5)
	second.Workers[2].Component = "actor" // another placement has moved the worker
	all := readChrome(t, &trace.Trace{Attempts: []trace.Attempt{twoRanks(1e18, 77_000_000_000), second}})
	names := 0
	for _, e := range all["M"] {
		if e.Name == "thread_name" {
			names++
		}
	}
	at, name := *all["i"][1].Ts, all["i"][1].Name
	if names != 4 || at != 1e6+9 || name != "attempt 2, started 2001-09-09T01:46:40Z" {
		t.Errorf("%d threads; the second attempt at %v: %s", names, at, name)
	}
}

// TestChromeOfDamage: an empty or damaged trace gives valid JSON, and slices that nest.
func TestChromeOfDamage(t *testing.T) {
	readChrome(t, nil)
	readChrome(t, &trace.Trace{Problems: []string{"a.bin: \x1b[31m</script>\u2028\""}})
	readChrome(t, &trace.Trace{Attempts: []trace.Attempt{{}}})
	bad := twoRanks(0, 1000)
	tracks := bad.Windows[0].Tracks
	tracks[0].Worker, tracks[0].Marks[0].Site = 9, -1
	tracks[1].Spans[0].Site = 99
	tracks[2].Spans[1].Start = 500 // the span overlaps the span before it
	tracks[2].Spans = append(tracks[2].Spans, trace.Span{Site: -1, Start: 9000, End: 9999},
		trace.Span{Start: 12000, End: 9999}, trace.Span{Start: 8000, End: 10500})
	bad.Hosts = bad.Hosts[:1]
	bad.Workers[2].Component = "roll\"out\x00\u2028"
	bad.Windows = append(bad.Windows, trace.Window{Iteration: 1, Tracks: tracks[1:]}) // the same times again
	readChrome(t, &trace.Trace{Attempts: []trace.Attempt{bad}})
}

// TestChromeToAFullDisk: an error of writing is returned.
func TestChromeToAFullDisk(t *testing.T) {
	full := errors.New("no space left")
	tr := &trace.Trace{Attempts: []trace.Attempt{twoRanks(1, 1)}}
	if err := trace.WriteChrome(failing{full}, tr); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }
