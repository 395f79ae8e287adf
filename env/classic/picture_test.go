package classic

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestPictures compares single pixels of known states with the colours of the things at these places.
func TestPictures(t *testing.T) {
	type pixel struct {
		x, y   float64 // m from the middle of the window
		colour [3]float64
	}
	for _, c := range []struct {
		name   string
		sketch sketch
		want   []pixel
	}{
		{"a cart with an upright pole", sketchCartPole(&cartPole{1, 0, 0, 0}),
			[]pixel{{1, -0.4, wood}, {1.15, -0.4, ink}, {1, 0.5, wood}, {1, 0.7, paper}, {0, 0.5, paper},
				{-2, -0.4, thin}}},
		{"a pole that leans to the right", sketchCartPole(&cartPole{0, 0, 0.5, 0}),
			[]pixel{{0.9 * 0.479, 0.9*0.878 - 0.4, wood}, {0, 0.4, paper}}},
		{"a pendulum to the left", sketchPendulum(&pendulum{1.5708, 0}),
			[]pixel{{-0.9, 0, wood}, {0.9, 0, paper}, {0, 0, ink}}},
		{"a bent acrobot", sketchAcrobot(&acrobot{0, 1.5708, 0, 0}),
			[]pixel{{0, -0.5, wood}, {0.5, -1, wood}, {0, 0.5, paper}, {1.5, 1, flag}}},
		{"a car in the valley", sketchCar(&car{-0.5236, 0}),
			[]pixel{{-0.2236, -0.45 + 0.06 - 0.1, ink}, {0.3, 0.3, paper}}},
	} {
		const size = 1001
		rgb := make([]byte, 3*size*size)
		c.sketch.draw(env.View{Width: size, Height: size}, rgb)
		for _, p := range c.want {
			column, row := int(size/2*(1+p.x/c.sketch.span)), int(size/2*(1-p.y/c.sketch.span))
			got := rgb[3*(row*size+column):][:3]
			if got[0] != byte(p.colour[0]) || got[1] != byte(p.colour[1]) || got[2] != byte(p.colour[2]) {
				t.Errorf("%s: at (%v, %v) %v, want %v", c.name, p.x, p.y, got, p.colour)
			}
		}
	}
}

func TestRender(t *testing.T) {
	v := test.Must(NewCartPole(env.DefaultConfig(), 2))(t)
	test.OK(t, v.Reset(nil, []uint64{1, 2}, v.Spec().NewStep(2, 1)))
	view := env.View{Width: 30, Height: 20}
	rgb := view.NewPictures(2)
	test.OK(t, env.Render(v, view, []bool{false, true}, rgb))
	if rgb.U8()[0] != 0 || rgb.U8()[rgb.Len()-1] != byte(paper[2]) {
		t.Error("the mask chose another environment")
	}
	if err := env.Render(v, env.View{Width: 30, Height: 20, Camera: "top"}, nil, rgb); err == nil {
		t.Error("a camera that there is not")
	}
	if err := env.Render(v, view, nil, tensor.New(tensor.U8, 2, 20, 20, 3)); err == nil {
		t.Error("a picture of another size was drawn")
	}
}
