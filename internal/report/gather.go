package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
)

// A Run has all that a page says about one run.
type Run struct {
	Folder     string
	Status     runfolder.Status // "" if unknown
	Starts     []runfolder.Provenance
	Metrics    *Metrics
	Trace      *trace.Trace // nil: none
	Settings   []Setting
	Films      []Film
	Unseen     []string // films that are not on the page, with the reason
	Rewards    []Rewards
	Answers    []Evaluation
	Moves      []moves.Move
	Logs       []RankLog
	Checkpoint string // the newest; "": none
	Next       string // lines of `rlinf status`
	Problems   []string
}

// About is what the command line knows about a run, and this package cannot.
type About struct {
	Defaults []byte // the default configuration, as YAML
	// Key returns the meaning of a key, and the key with its default value, or "".
	Key  func(name string) (meaning, from string)
	Next string // lines of `rlinf status`
}

// A RankLog is the end of the log of a rank.
type RankLog struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Cut  bool   `json:"cut"` // the text has no beginning, which the file has
}

// Gather reads the run in the folder dir. The trace is that of the run; nil if it has none.
func Gather(dir string, about About, t *trace.Trace) *Run {
	r := &Run{Folder: filepath.Clean(dir), Trace: t, Next: about.Next}
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }

	var err error
	if r.Status, err = runfolder.ReadStatus(dir); err != nil {
		problem("STATUS cannot be read: %v.", err)
	} else if r.Status == "" {
		problem("STATUS is missing: the run has not begun, or the file was removed.")
	}
	var problems []string
	r.Starts, problems = readStarts(dir)
	r.Problems = append(r.Problems, problems...)
	r.Metrics, problems = readMetrics(filepath.Join(dir, "metrics.jsonl"))
	r.Problems = append(r.Problems, problems...)
	r.Rewards, problems = readRewards(filepath.Join(dir, "generation.jsonl"), r.Metrics)
	r.Problems = append(r.Problems, problems...)
	r.Moves, problems = readMoves(dir)
	r.Problems = append(r.Problems, problems...)
	r.Settings, problems = readSettings(filepath.Join(dir, "config.yaml"), about)
	r.Problems = append(r.Problems, problems...)
	if t != nil {
		r.Problems = append(r.Problems, t.Problems...)
	}
	if a, _ := r.lastAttempt(); a == nil {
		problem("The run has no trace: the page cannot show timelines, waits and the critical path.")
	}
	r.Films, r.Unseen, problems = readFilms(filmsOf(dir, r.Settings))
	r.Problems = append(r.Problems, problems...)
	r.Answers, problems = readAnswers(filepath.Join(dir, "answers.txt"))
	r.Problems = append(r.Problems, problems...)
	if r.Logs, err = readLogs(dir); err != nil {
		problem("The logs of ranks cannot be read: %v.", err)
	}
	for _, l := range r.Logs {
		if n, last := l.warnings(); n > 0 {
			problem("%s has %s; the last: %s", l.Name, count(n, "warning", "warnings"), last)
		}
	}
	r.Checkpoint = checkpoint.Latest(filepath.Join(dir, "checkpoints"))
	return r
}

// readStarts returns the entries of provenance.json.
func readStarts(dir string) (starts []runfolder.Provenance, problems []string) {
	text, err := durable.ReadFile(filepath.Join(dir, "provenance.json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, []string{"provenance.json is missing: program, machine and arguments are unknown."}
	case err != nil:
		return nil, []string{fmt.Sprintf("provenance.json cannot be read: %v.", err)}
	}
	if err := json.Unmarshal(text, &starts); err != nil {
		return nil, []string{fmt.Sprintf("provenance.json is damaged: %v.", err)}
	}
	return starts, nil
}

// The logs on a page are those of the first ranks that have one, and of each its end.
const (
	mostLogs = 16
	mostLog  = 16 << 10 // bytes
)

// readLogs returns the ends of the ranks' logs, in the order of ranks.
func readLogs(dir string) (logs []RankLog, err error) {
	paths, err := filepath.Glob(filepath.Join(results.EscapeGlob(dir), "logs", "rank-*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	for i, path := range paths {
		if i == mostLogs {
			logs = append(logs, RankLog{Name: count(len(paths)-mostLogs, "more log", "more logs")})
			break
		}
		l := RankLog{Name: filepath.Base(path)}
		text, err := durable.ReadFile(path)
		if err != nil {
			l.Text = err.Error()
		} else if len(text) == 0 {
			continue
		}
		if len(text) > mostLog {
			text, l.Cut = text[len(text)-mostLog:], true
		}
		if err == nil {
			l.Text = printed(string(text))
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// warnings returns the number of warnings in the text, and the last one.
func (l *RankLog) warnings() (n int, last string) {
	for line := range strings.Lines(l.Text) {
		if strings.Contains(strings.ToLower(line), "warning:") {
			n, last = n+1, strings.TrimSpace(line)
		}
	}
	if len(last) > mostWarning {
		last = strings.ToValidUTF8(last[:mostWarning], "") + " …"
	}
	return n, last
}

// mostWarning is the largest number of bytes of a warning in a summary.
const mostWarning = 300

// resumes returns the iterations after which the run was resumed.
func (r *Run) resumes() (steps []float64) {
	for _, s := range r.Starts {
		if n, ok := strings.CutPrefix(filepath.Base(s.Resumed), "global_step_"); ok {
			if step, err := strconv.ParseUint(n, 10, 52); err == nil {
				steps = append(steps, float64(step))
			}
		}
	}
	return steps
}

// ranks returns the number of ranks of the newest start, and of hosts; 0 if unknown.
func (r *Run) ranks() (ranks, hosts int) {
	if len(r.Starts) > 0 {
		names := slices.Clone(r.Starts[len(r.Starts)-1].Hosts)
		ranks = len(names)
		slices.Sort(names)
		hosts = len(slices.Compact(names))
	}
	if ranks == 0 && r.Trace != nil && len(r.Trace.Attempts) > 0 {
		last := r.Trace.Attempts[len(r.Trace.Attempts)-1]
		ranks, hosts = last.Ranks, len(last.Hosts)
	}
	return ranks, hosts
}
