package report

import (
	"bytes"
	"fmt"
	"html"

	"github.com/rlinf/rlinf/internal/plot"
)

// mostStill is the maximum number of points of a curve in the pictures for browsers without scripts.
const mostStill = 300

// fallback returns the HTML for browsers without scripts: the summary, and pictures of the learning curves, the
// training curves and the times of an iteration.
func (r *Run) fallback(d *document) []byte {
	var b bytes.Buffer
	var sentences []string
	for _, s := range d.Sentences {
		sentences = append(sentences, s.Text)
	}
	fallbackSummary(&b, d.Title, "The state of the run: "+d.State+".", d.Facts, sentences, d.Problems)
	m := r.Metrics
	if d.Curves != nil {
		for _, g := range d.Curves.Groups {
			if g.Title != "learning" && g.Title != "training" {
				continue
			}
			for _, c := range g.Charts {
				picture := plot.Chart{Title: c.Title, X: "iterations", Y: c.Unit}
				for _, s := range c.Series {
					x, y := sparse(m.Steps, m.Columns[s.Metric])
					picture.Curves = append(picture.Curves, plot.Curve{Name: s.Name, X: x, Y: y})
				}
				b.Write(picture.SVG())
			}
		}
	}
	if y := m.Columns["time/step"]; y != nil {
		picture := plot.Chart{Title: "time of an iteration", X: "iterations", Y: "seconds"}
		for _, name := range []string{"time/step", "time/step_mean", "time/generate_rollouts", "time/actor_training"} {
			if y := m.Columns[name]; y != nil {
				x, y := sparse(m.Steps, y)
				picture.Curves = append(picture.Curves, plot.Curve{Name: name, X: x, Y: y})
			}
		}
		b.Write(picture.SVG())
	}
	return b.Bytes()
}

// fallbackSummary writes the title, the state, the facts and the lists of texts as HTML.
func fallbackSummary(b *bytes.Buffer, title, state string, facts []fact, lists ...[]string) {
	fmt.Fprintf(b, "<h1>%s</h1>\n<p>%s This browser runs no scripts, so the page shows pictures only.</p>\n",
		html.EscapeString(title), html.EscapeString(state))
	item := func(text string) { fmt.Fprintf(b, "<li>%s</li>\n", html.EscapeString(text)) }
	b.WriteString("<ul>\n")
	for _, f := range facts {
		item(join(f.Label+": "+f.Value, f.Note))
	}
	for _, list := range lists {
		for _, text := range list {
			item(text)
		}
	}
	b.WriteString("</ul>\n")
}

// sparse returns the finite points of a curve, thinned to at most mostStill points.
func sparse(x, y []float64) (xs, ys []float64) {
	for i := range y {
		if finite(y[i]) {
			xs, ys = append(xs, x[i]), append(ys, y[i])
		}
	}
	n := len(xs)
	if n <= mostStill {
		return xs, ys
	}
	for i := range mostStill {
		k := i * (n - 1) / (mostStill - 1)
		xs[i], ys[i] = xs[k], ys[k]
	}
	return xs[:mostStill], ys[:mostStill]
}
