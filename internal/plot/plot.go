// Package plot answers: how do curves look as SVG? It draws a chart, or several charts side by side.
package plot

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// A Chart is a pair of axes with curves.
type Chart struct {
	Title          string
	X, Y           string // names of the axes
	XScale, YScale Scale
	XLabel         func(float64) string // formats a tick of the x axis; if it is nil, ticks look like 2.5M, 40k, 0.02
	Curves         []Curve
}

// A Curve is a line through points, in ascending order of X. Points that are not finite, or not positive on a
// logarithmic axis, are skipped.
type Curve struct {
	Name string
	X, Y []float64
	// Low and High are the limits of each point, or nil. Without marks, they are drawn as a band. With marks, they are
	// drawn as a line through each point. The band extends the axis by at most half of the range of Y.
	Low, High []float64
	Marks     bool // draw a dot at each point; always done for a single point
}

// hasMarks reports whether the curve has dots.
func (c *Curve) hasMarks() bool {
	points := 0
	for i := range c.X {
		if finite(c.X[i]) && finite(c.Y[i]) {
			points++
		}
	}
	return c.Marks || points == 1
}

// A Figure is a row of charts. One legend below them names the curves of the first chart. Curve i has the same color in
// every chart.
type Figure struct {
	Title  string
	Charts []Chart
}

// Sizes of a chart: the box of its axes and the space around it. In a row of charts, the boxes are narrower, have a
// title above them, and have a gap between them.
const (
	left, top, wide, high = 78.0, 44.0, 620.0, 340.0
	right, below          = 24.0, 46.0
	legendLine            = 18.0
	narrow, gap, heading  = 470.0, 78.0, 22.0
)

// colors are the colors of curves. Further curves repeat these colors with dashed lines.
var colors = [...]string{"#0b62a4", "#c1440e", "#2f7d32", "#7b3fa0", "#8a6d00", "#00838f", "#ad1457", "#4e4e4e"}

// SVG returns the picture of the chart.
func (c *Chart) SVG() []byte {
	f := Figure{Title: c.Title, Charts: []Chart{*c}}
	return f.SVG()
}

// SVG returns the picture of the figure.
func (f *Figure) SVG() []byte {
	n := float64(len(f.Charts))
	boxWide, boxTop := wide, top
	if n > 1 {
		boxWide, boxTop = narrow, top+heading
	}
	var names []Curve
	if n > 0 {
		names = f.Charts[0].Curves
	}
	width := left + n*boxWide + (n-1)*gap + right
	legend := boxTop + high + below
	height := legend + legendLine*float64(len(names)) + 8

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" `+
		`font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, height, width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%.0f" y="26" font-size="16">%s</text>`+"\n", left, escape(f.Title))
	for i := range f.Charts {
		c := &f.Charts[i]
		x := left + float64(i)*(boxWide+gap)
		if n > 1 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x, boxTop-12, escape(c.Title))
		}
		c.draw(&b, box{x, boxTop, boxWide, high})
	}
	for i, curve := range names {
		at := legend + legendLine*float64(i)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh22" stroke="%s" stroke-width="2"%s/>`, left, at+4, colorOf(i), dashOf(i))
		if curve.hasMarks() {
			b.WriteString(dot(left+11, at+4, colorOf(i)))
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">%s</text>`+"\n", left+30, at+8, escape(curve.Name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// A box is the area of a chart's axes.
type box struct{ x, y, wide, high float64 }

// draw draws the axes and the curves.
func (c *Chart) draw(b *bytes.Buffer, at box) {
	x, y := c.axes()
	xs, ys := x.ticks(), y.ticks()
	v := view{x, y, at}
	xLabel := c.XLabel
	if xLabel == nil {
		xLabel = label
	}
	for _, t := range ys {
		fmt.Fprintf(b, `<path d="M%.1f %.1fh%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+
			"\n", at.x, v.py(t), at.wide, at.x-6, v.py(t)+4, label(t))
	}
	for _, t := range xs {
		fmt.Fprintf(b,
			`<path d="M%.1f %.1fv%.1f" stroke="#eee"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			v.px(t), at.y, at.high, v.px(t), at.y+at.high+17, xLabel(t))
	}
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#888"/>`+"\n", at.x, at.y,
		at.wide, at.high)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", at.x+at.wide/2, at.y+at.high+36,
		escape(c.X))
	if c.Y != "" {
		fmt.Fprintf(b, `<text transform="translate(%.0f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
			at.x-62, at.y+at.high/2, escape(c.Y))
	}
	for i := range c.Curves {
		c.Curves[i].draw(b, i, v)
	}
}

// A view maps values to positions in the picture.
type view struct {
	x, y axis
	at   box
}

func (v view) px(x float64) float64 { return v.at.x + v.x.position(x)*v.at.wide }
func (v view) py(y float64) float64 {
	return v.at.y + v.at.high - min(max(v.y.position(y), 0), 1)*v.at.high
}

// canDraw reports whether a point can be drawn.
func (v view) canDraw(x, y float64) bool {
	return finite(v.x.coordinate(x)) && finite(v.y.coordinate(y))
}

// axes returns axes that cover the curves.
func (c *Chart) axes() (x, y axis) {
	x, y = newAxis(c.XScale), newAxis(c.YScale)
	for _, curve := range c.Curves {
		for i := range curve.X {
			if (view{x: x, y: y}).canDraw(curve.X[i], curve.Y[i]) {
				x.add(curve.X[i])
				y.add(curve.Y[i])
			}
		}
	}
	margin := (y.hi - y.lo) / 4
	if margin == 0 {
		margin = math.Inf(1) // the band of a flat curve is shown completely
	}
	least, most := y.lo-margin, y.hi+margin
	for _, curve := range c.Curves {
		marked := curve.hasMarks()
		for i := range curve.Low {
			if low, high := y.coordinate(curve.Low[i]), y.coordinate(curve.High[i]); finite(low) && finite(high) {
				if !marked {
					low, high = max(low, least), min(high, most)
				}
				y.lo, y.hi = min(y.lo, low, high), max(y.hi, low, high)
			}
		}
	}
	return x, y
}

// draw draws c, which is curve i of a chart: the band, the line, then the marks.
func (c *Curve) draw(b *bytes.Buffer, i int, v view) {
	var line, upper, lower, marks strings.Builder // lower has the lower edge of the band, from right to left
	color, marked := colorOf(i), c.hasMarks()
	drawn := func(i int) bool { return v.canDraw(c.X[i], c.Y[i]) }
	bounded := func(i int) bool {
		return c.Low != nil && drawn(i) && v.canDraw(c.X[i], c.Low[i]) && v.canDraw(c.X[i], c.High[i])
	}
	for i := range c.X {
		if !drawn(i) {
			continue
		}
		x, y := v.px(c.X[i]), v.py(c.Y[i])
		point(&line, x, y)
		if !marked {
			continue
		}
		if bounded(i) {
			fmt.Fprintf(&marks, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`, x, v.py(c.Low[i]), v.py(c.High[i]), color)
		}
		marks.WriteString(dot(x, y, color))
	}
	for i := range c.X {
		if marked {
			break
		}
		if bounded(i) {
			point(&upper, v.px(c.X[i]), v.py(c.High[i]))
		}
		if j := len(c.X) - 1 - i; bounded(j) {
			fmt.Fprintf(&lower, "L%.1f %.1f", v.px(c.X[j]), v.py(c.Low[j]))
		}
	}
	if upper.Len() > 0 {
		fmt.Fprintf(b, `<path d="%s%sZ" fill="%s" fill-opacity="0.18"/>`+"\n", upper.String(), lower.String(), color)
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"%s/>%s`+"\n", line.String(), color,
		dashOf(i), marks.String())
}

// point appends a point to a path.
func point(path *strings.Builder, x, y float64) {
	letter := "L"
	if path.Len() == 0 {
		letter = "M"
	}
	fmt.Fprintf(path, "%s%.1f %.1f", letter, x, y)
}

func dot(x, y float64, color string) string {
	return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="2.4" fill="%s"/>`, x, y, color)
}

func colorOf(i int) string { return colors[i%len(colors)] }

func dashOf(i int) string {
	if i < len(colors) {
		return ""
	}
	return ` stroke-dasharray="5 3"`
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
