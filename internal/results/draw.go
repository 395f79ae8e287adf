package results

import "github.com/rlinf/rlinf/internal/plot"

// Draw draws the metric of each group over environment steps, or iterations of language models, as
// SVG.
func Draw(title, metric string, groups []Group) []byte {
	chart := plot.Chart{Title: title, X: "environment steps", Y: metric}
	if texts(groups) {
		chart.X = "steps"
	}
	for i := range groups {
		chart.Curves = append(chart.Curves, groups[i].Curve(metric))
	}
	return chart.SVG()
}
