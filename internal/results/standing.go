package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// IsRun reports whether dir is the folder of a run, even if it has no metrics yet or lacks some of its files.
func IsRun(dir string) bool {
	return slices.ContainsFunc([]string{"config.yaml", "STATUS", "metrics.jsonl", "provenance.json"},
		func(name string) bool {
			info, err := os.Stat(filepath.Join(dir, name))
			return err == nil && !info.IsDir()
		})
}

// A Standing is the state of a run. Its JSON omits unknown numbers.
type Standing struct {
	Run    string           `json:"run"` // the run's folder
	Status runfolder.Status `json:"status"`
	Step   int64            `json:"step"`            // iterations made
	Steps  int64            `json:"steps,omitempty"` // iterations of the whole run
	// Metric is the main metric of training: env/return, rollout/rewards or train/sft/loss. Value is its newest value.
	Metric string   `json:"metric,omitempty"`
	Value  *float64 `json:"value,omitempty"`
	// Rate is the work per second of iterations, without evaluations, in "env steps/s" or "tokens/s". While the run is
	// running, it is the rate of the newest line of metrics. Otherwise it is the mean over the whole run.
	Rate     *float64 `json:"rate,omitempty"`
	RateUnit string   `json:"rate_unit,omitempty"`
	// SecondsLeft is the remaining time of a running run, at the rate of its newest iteration.
	SecondsLeft *float64  `json:"seconds_left,omitempty"`
	Checkpoint  string    `json:"checkpoint,omitempty"` // the newest checkpoint
	Updated     time.Time `json:"updated"`              // when metrics or status were last written
	// Moves is the number of moves. LastMove is the newest move. Placement is the present placement, set only if the
	// run has moved since its newest start.
	Moves     int         `json:"moves,omitempty"`
	LastMove  *moves.Move `json:"last_move,omitempty"`
	Placement string      `json:"placement,omitempty"`
}

// Statuses that no run writes.
const (
	NotBegun   runfolder.Status = "not begun"  // there is no STATUS
	Unreadable runfolder.Status = "unreadable" // ReadStanding returns an error
)

// ReadStanding returns the state of the run in dir.
func ReadStanding(dir string) (s Standing, err error) {
	s = Standing{Run: dir, Checkpoint: checkpoint.Latest(filepath.Join(dir, "checkpoints"))}
	if s.Status, err = runfolder.ReadStatus(dir); err != nil {
		return s, err
	}
	s.Status = cmp.Or(s.Status, NotBegun)
	for _, name := range []string{"config.yaml", "STATUS", "metrics.jsonl"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(s.Updated) {
			s.Updated = info.ModTime()
		}
	}
	start, begun := runfolder.LastStart(dir)
	if begun {
		s.Steps = start.Iterations
	}
	if newest, made, _, err := moves.Newest(dir, 1); err == nil && made > 0 { // an error here is not fatal
		s.Moves, s.LastMove = made, &newest[0]
		if begun && !s.LastMove.Time.Before(start.Started) {
			s.Placement = s.LastMove.After
		}
	}
	newest := metrics.Newest(filepath.Join(dir, "metrics.jsonl"))
	value := func(name string) *float64 {
		if x, ok := newest[name]; ok {
			return &x
		}
		return nil
	}
	s.Step = int64(newest["step"])
	for _, name := range []string{"env/return", "rollout/rewards", "train/sft/loss"} {
		if x := value(name); x != nil {
			s.Metric, s.Value = name, x
			break
		}
	}
	for _, rate := range [][2]string{{"time/tokens_per_second", "tokens/s"},
		{"time/env_steps_per_second", "env steps/s"}} {
		if x := value(rate[0]); x != nil {
			s.Rate, s.RateUnit = x, rate[1]
		}
	}
	if s.Rate != nil && s.Status != runfolder.Running {
		if pace := metrics.ReadPace(filepath.Join(dir, "metrics.jsonl")); pace.Done > 0 {
			s.Rate = new(pace.Rate())
		}
	}
	if pace := value("time/step"); pace != nil && s.Status == runfolder.Running && s.Steps > s.Step {
		s.SecondsLeft = new(*pace * float64(s.Steps-s.Step))
	}
	return s, nil
}

// RunsIn returns the run in dir. If dir is not a run's folder, it returns all runs at most three levels below dir (a
// sweep, a point, a seed), the newest first. One of several runs may be Unreadable.
func RunsIn(dir string) (runs []Standing, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such folder", dir)
	}
	paths := []string{dir}
	if !IsRun(dir) {
		paths = nil
		for levels := "/*"; len(levels) <= len("/*/*/*"); levels += "/*" {
			found, err := filepath.Glob(EscapeGlob(filepath.Clean(dir)) + levels + "/STATUS")
			if err != nil {
				return nil, err
			}
			for _, path := range found {
				if run := filepath.Dir(path); !strings.HasPrefix(filepath.Base(run), "earlier-") {
					paths = append(paths, run)
				}
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: expected the folder of a run, or one with runs in it", dir)
	}
	for _, path := range paths {
		s, err := ReadStanding(path)
		if err != nil && path == dir {
			return nil, err
		} else if err != nil {
			s.Status = Unreadable
		}
		runs = append(runs, s)
	}
	slices.SortStableFunc(runs, func(a, b Standing) int { return b.Updated.Compare(a.Updated) })
	return runs, nil
}
