package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// loadGroups reads the groups of runs at paths, and gives them distinct names. key is the metric to compare. If metric
// is "", key is the first headline metric of any group. loadGroups omits groups without this metric and paths without a
// run, and lists them in notes. If no group remains, it returns an error.
func loadGroups(paths []string, metric string) (groups []results.SeedGroup, key string, notes []string, err error) {
	candidates := []string{metric}
	if metric == "" {
		candidates = results.Headlines()
	}
	for _, key = range candidates {
		var all []results.SeedGroup
		if all, notes, err = readGroups(paths, key); err != nil {
			return nil, "", nil, err
		}
		var without []string
		for _, g := range all {
			if len(g.At(key, math.Inf(1))) > 0 {
				groups = append(groups, g)
			} else {
				without = append(without, fmt.Sprintf("left out: %s: no %s", g.Path, key))
			}
		}
		if len(groups) > 0 {
			notes = append(notes, without...)
			break
		}
	}
	if len(groups) == 0 {
		return nil, "", nil, fmt.Errorf("%s: no %s: expected a metric that it has (--metric)%s", paths[0],
			candidates[0], suggest(paths[0], candidates[0]))
	}
	times := map[string]int{}
	for _, g := range groups {
		times[g.Name]++
	}
	for i := range groups {
		if g := &groups[i]; times[g.Name] > 1 {
			g.Name = g.Path
		}
	}
	return groups, key, notes, nil
}

// readGroups reads the groups of runs at paths, with the metrics that begin with prefix. If there are several paths, it
// skips paths without a run, and lists them in notes.
func readGroups(paths []string, prefix string) (groups []results.SeedGroup, notes []string, err error) {
	for _, path := range paths {
		gs, err := results.Load(path, prefix)
		if errors.Is(err, results.ErrNoRun) && len(paths) > 1 {
			notes = append(notes, "ignored: "+err.Error())
			continue
		} else if err != nil {
			return nil, nil, err
		}
		groups = append(groups, gs...)
	}
	if len(groups) == 0 {
		return nil, nil, fmt.Errorf("no run in any of %s: %w", strings.Join(paths, ", "), results.ErrNoRun)
	}
	return groups, notes, nil
}

// mostNames is the maximum number of metrics in a message.
const mostNames = 12

// suggest returns a hint for an unknown metric: the most similar metric of the runs at path, and a list of their
// metrics.
func suggest(path, metric string) string {
	groups, err := results.Load(path, "")
	if err != nil {
		return ""
	}
	var names []string
	for _, g := range groups {
		names = append(names, results.Metrics(g.Runs)...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !strings.Contains(name, "/") })
	if len(names) == 0 {
		return ""
	}
	text := "."
	if near := config.Nearest(metric, names); near != "" {
		text = ", did you mean " + printable.Line(near) + "?"
	}
	section, _, _ := strings.Cut(metric, "/")
	slices.SortStableFunc(names, func(a, b string) int { return rankOf(a, section) - rankOf(b, section) })
	more := ""
	if len(names) > mostNames {
		names, more = names[:mostNames], ", …"
	}
	return text + " It has " + printable.Line(strings.Join(names, ", ")) + more
}

// rankOf returns the sort key of a metric: 0 for metrics of section, 1 for eval/, 2 for env/, and 3 for all others.
func rankOf(metric, section string) int {
	for i, first := range []string{section + "/", "eval/", "env/"} {
		if strings.HasPrefix(metric, first) {
			return i
		}
	}
	return 3
}

// notes returns reasons why the groups are hard to compare: different tasks, and runs that are not done.
func notes(groups []results.SeedGroup) (notes []string) {
	var tasks []string
	for _, g := range groups {
		for _, r := range g.Runs {
			if r.Task != "" && !slices.Contains(tasks, r.Task) {
				tasks = append(tasks, r.Task)
			}
			status, err := runfolder.ReadStatus(r.Name)
			if err == nil && status != "" && status != runfolder.Done {
				notes = append(notes, fmt.Sprintf("note: %s: %s after step %d", r.Name, status, r.Last().Step))
			}
		}
	}
	if len(tasks) > 1 {
		notes = append(notes, "warning: different tasks, whose figures cannot be compared: "+strings.Join(tasks, ", "))
	}
	return notes
}
