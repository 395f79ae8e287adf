package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// A Lag says how old the weights were that workers adopted in a window.
type Lag struct {
	Name   string     // of the weights
	Counts []LagCount // in the order of Versions
	// Unknown is the number of adoptions before the first Publish in the window.
	Unknown int
}

// A LagCount is the number of adoptions with one lag.
type LagCount struct {
	Versions int64 // newest published version - adopted version, when the wait ended
	Count    int
}

// VersionLags returns the lags of the weights in a window, in the order of their first sites. Weights that no worker
// adopted are left out.
func VersionLags(a *trace.Attempt, w *trace.Window) []Lag {
	v := newIndex(a).view(w)
	type version struct {
		at, version int64
		adopted     bool
	}
	var lags []Lag
	var events [][]version
	at := map[string]int{}
	for worker, t := range v.tracks {
		if t == nil {
			continue
		}
		for i := range t.Spans {
			s := &t.Spans[i]
			site := v.site(worker, s.Site)
			if site.Op != trace.Publish && site.Op != trace.Adopt {
				continue
			}
			if lags = grow(lags, at, site.Name, Lag{Name: site.Name}); len(events) < len(lags) {
				events = append(events, nil)
			}
			events[at[site.Name]] = append(events[at[site.Name]], version{s.End, s.Arg, site.Op == trace.Adopt})
		}
	}
	for i := range lags {
		slices.SortStableFunc(events[i], func(a, b version) int {
			if a.at == b.at && a.adopted != b.adopted { // what is published is there to be adopted
				if a.adopted {
					return 1
				}
				return -1
			}
			return cmp.Compare(a.at, b.at)
		})
		newest, published := int64(0), false
		counts := map[int64]int{}
		for _, e := range events[i] {
			switch {
			case !e.adopted:
				newest, published = max(newest, e.version), true
			case published:
				counts[max(0, newest-e.version)]++
			default:
				lags[i].Unknown++
			}
		}
		for versions, n := range counts {
			lags[i].Counts = append(lags[i].Counts, LagCount{versions, n})
		}
		slices.SortFunc(lags[i].Counts, func(a, b LagCount) int { return cmp.Compare(a.Versions, b.Versions) })
	}
	return slices.DeleteFunc(lags, func(l Lag) bool { return l.Unknown == 0 && len(l.Counts) == 0 })
}
