package results

import (
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/plot"
)

// Draw draws a metric of each group as SVG, over environment steps. If the runs have no environments, it draws the
// metric over iterations. bounds gives the lowest and the highest possible return of a task. A bound may be infinite.
// Draw clips intervals to the possible values of the metric.
func Draw(metric string, groups []SeedGroup, bounds func(task string) (least, most float64)) []byte {
	chart := plot.Chart{Title: metric, X: "environment steps", Y: metric}
	if inIterations(groups) {
		chart.X = "iterations"
	}
	if task := taskOf(groups); task != "" {
		chart.Title = task + ": " + metric
	}
	chart.Curves = Bands(metric, groups, bounds)
	return chart.SVG()
}

// Bands returns the curve of each group, with its intervals clipped as in Draw.
func Bands(metric string, groups []SeedGroup, bounds func(task string) (least, most float64)) (curves []plot.Curve) {
	least, most := limits(metric)
	last, task := metric[strings.LastIndexByte(metric, '/')+1:], taskOf(groups)
	if task != "" && (last == "return" || last == "return_min") {
		least, most = bounds(task)
	}
	for i := range groups {
		c := groups[i].Curve(metric)
		for i, y := range c.Y {
			c.Low[i], c.High[i] = max(c.Low[i], min(least, y)), min(c.High[i], max(most, y))
		}
		curves = append(curves, c)
	}
	return curves
}

// Curves reports whether the metric has more than one point in at least one group, so that it has a line to draw.
func Curves(metric string, groups []SeedGroup) bool {
	return slices.ContainsFunc(groups, func(g SeedGroup) bool { return len(g.Curve(metric).X) > 1 })
}

// taskOf returns the common task of all runs, or "" if they have several tasks.
func taskOf(groups []SeedGroup) string {
	task := ""
	for _, g := range groups {
		for _, r := range g.Runs {
			if task != "" && r.Task != task {
				return ""
			}
			task = r.Task
		}
	}
	return task
}

// limits returns the lowest and the highest possible value of a metric.
func limits(metric string) (least, most float64) {
	for _, share := range []string{"accuracy", "success_once", "success_at_end", "exact_match", "pass@", "truncated",
		"unparsable", "wrong_object", "told_object"} {
		if strings.Contains(metric, share) {
			return 0, 1
		}
	}
	if strings.HasSuffix(metric, "episode_len") || strings.HasPrefix(metric, "time/") {
		return 0, math.Inf(1)
	}
	return math.Inf(-1), math.Inf(1)
}
