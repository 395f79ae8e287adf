package report

import (
	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// criticalData divides the critical paths of some windows, in seconds of one iteration.
type criticalData struct {
	Name       string     `json:"name"` // of the windows
	Windows    int        `json:"windows"`
	Components []costData `json:"components"`
	Sites      []costData `json:"sites"`
	Links      []linkData `json:"links"`
}

// lagsData has the lags of weights and the queues of channels in the newest attempt's windows.
type lagsData struct {
	Lags   []lagData   `json:"lags"`
	Queues []queueData `json:"queues"`
}

type costData struct {
	Name     string  `json:"name"`
	What     string  `json:"what,omitempty"` // of a site
	Cause    string  `json:"cause,omitempty"`
	Busy     float64 `json:"busy"`
	Transfer float64 `json:"transfer"`
	Wait     float64 `json:"wait"`
	Unknown  float64 `json:"unknown"`
}

type linkData struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
}

// lagData says how old weights were when workers adopted them.
type lagData struct {
	Name     string    `json:"name"`
	Versions []int64   `json:"versions"`
	Counts   []int     `json:"counts"`
	Unknown  int       `json:"unknown"`
	At       []int64   `json:"at"`   // iterations
	Mean     []float64 `json:"mean"` // lag of each
}

// queueData has the numbers of items in a channel.
type queueData struct {
	Channel string  `json:"channel"`
	Most    int64   `json:"most"`
	Mean    float64 `json:"mean"`
	Exact   bool    `json:"exact"`
}

// Most rows of tables of the critical path.
const mostSites, mostLinks = 14, 10

// critical follows the paths of the newest attempt: those of usual iterations, of the slowest, and of the first, which
// make room for what follows.
func (r *Run) critical() (all []criticalData, lags *lagsData) {
	a, _ := r.lastAttempt()
	if a == nil || len(a.Windows) == 0 {
		return nil, nil
	}
	kinds := []criticalData{{Name: "usual iterations"}, {Name: "slowest iterations"}, {Name: "first iterations"}}
	paths := make([][]*timeline.Path, len(kinds))
	for i := range a.Windows {
		kind := 0
		switch a.Windows[i].Why {
		case trace.Slowest:
			kind = 1
		case trace.First:
			kind = 2
		}
		if p := timeline.CriticalPath(a, &a.Windows[i]); len(p.Segments) > 0 {
			paths[kind] = append(paths[kind], p)
		}
	}
	for i := range kinds {
		d := &kinds[i]
		if d.Windows = len(paths[i]); d.Windows > 0 {
			d.divide(a, timeline.SharesOf(a, paths[i]...))
			all = append(all, *d)
		}
	}
	lags = new(lagsData)
	lags.follow(a)
	return all, lags
}

// divide takes the shares of the paths.
func (d *criticalData) divide(a *trace.Attempt, s *timeline.Shares) {
	n := float64(d.Windows)
	cost := func(name, what, cause string, c timeline.Cost) costData {
		return costData{plain(name), plain(what), plain(cause), c.Busy / n, c.Transfer / n, c.Wait / n, c.Unknown / n}
	}
	for _, c := range s.Components {
		d.Components = append(d.Components, cost(c.Component, "", "", c.Cost))
	}
	for _, c := range s.Sites[:min(len(s.Sites), mostSites)] {
		d.Sites = append(d.Sites, cost(c.Component, c.Name, string(c.Cause), c.Cost))
	}
	for _, l := range s.Links[:min(len(s.Links), mostLinks)] {
		d.Links = append(d.Links, linkData{nameOf(&a.Workers[l.From]), nameOf(&a.Workers[l.To]), l.Seconds / n})
	}
}

// follow takes the lags of weights and the queues of channels from all windows.
func (d *lagsData) follow(a *trace.Attempt) {
	lags, queues := map[string]int{}, map[string]int{}
	var counted []float64 // windows of each queue
	for i := range a.Windows {
		w := &a.Windows[i]
		for _, l := range timeline.VersionLags(a, w) {
			at, ok := lags[l.Name]
			if !ok {
				at = len(d.Lags)
				lags[l.Name], d.Lags = at, append(d.Lags, lagData{Name: plain(l.Name)})
			}
			d.Lags[at].add(w.Iteration, l)
		}
		for _, q := range timeline.Queues(a, w) {
			at, ok := queues[q.Channel]
			if !ok {
				at = len(d.Queues)
				queues[q.Channel] = at
				d.Queues = append(d.Queues, queueData{Channel: plain(q.Channel), Exact: true})
				counted = append(counted, 0)
			}
			of := &d.Queues[at]
			of.Most, of.Mean, of.Exact = max(of.Most, q.Max), of.Mean+q.Mean, of.Exact && q.Exact
			counted[at]++
		}
	}
	for i := range d.Queues {
		d.Queues[i].Mean /= counted[i]
	}
}

// add adds the lags of a window.
func (d *lagData) add(iteration int64, l timeline.Lag) {
	d.Unknown += l.Unknown
	total, sum := 0, 0.0
	for _, c := range l.Counts {
		total, sum = total+c.Count, sum+float64(c.Versions)*float64(c.Count)
		at := 0
		for at < len(d.Versions) && d.Versions[at] < c.Versions {
			at++
		}
		if at == len(d.Versions) || d.Versions[at] != c.Versions {
			d.Versions = append(d.Versions[:at], append([]int64{c.Versions}, d.Versions[at:]...)...)
			d.Counts = append(d.Counts[:at], append([]int{0}, d.Counts[at:]...)...)
		}
		d.Counts[at] += c.Count
	}
	if total > 0 {
		d.At, d.Mean = append(d.At, iteration), append(d.Mean, sum/float64(total))
	}
}
