package watch

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/loop"
)

// A Reader reads the state of a run again and again. It reads only the new lines of metrics.jsonl.
type Reader struct {
	dir     string
	state   State // the newest state
	record  record
	alerts  alerts
	looked  time.Time // when the standing was read
	scanned time.Time // when the logs were read
}

// The intervals at which a Reader reads the status and the logs of a run. Reading the status creates a file, and a run
// may have many logs, so other files are read more often.
const (
	standingEvery = 2 * time.Second
	logsEvery     = 5 * time.Second
)

// NewReader returns a Reader of the run in dir.
func NewReader(dir string) *Reader {
	return &Reader{dir: dir, record: record{path: filepath.Join(dir, "metrics.jsonl")},
		alerts: alerts{dir: filepath.Dir(runfolder.RankLog(dir, 0)), tails: map[string]tail{}}}
}

// Read returns the state of the run at the time t. Files may be missing or incomplete. Only the first call returns
// errors; later errors are in State.Problem.
func (r *Reader) Read(t time.Time) (State, error) {
	s := &r.state
	first := r.looked.IsZero()
	s.Now, s.Problem = t, ""
	if first || t.Sub(r.looked) >= standingEvery {
		standing, err := results.ReadStanding(r.dir)
		if err != nil && first {
			return State{}, err
		}
		if err != nil {
			s.Problem = err.Error()
		} else {
			s.Standing, r.looked = standing, t
			s.Held, _ = runfolder.Held(r.dir) // after an error the status decides
			s.Hosts = map[int]string{}
			ranks, _ := runfolder.ReadRanks(r.dir) // without the file hosts are unknown
			for _, rank := range ranks {
				s.Hosts[rank.Rank] = rank.Host
			}
			if start, ok := runfolder.LastStart(r.dir); ok {
				s.Started, s.Crowd = start.Started, start.Crowd()
			}
		}
	}
	if err := r.record.read(); err != nil {
		s.Problem = err.Error()
	}
	s.Record = r.record.NewestMetrics
	s.Record.Curves = maps.Clone(s.Record.Curves) // later reads change only r.record
	s.readLive(filepath.Join(r.dir, "live.json"))
	if first || t.Sub(r.scanned) >= logsEvery {
		s.Alert, r.scanned = r.alerts.newest(), t
	}
	return *s, nil
}

// readLive reads live.json. If the file is damaged, s.Live does not change.
func (s *State) readLive(path string) {
	l, err := trace.ReadLive(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Live, s.NoLive = trace.Live{}, "no live.json"
	case err != nil:
		if s.Live.Time.IsZero() {
			s.NoLive = "live.json is damaged"
		}
	case l.Time.Before(s.Started):
		s.Live, s.NoLive = trace.Live{}, "live.json is from an earlier start of the run"
	default:
		s.Live, s.NoLive = l, ""
	}
}

// mostRecord is the maximum number of bytes that the first read takes from the end of metrics.jsonl.
const mostRecord = 32 << 20

// A record reads the new lines of metrics.jsonl.
type record struct {
	NewestMetrics
	path string
	file os.FileInfo // the file of the last read
	next int64       // offset of the next line
}

// read reads new lines. It begins again if the file was replaced or truncated, for example by a resume or a new run.
func (r *record) read() error {
	info, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		*r = record{path: r.path}
		return nil
	} else if err != nil {
		return err
	}
	cut := false // whether the first line lacks its beginning
	if r.file == nil || !os.SameFile(info, r.file) || info.Size() < r.next {
		*r = record{path: r.path, next: max(info.Size()-mostRecord, 0),
			NewestMetrics: NewestMetrics{Curves: map[string]MetricHistory{}}}
		cut = r.next > 0
	}
	r.file = info
	if info.Size() == r.next {
		return nil
	}
	_, err = metrics.ReadLines(r.path, r.next, func(line []byte, size int64) error {
		r.next += size
		if !cut {
			r.add(line)
		}
		cut = false
		return nil
	})
	return err
}

// add parses a line. It skips damaged lines.
func (r *record) add(line []byte) {
	values := metrics.ParseLine(line)
	of := func(name string) (x float64, ok bool) {
		x, ok = values[name]
		return x, ok && !math.IsNaN(x)
	}
	step, ok := of("step")
	if !ok {
		return
	}
	r.Step = int64(step)
	if at, ok := of("time"); ok {
		r.At = time.UnixMilli(int64(at * 1000))
	}
	if _, ok := of("time/" + loop.Phases[loop.WholeStep]); ok {
		r.Newest = PhaseTimes{Step: r.Step, At: r.At, Seconds: map[string]float64{}}
		for _, phase := range append(loop.Phases[:], loop.Simulate) {
			if x, ok := of("time/" + phase); ok {
				r.Newest.Seconds[phase] = x
			}
		}
		if !r.Newest.evaluated() {
			r.Usual = r.Newest
		}
	}
	for _, name := range results.Headlines() {
		if x, ok := of(name); ok {
			c := r.Curves[name]
			c.add(r.Step, x)
			r.Curves[name] = c
		}
	}
}
