package report

import (
	"maps"
	"slices"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// criticalData has the shares of the critical paths of some windows. Times are means per iteration, in seconds.
type criticalData struct {
	Name       string     `json:"name"` // kind of the windows
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
	What     string  `json:"what,omitempty"`  // name of a site
	Cause    string  `json:"cause,omitempty"` // cause of a site
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

// lagData has the ages of the weights that workers adopted, in versions.
type lagData struct {
	Name     string    `json:"name"`
	Versions []int64   `json:"versions"` // lags
	Counts   []int     `json:"counts"`   // adoptions with each lag
	Unknown  int       `json:"unknown"`  // adoptions whose lag is unknown
	At       []int64   `json:"at"`       // iterations
	Mean     []float64 `json:"mean"`     // the mean lag in each iteration of At
}

// queueData has the maximum and the mean number of items in a channel.
type queueData struct {
	Channel string  `json:"channel"`
	Most    int64   `json:"most"`
	Mean    float64 `json:"mean"`
	Exact   bool    `json:"exact"` // see timeline.QueueStats
}

// The maximum numbers of rows in the tables of the critical path.
const mostSites, mostLinks = 14, 10

// critical summarizes the critical paths of an attempt. It separates usual iterations, those with an evaluation or a
// checkpoint, the slowest iterations, and the first iterations, which warm up.
func critical(a *trace.Attempt) (all []criticalData) {
	if s, iterations, windows := timeline.UsualShares(a); s.Total.Total() > 0 {
		d := criticalData{Name: "usual iterations", Windows: windows}
		d.divide(a, s, iterations)
		all = append(all, d)
	}
	kinds := []criticalData{{Name: "iterations with an evaluation or a checkpoint"}, {Name: "slowest iterations"},
		{Name: "first iterations"}}
	paths := make([][]*timeline.Path, len(kinds))
	unusual := timeline.Unusual(a)
	for i := range a.Windows {
		w := &a.Windows[i]
		kind := 0
		switch {
		case unusual[w.Iteration]:
		case w.Why == trace.Slowest:
			kind = 1
		case w.Why == trace.First:
			kind = 2
		default:
			continue
		}
		if p := timeline.CriticalPath(a, w); len(p.Segments) > 0 {
			paths[kind] = append(paths[kind], p)
		}
	}
	for i := range kinds {
		d := &kinds[i]
		if d.Windows = len(paths[i]); d.Windows > 0 {
			d.divide(a, timeline.SharesOf(a, paths[i]...), d.Windows)
			all = append(all, *d)
		}
	}
	return all
}

// divide fills d with the shares in s, as means over the given number of iterations.
func (d *criticalData) divide(a *trace.Attempt, s *timeline.Shares, iterations int) {
	n := float64(iterations)
	cost := func(name, what, cause string, c timeline.PathTime) costData {
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

// lags returns the lags of weights and the queues of channels over all windows.
func lags(a *trace.Attempt) *lagsData {
	d := new(lagsData)
	var counts []map[int64]int // by index in d.Lags
	var windows []float64      // by index in d.Queues
	for i := range a.Windows {
		w := &a.Windows[i]
		for _, l := range timeline.VersionLags(a, w) {
			name := plain(l.Name)
			at := slices.IndexFunc(d.Lags, func(d lagData) bool { return d.Name == name })
			if at < 0 {
				at = len(d.Lags)
				d.Lags, counts = append(d.Lags, lagData{Name: name}), append(counts, map[int64]int{})
			}
			of := &d.Lags[at]
			of.Unknown += l.Unknown
			total, sum := int64(0), int64(0)
			for versions, n := range l.Counts {
				total, sum = total+int64(n), sum+versions*int64(n)
				counts[at][versions] += n
			}
			if total > 0 {
				of.At, of.Mean = append(of.At, w.Iteration), append(of.Mean, float64(sum)/float64(total))
			}
		}
		for _, q := range timeline.QueuesOf(a, w) {
			channel := plain(q.Channel)
			at := slices.IndexFunc(d.Queues, func(d queueData) bool { return d.Channel == channel })
			if at < 0 {
				at = len(d.Queues)
				d.Queues, windows = append(d.Queues, queueData{Channel: channel, Exact: true}), append(windows, 0)
			}
			of := &d.Queues[at]
			of.Most, of.Mean, of.Exact = max(of.Most, q.Max), of.Mean+q.Mean, of.Exact && q.Exact
			windows[at]++
		}
	}
	for i, n := range windows {
		d.Queues[i].Mean /= n
	}
	for i, n := range counts {
		of := &d.Lags[i]
		of.Versions = slices.Sorted(maps.Keys(n))
		for _, versions := range of.Versions {
			of.Counts = append(of.Counts, n[versions])
		}
	}
	return d
}
