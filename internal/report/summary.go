package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// state returns the state of the run in words.
func (r *Run) state() string {
	switch r.Status {
	case "":
		return "unknown"
	case runfolder.Dead:
		return "killed"
	}
	return plain(string(r.Status))
}

// exits describe the end of a run for each status.
var exits = map[runfolder.Status]string{
	runfolder.Running:      "The run is not over. The page shows it as it was when the page was written.",
	runfolder.Done:         "The run ended as planned (exit code 0).",
	runfolder.Failed:       "The run failed (exit code 1, or 76 if a rank stopped responding). The logs below say why.",
	runfolder.Checkpointed: "The run stopped on request after a checkpoint (exit code 75). It can be resumed.",
	runfolder.Interrupted:  "The run was interrupted by a signal (exit code 129, 130 or 143).",
	runfolder.Dead: "The run was killed, or its node failed: it did not write its end. This page has all that it had " +
		"written until then.",
}

// facts returns the figures at the top of a page.
func (r *Run) facts() (facts []fact) {
	m := r.Metrics
	add := func(label, value, note string) { facts = append(facts, fact{label, value, note}) }
	var planned int64
	if n := len(r.Starts); n > 0 {
		planned = r.Starts[n-1].Iterations
	}
	if n := len(m.Steps); n > 0 {
		of := ""
		if planned > 0 {
			of = fmt.Sprintf("of %d planned", planned)
		}
		add("iterations", fmt.Sprintf("%.0f", m.Steps[n-1]), of)
	}
	for _, name := range results.Headlines() {
		v, ok := m.last(name)
		if !ok {
			continue
		}
		best := v
		for _, x := range m.Columns[name] {
			if results.Better(results.ModeOf(name), x, best) {
				best = x
			}
		}
		add(strings.ReplaceAll(strings.TrimPrefix(name, "train/"), "/", " "), figure(v), "best "+figure(best))
		break
	}
	seconds := 0.0
	if s := m.seconds(); len(s) > 0 && s[len(s)-1] > 0 {
		seconds = s[len(s)-1]
		add("time of iterations", duration(seconds), fmt.Sprintf("%s each", duration(seconds/m.Steps[len(m.Steps)-1])))
	}
	pace := m.pace()
	if steps, ok := m.last("env/steps"); ok {
		note := ""
		if pace.Seconds > 0 {
			note = figure(pace.Rate()) + " per second"
		}
		add("environment steps", figure(steps), note)
	} else if pace.Done > 0 {
		add("tokens", figure(pace.Rate()), "per second")
	}
	if ranks, hosts := r.ranks(); ranks > 0 {
		add("ranks", fmt.Sprint(ranks), "on "+count(hosts, "host", "hosts"))
	}
	if n := len(r.Moves); n > 0 {
		add("moves", fmt.Sprint(r.moved), fmt.Sprintf("the last after iteration %d", r.Moves[n-1].Step))
	}
	if n := len(r.Starts); n > 1 {
		add("starts", fmt.Sprint(n), "")
	}
	return facts
}

// A sentence describes the end of the run, or a finding about the run.
type sentence struct {
	Text  string `json:"text"`
	Fault bool   `json:"fault,omitempty"`
	Key   string `json:"key,omitempty"` // configuration key to change, or ""
}

// sentences returns the findings of the trace. The verdict on learning follows the first finding. Two sentences may
// precede the findings: about the end of the run, if it did not end as planned, and about ranks that share cores. If
// the run did not fail, the sentence about cores comes first.
func (r *Run) sentences() (all []sentence) {
	if r.Status != runfolder.Done && exits[r.Status] != "" {
		bad := r.Status == runfolder.Failed || r.Status == runfolder.Dead
		all = append(all, sentence{Text: exits[r.Status], Fault: bad})
	}
	if i := r.lastCrowded(); i >= 0 {
		crowd := sentence{plain(r.Starts[i].Crowd()) + ": " + runfolder.CrowdAdvice + ".", true,
			"cluster.component_placement"}
		if all = append(all, crowd); len(all) > 1 && !all[0].Fault {
			slices.Reverse(all)
		}
	}
	next := len(all) + 1
	var attempts []trace.Attempt
	if r.Trace != nil {
		attempts = r.Trace.Attempts
	}
	for _, f := range timeline.Conclude(attempts, r.load) {
		all = append(all, sentence{plain(f.Text), f.Kind == timeline.Fault, plain(f.Key)})
	}
	if learning := r.learning(); learning != nil {
		all = slices.Insert(all, min(next, len(all)), *learning)
	}
	return all[:min(len(all), timeline.MostFindings)]
}

// lastCrowded returns the newest start whose ranks shared fewer cores than there were ranks, or -1.
func (r *Run) lastCrowded() int {
	for i := len(r.Starts) - 1; i >= 0; i-- {
		if r.Starts[i].Crowd() != "" {
			return i
		}
	}
	return -1
}

// load returns how the ranks of an attempt used the cores of their hosts.
func (r *Run) load(a *trace.Attempt) timeline.CoreUse {
	for i := len(r.Starts) - 1; i >= 0; i-- {
		if s := &r.Starts[i]; i == 0 || s.Started.UnixNano() <= a.ID {
			switch {
			case s.Crowd() != "":
				return timeline.Crowded
			case s.Full():
				return timeline.Full
			}
			return timeline.Spare
		}
	}
	return timeline.Spare
}

// origin returns the facts about the starts of the run. It leaves out environment variables, which may hold secrets.
func (r *Run) origin() (facts []fact) {
	add := func(label, value string) {
		if value != "" {
			facts = append(facts, fact{Label: label, Value: plain(value)})
		}
	}
	add("end", exits[r.Status])
	for i, s := range r.Starts {
		label := func(what string) string {
			if len(r.Starts) == 1 {
				return what
			}
			return fmt.Sprintf("%s, start %d", what, i+1)
		}
		add(label("started"), s.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
		add(label("resumed from"), s.Resumed)
		add(label("forked from"), s.Forked)
		add(label("command"), strings.Join(s.Args, " "))
		add(label("program"), join(s.Build.Version, s.Build.Revision, s.Build.Tags, s.Build.Go, s.Build.Platform))
		add(label("ranks"), join(s.Transport, s.Library, s.Launcher, s.Threads))
		add(label("job"), s.Job)
		add(label("hosts"), runsOf(s.Hosts))
		add(label("processors of ranks"), runsOf(s.Binding))
		add(label("processors that Go uses"), fmt.Sprint(s.MaxProcs))
		add(label("shared memory"), s.Shared)
	}
	add("newest checkpoint", r.Checkpoint)
	add("folder", r.Folder)
	return facts
}

// join joins the nonempty words with commas.
func join(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// runsOf lists one text per rank, such as "ranks 0-3: a; rank 4: b". It joins neighbouring ranks with the same text.
func runsOf(texts []string) string {
	var items []string
	for i := 0; i < len(texts); {
		k := i
		for k < len(texts) && texts[k] == texts[i] {
			k++
		}
		at := fmt.Sprintf("rank %d", i)
		if k > i+1 {
			at = fmt.Sprintf("ranks %d-%d", i, k-1)
		}
		items = append(items, at+": "+texts[i])
		if len(items) == 32 && k < len(texts) {
			return strings.Join(items, "; ") + "; …"
		}
		i = k
	}
	return strings.Join(items, "; ")
}
