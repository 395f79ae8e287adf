// Package plot draws curves with bands around them as SVG, on linear axes.
package plot

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Chart is one pair of axes with curves.
type Chart struct {
	Title  string
	X, Y   string // what the axes show
	Curves []Curve
}

// A Curve is a line through points, in ascending order of X. Points that are not finite are left
// out.
type Curve struct {
	Name string
	X, Y []float64
	// of the band around it, as many as points; nil: none. The axis does not widen for it by more
	// than a half.
	Low, High []float64
}

// The picture: the axes' box, and the room around it.
const (
	left, top, wide, high = 78.0, 44.0, 620.0, 340.0
	right, below          = 24.0, 46.0
	legendLine            = 18.0
)

var colors = [...]string{"#0b62a4", "#c1440e", "#2f7d32", "#7b3fa0", "#8a6d00", "#00838f", "#ad1457", "#4e4e4e"}

// SVG returns the picture.
func (c *Chart) SVG() []byte {
	x, y := newAxis(), newAxis()
	for _, curve := range c.Curves {
		for i := range curve.X {
			if !curve.drawn(i) {
				continue
			}
			x.add(curve.X[i])
			y.add(curve.Y[i])
		}
	}
	room := (y.hi - y.lo) / 4
	least, most := y.lo-room, y.hi+room
	for _, curve := range c.Curves {
		for i := range curve.Low {
			if finite(curve.Low[i]) && finite(curve.High[i]) {
				y.add(max(curve.Low[i], least))
				y.add(min(curve.High[i], most))
			}
		}
	}
	xs, ys := x.ticks(), y.ticks()
	px := func(v float64) float64 { return left + x.part(v)*wide }
	py := func(v float64) float64 { return top + high - min(max(y.part(v), 0), 1)*high }

	var b bytes.Buffer
	width, height := left+wide+right, top+high+below+legendLine*float64(len(c.Curves))+8
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12" fill="#222">`+"\n",
		width, height, width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%.0f" y="26" font-size="16">%s</text>`+"\n", left, escape(c.Title))
	for _, v := range ys {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fh%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+
			"\n", left, py(v), wide, left-6, py(v)+4, label(v))
	}
	for _, v := range xs {
		fmt.Fprintf(&b,
			`<path d="M%.1f %.1fv%.1f" stroke="#eee"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			px(v), top, high, px(v), top+high+17, label(v))
	}
	fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#888"/>`+"\n", left, top,
		wide, high)
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", left+wide/2, top+high+36,
		escape(c.X))
	fmt.Fprintf(&b, `<text transform="translate(16 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+high/2,
		escape(c.Y))
	for i, curve := range c.Curves {
		curve.draw(&b, colors[i%len(colors)], px, py)
		at := top + high + below + legendLine*float64(i)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh22" stroke="%s" stroke-width="2"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			left, at+4, colors[i%len(colors)], left+30, at+8, escape(curve.Name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawn reports whether point i can be.
func (c *Curve) drawn(i int) bool { return finite(c.X[i]) && finite(c.Y[i]) }

func (c *Curve) draw(b *bytes.Buffer, color string, px, py func(float64) float64) {
	var line, back strings.Builder // back: the lower edge of the band, from its end
	band := ""
	for i := range c.X {
		if !c.drawn(i) {
			continue
		}
		point(&line, px(c.X[i]), py(c.Y[i]))
	}
	if c.Low != nil {
		var edge strings.Builder
		for i := range c.X {
			if j := len(c.X) - 1 - i; finite(c.Low[j]) && finite(c.High[j]) && c.drawn(j) {
				fmt.Fprintf(&back, "L%.1f %.1f", px(c.X[j]), py(c.Low[j]))
			}
			if finite(c.Low[i]) && finite(c.High[i]) && c.drawn(i) {
				point(&edge, px(c.X[i]), py(c.High[i]))
			}
		}
		band = edge.String() + back.String()
	}
	if band != "" {
		fmt.Fprintf(b, `<path d="%sZ" fill="%s" fill-opacity="0.18"/>`+"\n", band, color)
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n", line.String(), color)
}

// point adds a point to a path.
func point(path *strings.Builder, x, y float64) {
	letter := "L"
	if path.Len() == 0 {
		letter = "M"
	}
	fmt.Fprintf(path, "%s%.1f %.1f", letter, x, y)
}

// An axis covers the values that were added to it.
type axis struct{ lo, hi float64 }

func newAxis() axis { return axis{math.Inf(1), math.Inf(-1)} }

func (a *axis) add(v float64) {
	if finite(v) {
		a.lo, a.hi = min(a.lo, v), max(a.hi, v)
	}
}

// ticks widens the axis to whole steps of 1, 2 or 5 times a power of ten, about six of them, and
// returns where they are.
func (a *axis) ticks() []float64 {
	if a.lo > a.hi { // nothing was added
		a.lo, a.hi = 0, 1
	}
	if a.lo == a.hi {
		d := max(math.Abs(a.lo)/10, 1e-3)
		a.lo, a.hi = a.lo-d, a.hi+d
	}
	rough := (a.hi - a.lo) / 6
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{2, 2.5, 2} { // 2, 5, 10
		if step < rough {
			step *= m
		}
	}
	first, last := math.Floor(a.lo/step), math.Ceil(a.hi/step)
	a.lo, a.hi = first*step, last*step
	var at []float64
	for k := first; k <= last; k++ {
		at = append(at, k*step)
	}
	return at
}

// part returns where v is on the axis, from 0 to 1.
func (a *axis) part(v float64) float64 { return (v - a.lo) / (a.hi - a.lo) }

// label writes a tick: 2.5M, 40k, -150, 0.02.
func label(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= unit.size {
			size := min(unit.size, 1e3) // 12k, not 1.2 of ten thousands
			if unit.name != "k" {
				size = unit.size
			}
			return strconv.FormatFloat(v/size, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
