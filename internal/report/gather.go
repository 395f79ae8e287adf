package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
)

// A Run has the content of the page about a run.
type Run struct {
	Folder     string
	Status     runfolder.Status // "" if unknown
	Starts     []runfolder.Provenance
	Metrics    *MetricColumns
	Trace      *trace.Trace // nil if there is none
	Settings   []KeyValue
	Films      []EvaluationFilm
	Unseen     []string // films that are not on the page, each with the reason
	Rewards    []Rewards
	perRewards int // number of lines of generation.jsonl in each of Rewards; 0 means 1
	Answers    []AnswerSamples
	Moves      []moves.Move // the newest moves
	moved      int          // number of all moves
	Logs       []LogTail
	Checkpoint string // the newest checkpoint, or ""
	Next       string // lines of `rlinf status`
	Problems   []string
	threshold  func(task string) (float64, bool) // see About
}

// About is the data about a run that only the command line knows.
type About struct {
	Defaults []byte // the default configuration, as YAML
	// Key returns the meaning of a key. If the key's default is the value of another key, source is that key.
	Key  func(name string) (meaning, source string)
	Next string // lines of `rlinf status`
	// Threshold returns the return at which a task counts as solved. known is false if there is none. Threshold may be
	// nil.
	Threshold func(task string) (least float64, known bool)
}

// A LogTail is the end of the log of a rank.
type LogTail struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Cut  bool   `json:"cut"` // the file has more text before Text
}

// Gather reads the run in the folder dir. t is the trace of the run, or nil.
func Gather(dir string, about About, t *trace.Trace) *Run {
	r := &Run{Folder: filepath.Clean(dir), Trace: t, Next: about.Next, threshold: about.Threshold}
	r.readStatus()
	r.readStarts()
	r.readMetrics()
	r.readRewards()
	r.readMoves()
	r.readSettings(about)
	if t != nil {
		r.Problems = append(r.Problems, t.Problems...)
	}
	if a, _ := r.lastAttempt(); a == nil {
		r.problem("The run has no trace: the page cannot show timelines, waits and the critical path.")
	}
	r.readFilms()
	r.readAnswers()
	r.readLogs()
	r.Checkpoint = checkpoint.Latest(r.path("checkpoints"))
	return r
}

// path returns the path of a file in the run's folder.
func (r *Run) path(name string) string { return filepath.Join(r.Folder, name) }

// problem adds a problem for the user.
func (r *Run) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Run) readStatus() {
	var err error
	if r.Status, err = runfolder.ReadStatus(r.Folder); err != nil {
		r.problem("STATUS cannot be read: %v.", err)
	} else if r.Status == "" {
		r.problem("STATUS is missing: the run has not begun, or the file was removed.")
	}
}

// readStarts reads provenance.json.
func (r *Run) readStarts() {
	text, err := durable.ReadFile(r.path("provenance.json"), durable.Text)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.problem("provenance.json is missing: program, machine and arguments are unknown.")
		return
	case err != nil:
		r.problem("provenance.json cannot be read: %v.", err)
		return
	}
	if err := json.Unmarshal(text, &r.Starts); err != nil {
		r.problem("provenance.json is damaged: %v.", err)
		r.Starts = nil
	}
}

// Limits of the logs on a page. A page has the ends of the first mostLogs logs.
const (
	mostLogs = 16
	mostLog  = 16 << 10 // bytes
)

// readLogs reads the ends of the ranks' logs, in the order of ranks.
func (r *Run) readLogs() {
	paths, err := filepath.Glob(filepath.Join(results.EscapeGlob(r.Folder), "logs", "rank-*.log"))
	if err != nil {
		r.problem("The logs of ranks cannot be read: %v.", err)
	}
	slices.Sort(paths)
	for i, path := range paths {
		if i == mostLogs {
			r.Logs = append(r.Logs, LogTail{Name: count(len(paths)-mostLogs, "more log", "more logs")})
			break
		}
		l := LogTail{Name: filepath.Base(path)}
		text, cut, err := durable.Tail(path, mostLog)
		switch {
		case err != nil:
			l.Text = err.Error()
		case len(text) == 0:
			continue
		default:
			l.Text, l.Cut = printed(string(text)), cut
		}
		r.Logs = append(r.Logs, l)
	}
	for _, l := range r.Logs {
		if n, last := l.warnings(); n > 0 {
			r.problem("%s has %s; the last: %s", l.Name, count(n, "warning", "warnings"), last)
		}
	}
}

// warnings returns the number of warnings in the text, and the last warning.
func (l *LogTail) warnings() (n int, last string) {
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

// mostWarning is the maximum length of a warning in the list of problems, in bytes.
const mostWarning = 300

// resumes marks the iterations after which the run was resumed, or forked from another run.
func (r *Run) resumes() (marks []mark) {
	for _, s := range r.Starts {
		if step, ok := checkpoint.StepOf(s.Resumed); ok && step >= 0 && step < 1<<52 {
			text := "resumed"
			if s.Forked != "" {
				text = plain("forked from " + filepath.Base(filepath.Dir(filepath.Dir(s.Forked))))
			}
			marks = append(marks, mark{float64(step), text})
		}
	}
	return marks
}

// ranks returns the numbers of ranks and hosts of the newest start, or 0 if they are unknown.
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
