package watch

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/rlinf/rlinf/internal/printable"
)

// clean returns text without control characters.
func clean(text string) string { return printable.Line(text) }

// wideRunes are the characters that fill two columns of a terminal.
var wideRunes = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columns returns the number of columns of a clean text.
func columns(text string) (n int) {
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // combines with the letter before
		case unicode.Is(wideRunes, r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// cut shortens a clean text to at most width columns. A shortened text ends with an ellipsis.
func cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	n := 1 // for the ellipsis
	for i, r := range text {
		if n += columns(string(r)); n > width {
			return text[:i] + "…"
		}
	}
	return text
}

// alignLeft pads a text with spaces on the right to width columns, or cuts it.
func alignLeft(text string, width int) string {
	text = cut(clean(text), width)
	return text + strings.Repeat(" ", max(width-columns(text), 0))
}

// alignRight pads a text with spaces on the left to width columns.
func alignRight(text string, width int) string {
	return strings.Repeat(" ", max(width-columns(text), 0)) + text
}

// sides returns a line with one text at the left end and another at the right end. It cuts the left text if both do not
// fit.
func sides(left, right string, width int) string {
	right = cut(clean(right), width)
	room := width - columns(right)
	if room < 2 {
		return right
	}
	return alignLeft(left, room-1) + " " + right
}

// bar returns a bar of width columns. share is the filled fraction, from 0 to 1. It is rounded to eighths of a column.
func bar(share float64, width int) string {
	if !(share > 0) {
		share = 0
	}
	eighths := int(math.Round(min(share, 1) * float64(width) * 8))
	text := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[part-1])
	}
	return alignLeft(text, width)
}

// sparkline draws values in at most width columns. A column shows the mean of its values.
func sparkline(values []float64, width int) string {
	n := min(len(values), width)
	if n <= 0 {
		return ""
	}
	means := make([]float64, n)
	least, most := math.Inf(1), math.Inf(-1)
	for i := range means {
		from, to := i*len(values)/n, (i+1)*len(values)/n
		for _, x := range values[from:to] {
			means[i] += x / float64(to-from)
		}
		least, most = min(least, means[i]), max(most, means[i])
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	line := make([]rune, n)
	for i, x := range means {
		level := 0.0
		if most > least {
			level = (x/2 - least/2) / (most/2 - least/2) * float64(len(levels)-1)
		}
		line[i] = levels[int(min(max(math.Round(level), 0), float64(len(levels)-1)))]
	}
	return string(line)
}

// seconds formats a time of x seconds with three digits and a unit.
func seconds(x float64) string {
	switch {
	case math.IsNaN(x) || math.Abs(x) >= 1e9:
		return "?"
	case x >= 99.95:
		return fmt.Sprintf("%.0f s", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f s", x)
	case x >= 0.9995:
		return fmt.Sprintf("%.2f s", x)
	}
	if math.Abs(x) < 0.0009995 && x != 0 {
		return fmt.Sprintf("%.3g µs", 1e6*x)
	}
	return fmt.Sprintf("%.3g ms", 1000*x)
}
