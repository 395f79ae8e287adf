package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/trace"
)

// TestRecordChangesNothing: the metrics of a run do not depend on whether, and in which detail, its trace is recorded.
func TestRecordChangesNothing(t *testing.T) {
	t.Parallel()
	var want metrics
	for i, record := range []string{"record=false", "record=true", "enable=true"} {
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", good)
		local.ok(t, dir, 2, "-c", "job.yaml", "runner.val_check_interval=1", "cluster.tracer."+record)
		run := filepath.Join(dir, "logs", "job")
		if _, err := os.Stat(filepath.Join(run, trace.Folder)); os.IsNotExist(err) != (i == 0) {
			t.Errorf("%s: the folder of the trace: %v", record, err)
		}
		got := readMetrics(t, run)
		if i == 0 {
			want = got
			want.checkWhole(t, 2)
		}
		got.same(t, want, "%s", record)
	}
}

// TestRecordOfKilledRun: after SIGKILL in the middle of an iteration the earlier windows can be read. They have the
// spans of all workers of all ranks. Every item was put before it was got.
func TestRecordOfKilledRun(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			j, run := longJob(t, p)
			poll(t, j, func() bool {
				n := 0
				tr, err := trace.Read(run)
				if err == nil && len(tr.Attempts) > 0 {
					for _, w := range tr.Attempts[0].Windows {
						if len(w.Tracks) == 8 {
							n++
						}
					}
				}
				return n >= 3
			})
			j.kill()
			j.wait()
			tr, err := trace.Read(run)
			if err != nil || len(tr.Attempts) != 1 {
				t.Fatalf("%v, %+v", err, tr)
			}
			a := tr.Attempts[0]
			if a.Ranks != 3 || len(a.Workers) != 8 || len(a.Windows) != 3 || len(a.Phases) < 2 {
				t.Errorf("%d ranks, %d workers, %d windows, %d phases", a.Ranks, len(a.Workers), len(a.Windows),
					len(a.Phases))
			}
			checkEdges(t, &a)
			senders := map[int]bool{}
			for _, s := range a.Sent {
				senders[s.From] = s.Messages > 0 && s.From != s.To
			}
			if len(senders) != 3 || !senders[0] || !senders[1] || !senders[2] {
				t.Errorf("messages %+v", a.Sent)
			}
		})
	}
}

// longJob starts a job of 8 workers and runners on 3 ranks, which runs until it is stopped. run is its folder.
func longJob(t *testing.T, p *platform) (j *job, run string) {
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", frail)
	return p.start(t, dir, 3, "-c", "job.yaml", "runner.max_steps=1000", "env.train.env_type=CartPole-v1",
		"env.train.step_delay=5ms"), filepath.Join(dir, "logs", "job")
}

// checkEdges checks that in every window each item was put before it was got, by the worker that the get names.
func checkEdges(t *testing.T, a *trace.Attempt) {
	t.Helper()
	type item struct {
		channel, key string
		producer, n  int64
	}
	for _, w := range a.Windows {
		put := map[item]int64{}
		gets := 0
		for _, track := range w.Tracks {
			of := a.Workers[track.Worker]
			for _, m := range track.Marks {
				put[item{of.Sites[m.Site].Name, of.Sites[m.Site].Key, int64(of.Member), m.N}] = m.At
			}
		}
		for _, track := range w.Tracks {
			for _, s := range track.Spans {
				site := a.Workers[track.Worker].Sites[s.Site]
				if site.Op != trace.Get {
					continue
				}
				gets++
				at, ok := put[item{site.Name, site.Key, s.Arg, s.Item}]
				if !ok || at > s.End && s.End > s.Start {
					t.Errorf("iteration %d: item %d of %s, %s was got at %d, put at %d (%v)", w.Iteration, s.Item,
						site.Name, site.Key, s.End, at, ok)
				}
			}
		}
		if gets == 0 {
			t.Errorf("iteration %d: no item was got", w.Iteration)
		}
	}
}

// TestRecordAfterSignal: a signal keeps the last iterations, on all ranks.
func TestRecordAfterSignal(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			j, run := longJob(t, p)
			poll(t, j, func() bool { return len(readMetrics(t, run)) >= 8 })
			j.signal(syscall.SIGUSR1)
			j.wait()
			tr, err := trace.Read(run)
			if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
				t.Fatalf("%v, %+v", err, tr)
			}
			last := 0
			for _, w := range tr.Attempts[0].Windows {
				if w.Why == trace.Last && len(w.Tracks) == 8 {
					last++
				}
			}
			if last < 2 { // the third one may be kept as the slowest
				t.Errorf("%d of the last iterations were kept", last)
			}
		})
	}
}
