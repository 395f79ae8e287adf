package classic

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A sketch is a side view of an environment: a list of strokes, drawn in order. The window is a
// square with centre (0, y) and sides of 2·span, in metres. The y axis points up.
type sketch struct {
	y, span float64
	strokes []stroke
}

// A stroke is a straight line with round ends.
type stroke struct {
	x0, y0, x1, y1, halfWidth float64
	colour                    [3]float64
}

var (
	paper = [3]float64{250, 250, 250}
	ink   = [3]float64{60, 60, 70}
	thin  = [3]float64{170, 170, 175}
	wood  = [3]float64{200, 140, 80}
	flag  = [3]float64{40, 150, 60}
)

// Render draws the environments where mask is true. It supports only the default camera and
// renderer.
func (b *batch[S, A]) Render(view env.View, mask []bool, rgb tensor.Tensor) error {
	if view.Camera != "" || view.Renderer != "" || view.Width <= 0 || view.Height <= 0 {
		return fmt.Errorf("camera %q, renderer %q, %d × %d pixels: expected neither name, and 1 or more", view.Camera,
			view.Renderer, view.Width, view.Height)
	}
	frame := 3 * view.Width * view.Height
	if rgb.DType() != tensor.U8 || rgb.Len() != len(b.state)*frame {
		return fmt.Errorf("pictures in %v, expected U8[%d %d %d 3]", rgb, len(b.state), view.Height, view.Width)
	}
	for n := range b.state {
		if mask == nil || mask[n] {
			b.sketch(&b.state[n]).draw(view, rgb.U8()[n*frame:(n+1)*frame])
		}
	}
	return nil
}

// draw draws p into rgb, [Height,Width,3]. The sketch is scaled so that its window fits the shorter
// side of the picture.
func (p sketch) draw(view env.View, rgb []byte) {
	pixel := 2 * p.span / float64(min(view.Width, view.Height))
	for i := range view.Width * view.Height {
		x := (float64(i%view.Width) + 0.5 - float64(view.Width)/2) * pixel
		y := p.y - (float64(i/view.Width)+0.5-float64(view.Height)/2)*pixel
		c := paper
		for _, s := range p.strokes {
			if cover := clip((s.halfWidth-s.distance(x, y))/pixel+0.5, 0, 1); cover > 0 {
				for k := range c {
					c[k] += cover * (s.colour[k] - c[k])
				}
			}
		}
		for k := range c {
			rgb[3*i+k] = byte(c[k] + 0.5)
		}
	}
}

// distance returns the distance of the point (x, y) from the centre line of the stroke.
func (s stroke) distance(x, y float64) float64 {
	dx, dy := s.x1-s.x0, s.y1-s.y0
	along := 0.0
	if length := dx*dx + dy*dy; length > 0 {
		along = clip(((x-s.x0)*dx+(y-s.y0)*dy)/length, 0, 1)
	}
	return math.Hypot(x-s.x0-along*dx, y-s.y0-along*dy)
}

func sketchCartPole(s *cartPole) sketch {
	sin, cos := math.Sincos(s[2])
	return sketch{0.4, 2.6, []stroke{
		{-maxX, 0, maxX, 0, 0.015, thin},
		{s[0] - 0.2, 0, s[0] + 0.2, 0, 0.12, ink},
		{s[0], 0, s[0] + 2*halfLength*sin, 2 * halfLength * cos, 0.05, wood},
	}}
}

func sketchPendulum(s *pendulum) sketch {
	sin, cos := math.Sincos(s[0])
	return sketch{0, 1.2, []stroke{{0, 0, -sin, cos, 0.08, wood}, {0, 0, 0, 0, 0.03, ink}}}
}

func sketchAcrobot(s *acrobot) sketch {
	sin1, cos1 := math.Sincos(s[0])
	sin2, cos2 := math.Sincos(s[0] + s[1])
	return sketch{0, 2.2, []stroke{
		{-2.2, 1, 2.2, 1, 0.01, flag},
		{0, 0, sin1, -cos1, 0.08, wood},
		{sin1, -cos1, sin1 + sin2, -cos1 - cos2, 0.08, wood},
		{0, 0, 0, 0, 0.04, ink}, {sin1, -cos1, sin1, -cos1, 0.04, ink},
	}}
}

// sketchCar draws the valley 0.45 sin(3x), in m, with x = -0.3 in the middle.
func sketchCar(s *car) sketch {
	const middle, hill = (minPos + maxPos) / 2, 0.45
	height := func(p float64) float64 { return hill * math.Sin(3*p) }
	p := sketch{y: 0.1, span: 1}
	const parts = 30
	for i := range parts {
		from, to := minPos+(maxPos-minPos)*float64(i)/parts, minPos+(maxPos-minPos)*float64(i+1)/parts
		p.strokes = append(p.strokes, stroke{from - middle, height(from), to - middle, height(to), 0.01, thin})
	}
	const top = 0.5
	return sketch{p.y, p.span, append(p.strokes,
		stroke{top - middle, height(top), top - middle, height(top) + 0.2, 0.01, flag},
		stroke{s[0] - middle, height(s[0]) + 0.06, s[0] - middle, height(s[0]) + 0.06, 0.06, ink})}
}
