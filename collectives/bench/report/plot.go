package report

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Plot draws the medians by size, with their confidence intervals, and the bandwidth by size where
// the rows have one: an SVG, both axes logarithmic. A series is an operation by an algorithm on so
// many ranks.
func (r *Report) Plot() ([]byte, error) {
	all := r.series()
	if len(all) == 0 {
		return nil, errors.New("plot: no row has a size > 0 and a time > 0")
	}
	panels := []panel{{title: "latency (µs), median and its 95 % interval", y: func(row *Row) float64 {
		return row.Median
	}, band: true}}
	for _, name := range []string{"busbw_gbs", "bw_gbs"} {
		if slices.Contains(r.Figures, name) {
			panels = append(panels, panel{title: strings.TrimSuffix(name, "_gbs") + " (GB/s)",
				y: func(row *Row) float64 { return row.Figures[name] }})
			break
		}
	}
	const wide, high, left, top, gap = 470.0, 330.0, 62.0, 66.0, 78.0
	width := left + float64(len(panels))*wide + float64(len(panels)-1)*gap + 24
	legend := top + high + 58
	height := legend + 18*math.Ceil(float64(len(all))/2) + 12
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12" fill="#222">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	title := fmt.Sprintf("rlinf bench %s, %s, %s", r.Bench, plural(r.Machine.Ranks, "rank"), r.Machine.Transport)
	if l := r.Machine.Load(); l > 1 {
		title += fmt.Sprintf(", OVERSUBSCRIBED %.1fx", l)
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="26" font-size="16">%s</text>`+"\n", left, escape(title))
	for i, p := range panels {
		p.x, p.top, p.wide, p.high = left+float64(i)*(wide+gap), top, wide, high
		p.draw(&b, all)
	}
	for i, s := range all {
		x, y := left+float64(i%2)*(width-left)/2, legend+18*float64(i/2)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh22" stroke="%s" stroke-width="2"%s/>%s<text x="%.0f" y="%.0f">%s</text>`+
			"\n",
			x, y, s.color, s.dash, dot(x+11, y, s.color), x+30, y+4, escape(s.name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// A series is the rows of one line, by size.
type series struct {
	name, color, dash string
	rows              []*Row
}

func (r *Report) series() []series {
	colors := []string{"#0b62a4", "#c1440e", "#2f7d32", "#7b3fa0", "#8a6d00", "#00838f", "#ad1457", "#4e4e4e"}
	var all []series
	index := map[string]int{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Size <= 0 || !(row.Median > 0) {
			continue
		}
		name := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s, %d ranks", row.Op, row.Algorithm, row.DType,
			row.Memory, row.Ranks)), " ")
		name = strings.Replace(name, " ,", ",", 1)
		at, ok := index[name]
		if !ok {
			at = len(all)
			index[name] = at
			s := series{name: name, color: colors[at%len(colors)]}
			if at >= len(colors) {
				s.dash = ` stroke-dasharray="5 3"`
			}
			all = append(all, s)
		}
		all[at].rows = append(all[at].rows, row)
	}
	for _, s := range all {
		slices.SortStableFunc(s.rows, func(a, b *Row) int { return int(a.Size/2 - b.Size/2) })
	}
	return all
}

// A panel is one pair of axes.
type panel struct {
	title              string
	y                  func(*Row) float64
	band               bool
	x, top, wide, high float64
}

func (p *panel) draw(b *bytes.Buffer, all []series) {
	minX, maxX, minY, maxY := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, s := range all {
		for _, row := range s.rows {
			if y := p.y(row); y > 0 {
				minX, maxX = min(minX, float64(row.Size)), max(maxX, float64(row.Size))
				minY, maxY = min(minY, y), max(maxY, y)
				if p.band {
					minY, maxY = min(minY, row.CILow), max(maxY, row.CIHigh)
				}
			}
		}
	}
	if maxX == 0 {
		return
	}
	// Whole powers of 2 below and of 10 beside; one more where there is but one value.
	x0, x1 := math.Floor(math.Log2(minX)), math.Ceil(math.Log2(maxX))
	y0, y1 := math.Floor(math.Log10(max(minY, 1e-6))), math.Ceil(math.Log10(maxY))
	if x1 == x0 {
		x1++
	}
	if y1 == y0 {
		y1++
	}
	px := func(v float64) float64 { return p.x + (math.Log2(v)-x0)/(x1-x0)*p.wide }
	py := func(v float64) float64 { return p.top + p.high - (math.Log10(max(v, 1e-6))-y0)/(y1-y0)*p.high }
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", p.x, p.top-12, escape(p.title))
	for e := y0; e <= y1; e++ {
		y := py(math.Pow(10, e))
		fmt.Fprintf(b, `<path d="M%.1f %.1fh%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+
			"\n", p.x, y, p.wide, p.x-6, y+4, tick(e))
	}
	every := max(1, math.Ceil((x1-x0)/8))
	for e := x0; e <= x1; e += every {
		x := px(math.Pow(2, e))
		fmt.Fprintf(b,
			`<path d="M%.1f %.1fv%.1f" stroke="#eee"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x, p.top, p.high, x, p.top+p.high+17, Bytes(int64(math.Pow(2, e))))
	}
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#888"/>`+"\n", p.x, p.top,
		p.wide, p.high)
	for _, s := range all {
		var path, marks strings.Builder
		for _, row := range s.rows {
			v := p.y(row)
			if !(v > 0) {
				continue
			}
			x, y := px(float64(row.Size)), py(v)
			letter := "L"
			if path.Len() == 0 {
				letter = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", letter, x, y)
			if p.band {
				fmt.Fprintf(&marks, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`, x, py(row.CILow), py(row.CIHigh),
					s.color)
			}
			marks.WriteString(dot(x, y, s.color))
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"%s/>%s`+"\n", path.String(), s.color,
			s.dash, marks.String())
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">size</text>`+"\n", p.x+p.wide/2, p.top+p.high+36)
}

// tick writes 10^e.
func tick(e float64) string {
	if e >= -3 && e <= 6 {
		return fmt.Sprintf("%.*f", int(max(0, -e)), math.Pow(10, e))
	}
	return fmt.Sprintf("1e%.0f", e)
}

func dot(x, y float64, color string) string {
	return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="2.4" fill="%s"/>`, x, y, color)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
