package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/plot"
)

// TestSVG reads the picture as XML. The box of the axes is at 78, 44, and is 620 wide and 340 high.
func TestSVG(t *testing.T) {
	c := plot.Chart{Title: "a <b> & c", X: "steps", Y: "return", Curves: []plot.Curve{
		{Name: "band", X: []float64{0, 500, 1e6}, Y: []float64{0, math.NaN(), 100},
			Low: []float64{-2000, 0, math.Inf(-1)}, High: []float64{20, 0, math.Inf(1)}},
		{Name: "line", X: []float64{0, 1e6}, Y: []float64{50, -100}},
	}}
	paths, texts := read(t, c.SVG())
	for _, want := range []string{
		"M78.0 180.0L698.0 44.0",  // from 0 to 100 on an axis from -150 to 100, without the missing point
		"M78.0 112.0L698.0 316.0", // from 50 to -100
		"M78.0 152.8L78.0 384.0Z", // the band where it has limits, clipped at the axis
	} {
		if !strings.Contains(paths, want+"\n") {
			t.Errorf("no path %s in\n%s", want, paths)
		}
	}
	for _, want := range []string{"a <b> & c", "steps", "return", "band", "line", "1M", "200k", "0", "-100", "100"} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
	single := plot.Chart{
		Curves: []plot.Curve{{Name: "one", X: []float64{3}, Y: []float64{500}, Low: []float64{400},
			High: []float64{600}}}}
	if paths, _ := read(t, single.SVG()); !strings.Contains(paths, "M388.0 384.0V44.0\n") ||
		strings.Count(string(single.SVG()), "<circle") != 2 {
		t.Errorf("a curve of one point has no dot with a line through it:\n%s", single.SVG())
	}
	for _, empty := range []plot.Chart{{}, {Curves: []plot.Curve{{Name: "one", X: []float64{3}, Y: []float64{500}}}}} {
		if svg := string(empty.SVG()); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("not drawable: %s", svg)
		}
	}
}

// read returns the paths and the texts of a picture, each in a line.
func read(t *testing.T, svg []byte) (paths, texts string) {
	t.Helper()
	for in, inText := xml.NewDecoder(strings.NewReader(string(svg))), false; ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return paths, texts
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				if a.Name.Local == "d" {
					paths += a.Value + "\n"
				}
			}
		case xml.CharData:
			if inText {
				texts += string(e) + "\n"
			}
		case xml.EndElement:
			inText = false
		}
	}
}

// TestFigure: two charts on logarithmic axes. Their boxes begin at 78 and 626, are 470 wide, and go from 66 to 406.
func TestFigure(t *testing.T) {
	chart := plot.Chart{Title: "left", XScale: plot.Log2, YScale: plot.Log10, XLabel: func(v float64) string {
		return map[float64]string{8: "8B", 32: "32B"}[v]
	},
		Curves: []plot.Curve{{Name: "c", Marks: true, X: []float64{8, 16, 32}, Y: []float64{1, 0, 100},
			Low: []float64{0.5, 1, 100}, High: []float64{2, 1, 1000}}}}
	f := plot.Figure{Title: "both", Charts: []plot.Chart{chart, chart}}
	paths, texts := read(t, f.SVG())
	for _, want := range []string{
		"M78.0 321.0L548.0 151.0", // 1 and 100 on an axis from 0.1 to 1000; 0 is not on it
		"M626.0 321.0L1096.0 151.0",
		"M78.0 346.6V295.4", // from 0.5 to 2
		"M548.0 151.0V66.0",
	} {
		if !strings.Contains(paths, want+"\n") {
			t.Errorf("no path %s in\n%s", want, paths)
		}
	}
	for _, want := range []string{"both", "left", "8B", "32B", "0.1", "1000", "c"} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
}

// TestAlmostEqualValues: a curve whose values differ only by rounding has few ticks, like a constant curve.
func TestAlmostEqualValues(t *testing.T) {
	for _, y := range [][]float64{{9.670761369168758, 9.67076136916876}, {-1e-300, 0}, {1e17, 1e17 + 16}, {3, 3}} {
		c := plot.Chart{Curves: []plot.Curve{{Name: "y", X: []float64{0, 1}, Y: y}}}
		if _, texts := read(t, c.SVG()); strings.Count(texts, "\n") > 30 {
			t.Errorf("%v: texts %q", y, texts)
		}
	}
}
