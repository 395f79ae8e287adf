package trace_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rlinf/rlinf/internal/trace"
)

// A worker records an iteration: it simulates for 3 ms and waits 1 ms for an action. Read tells it again.
func ExampleRead() {
	run, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(run)
	now := int64(0) // the example's own clock
	work := trace.NewLog(trace.Options{Run: run, Ranks: 1, Host: "node1", Clock: func() int64 { return now }})
	worker := work.Recorder("env", 0)
	simulate := worker.Site(trace.Site{Op: trace.Work, Name: "simulate", Cause: trace.Working})
	action := worker.Site(trace.Site{Op: trace.Get, Name: "act", Peer: "rollout", Cause: trace.Action})
	work.Start()
	for _, s := range []struct{ site, ms int }{{simulate, 3}, {action, 1}} {
		worker.Begin(s.site)
		now += int64(s.ms) * 1e6
		worker.End(0, 0)
	}
	work.Cut(1)
	if err := work.Write(); err != nil {
		log.Fatal(err)
	}

	all, err := trace.Read(run)
	if err != nil || len(all.Problems) > 0 {
		log.Fatal(err, all.Problems)
	}
	start := all.Attempts[0]
	sites := start.Workers[0].Sites
	for _, s := range start.Windows[0].Tracks[0].Spans {
		fmt.Println(sites[s.Site].Name, (s.End-s.Start)/1e6, "ms")
	}
	// Output:
	// simulate 3 ms
	// act 1 ms
}
