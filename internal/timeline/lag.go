package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// A Lag counts the adoptions of weights in a window by the age of the weights, in versions.
type Lag struct {
	Name string // name of the weights
	// Counts has the number of adoptions with each lag. A lag is the newest published version at the end of the wait,
	// minus the adopted version.
	Counts map[int64]int
	// Unknown is the number of adoptions before the first Publish in the window.
	Unknown int
}

// VersionLags returns the lags of the weights in a window, in the order of their first sites. It leaves out weights
// that no worker adopted.
func VersionLags(a *trace.Attempt, w *trace.Window) (lags []Lag) {
	v := newIndex(a).view(w)
	type event struct {
		at, version int64
		adopted     int // 0: a worker published the version, 1: a worker adopted it
	}
	var names []string
	events := map[string][]event{}
	for worker, t := range v.tracks {
		if t == nil {
			continue
		}
		for _, s := range t.Spans {
			site := v.site(worker, s.Site)
			if site.Op != trace.Publish && site.Op != trace.Adopt {
				continue
			}
			if events[site.Name] == nil {
				names = append(names, site.Name)
			}
			e := event{at: s.End, version: s.Arg}
			if site.Op == trace.Adopt {
				e.adopted = 1
			}
			events[site.Name] = append(events[site.Name], e)
		}
	}
	for _, name := range names {
		// Among events at the same time, a Publish comes first, because its version can be adopted at once.
		slices.SortStableFunc(events[name], func(a, b event) int {
			return cmp.Or(cmp.Compare(a.at, b.at), a.adopted-b.adopted)
		})
		l, newest, published := Lag{Name: name, Counts: map[int64]int{}}, int64(0), false
		for _, e := range events[name] {
			switch {
			case e.adopted == 0:
				newest, published = max(newest, e.version), true
			case published:
				l.Counts[max(0, newest-e.version)]++
			default:
				l.Unknown++
			}
		}
		if l.Unknown > 0 || len(l.Counts) > 0 {
			lags = append(lags, l)
		}
	}
	return lags
}
