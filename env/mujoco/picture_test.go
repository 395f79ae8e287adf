//go:build mujoco

package mujoco

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/mujoco/plain"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// shapes is a model with one geom of each shape, turned and cut off by the picture's edges, each in its own colour. All
// surfaces have the same light.
const shapes = `<mujoco>
<visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
<worldbody>
  <camera name="one" pos="0 -3 2" xyaxes="1 0 0 0 .5 .9" fovy="50"/>
  <camera name="two" pos="3 0 1" xyaxes="0 1 0 0 0 1"/>
  <geom type="plane" size="2 3 .1" rgba="0 0 1 1" euler="5 3 0"/>
  <geom type="sphere" size=".3" pos="-1 0 .5" rgba=".1 0 0 1"/>
  <geom type="capsule" size=".15 .4" pos="0 0 .6" euler="50 20 0" rgba=".2 0 0 1"/>
  <geom type="capsule" size=".1 .6" pos="0 1.5 .6" euler="90 0 0" rgba=".3 0 0 1"/>
  <geom type="cylinder" size=".2 .3" pos="1 0 .5" euler="-30 40 0" rgba=".4 0 0 1"/>
  <geom type="cylinder" size=".4 .02" pos=".5 .8 .2" rgba=".5 0 0 1"/>
  <geom type="box" size=".2 .3 .1" pos="-.8 -.9 .4" euler="20 30 40" rgba=".6 0 0 1"/>
  <geom type="box" size=".5 .1 .4" pos="1.4 .5 .6" euler="0 0 45" rgba=".7 0 0 1"/>
  <geom type="ellipsoid" size=".1 .3 .5" pos="-.4 .9 .7" euler="30 60 10" rgba=".8 0 0 1"/>
  <body pos=".3 -.6 .3"><joint name="slide" type="slide" axis="1 0 0"/><geom type="sphere" size=".12" rgba=".9 0 0 1"/></body>
</worldbody>
<actuator><motor joint="slide"/></actuator>
</mujoco>`

const still = "{frame_skip: 1, max_steps: 10, observations: [{joint: '*'}], rewards: [{constant: 1}], reset_noise: " +
	"[{joint: '*', low: -0.1, high: 0.1}]}"

// stage returns n environments of a model given as text, and the model's file.
func stage(t testing.TB, text string, n int) (env.Vec, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scene.xml")
	test.OK(t, os.WriteFile(file, []byte(text), 0o644))
	v := test.Must(own(t, file, still, n))(t)
	t.Cleanup(func() { v.Close() })
	return v, file
}

// pictures draws all environments of v.
func pictures(t testing.TB, v env.Vec, view env.View, mask []bool) tensor.Tensor {
	t.Helper()
	rgb := view.NewPictures(v.Len())
	test.OK(t, env.Render(v, view, mask, rgb))
	return rgb
}

// TestCasterSees: every pixel shows the geom that MuJoCo's own ray hits there.
func TestCasterSees(t *testing.T) {
	v, file := stage(t, shapes, 1)
	view := env.View{Width: 203, Height: 150, Camera: "one"}
	rgb := pictures(t, v, view, nil).U8()
	want := test.Must(plain.See(file, view.Width, view.Height))(t)
	seen, wrong := map[int32]int{}, 0
	for i, geom := range want {
		seen[geom]++
		if shapeOf(rgb[3*i:]) != geom {
			wrong++
		}
	}
	if len(seen) != 11 {
		t.Errorf("the camera sees %v, want all of 10 geoms and sky", seen)
	}
	if wrong > 1 { // float32 decides on which side of the middle of a pixel an edge passes
		t.Errorf("%d of %d pixels show something else than MuJoCo's rays meet", wrong, len(want))
	}
}

// shapeOf returns the number of the shape with the colour of a pixel; -1: none.
func shapeOf(rgb []byte) int32 {
	switch r, g, b := rgb[0], rgb[1], rgb[2]; {
	case b == 0 && r != 0:
		return int32(math.Round(float64(r) / 25.5))
	case r == 0 && g == 0 && b != 0:
		return 0
	}
	return -1
}

// TestHeadlight: in a model without lights, a surface that faces the camera is bright. A headlight or a light in the
// model replaces this light.
func TestHeadlight(t *testing.T) {
	for own, want := range map[string]byte{
		"": 255,
		`<visual><headlight ambient=".2 .2 .2" diffuse="0 0 ` +
			`0"/></visual>`: 51,
		`<worldbody><light directional="true" dir="0 0 -1" ambient="0 0 0" diffuse="0 0 0" ` +
			`castshadow="false"/></worldbody>`: 128,
	} {
		v, _ := stage(t, `<mujoco>`+own+`<worldbody>
  <camera name="top" pos="0 0 4" xyaxes="1 0 0 0 1 0"/>
  <geom type="box" size="4 4 .5" pos="0 0 -.5" rgba="1 1 1 1"/>
  <body pos="9 9 9"><joint name="slide" type="slide" axis="1 0 0"/><geom type="sphere" size=".1"/></body>
</worldbody>
<actuator><motor joint="slide"/></actuator>
</mujoco>`, 1)
		rgb := pictures(t, v, env.View{Width: 9, Height: 9}, nil).U8()
		if got := rgb[3*(4*9+4)]; got != want {
			t.Errorf("%s: the middle is %d, want %d", own, got, want)
		}
	}
}

// TestCasterShades compares colours with Lambert's law, computed by hand.
func TestCasterShades(t *testing.T) {
	const text = `<mujoco>
<visual><headlight ambient=".2 .2 .2" diffuse="0 0 0"/></visual>
<worldbody>
  <light directional="true" dir="0 -.6 -.8" diffuse=".5 .5 .5" castshadow="true"/>
  <camera name="top" pos="0 0 4" xyaxes="1 0 0 0 1 0" fovy="53.13010235"/>
  <geom type="box" size="4 4 .5" pos="0 0 -.5" rgba="1 .5 .25 1"/>
  <geom type="sphere" size=".25" pos="0 0 1" rgba="1 1 1 1"/>
  <body pos="9 9 9"><joint name="slide" type="slide" axis="1 0 0"/><geom type="sphere" size=".1"/></body>
</worldbody>
<actuator><motor joint="slide"/></actuator>
</mujoco>`
	v, _ := stage(t, text, 1)
	view := env.View{Width: 161, Height: 161, Shadows: true}
	rgb := pictures(t, v, view, nil).U8()
	at := func(x, y, z float64) [3]byte { // the camera sees ±2 m at a distance of 4
		column, row := int(80.5+80.5*x*4/(4-z)/2), int(80.5-80.5*y*4/(4-z)/2)
		return [3]byte(rgb[3*(row*161+column):])
	}
	level := func(light, r, g, b float64) [3]byte {
		return [3]byte{byte(255*light*r + 0.5), byte(255*light*g + 0.5), byte(255*light*b + 0.5)}
	}
	for _, c := range []struct {
		what    string
		x, y, z float64
		want    [3]byte
	}{
		{"the floor in the light", 1, 1, 0, level(0.2+0.5*0.8, 1, 0.5, 0.25)},
		// 1 m down along the light is 0.75 m along y
		{"the floor in the sphere's shadow", 0, -0.75, 0, level(0.2, 1, 0.5, 0.25)},
		{"between the sphere and its shadow", 0, -0.385, 0, level(0.2+0.5*0.8, 1, 0.5, 0.25)},
		{"beyond the shadow", 0, -1.2, 0, level(0.2+0.5*0.8, 1, 0.5, 0.25)},
		{"the top of the sphere", 0, 0, 1.25, level(0.2+0.5*0.8, 1, 1, 1)},
		{"where it faces the light", 0, 0.15, 1.2, level(0.2+0.5, 1, 1, 1)},
	} {
		got := at(c.x, c.y, c.z)
		for k := range got {
			if math.Abs(float64(got[k])-float64(c.want[k])) > 2 { // the pixel's middle is up to half a pixel off
				t.Errorf("%s: %v, want %v", c.what, got, c.want)
				break
			}
		}
	}
	view.Shadows = false
	if rgb = pictures(t, v, view, nil).U8(); at(0, -0.75, 0) != at(1, 1, 0) {
		t.Errorf("without shadows the floor is %v and %v", at(0, -0.75, 0), at(1, 1, 0))
	}
}

// TestRender: each environment has its own picture, environments outside the mask keep their pictures, and the name of
// a camera selects it.
func TestRender(t *testing.T) {
	v, _ := stage(t, shapes, 3)
	step := v.Spec().NewStep(3, 1)
	test.OK(t, v.Reset(nil, []uint64{1, 2, 1}, step))
	view := env.View{Width: 70, Height: 50, Camera: "one", Renderer: "caster"}
	rgb := pictures(t, v, view, nil)
	one, two, again := rgb.Slice(0, 1).U8(), rgb.Slice(1, 2).U8(), rgb.Slice(2, 3).U8()
	if !bytes.Equal(one, again) || bytes.Equal(one, two) {
		t.Error("equal states give different pictures, or different states equal ones")
	}
	masked := view.NewPictures(3)
	test.OK(t, env.Render(v, view, []bool{false, true, false}, masked))
	if !bytes.Equal(masked.Slice(1, 2).U8(), two) || bytes.ContainsFunc(masked.Slice(0, 1).U8(), func(r rune) bool {
		return r != 0
	}) {
		t.Error("the mask chose other environments")
	}
	view.Camera = "two"
	if bytes.Equal(pictures(t, v, view, nil).U8(), rgb.U8()) {
		t.Error("two cameras see the same")
	}
}

// TestRenderChangesNothing: an environment that is drawn after every step continues like one that is never drawn. After
// a state is restored, the picture is the same.
func TestRenderChangesNothing(t *testing.T) {
	for _, d := range definitions() {
		t.Run(d.source().name, func(t *testing.T) {
			drawn, plain := open(t, d, 1), open(t, d, 1)
			test.OK(t, errors.Join(drawn.Reset(0, 3), plain.Reset(0, 3)))
			view := env.View{Width: 32, Height: 32, Shadows: true}
			rgb, action := view.NewPictures(1), make([]float64, len(drawn.task.actuator))
			for k := range 20 {
				for i := range action {
					action[i] = 0.3 * math.Sin(float64(k+3*i))
				}
				got, _ := drawn.act(t, action)
				if want, _ := plain.act(t, action); got != want {
					t.Fatalf("step %d: reward %v, want %v", k, got, want)
				}
				test.OK(t, drawn.Render(view, nil, rgb))
				plain.task.views[0].observe(&plain.batch.physics[0], plain.obs)
				drawn.compare(t, 0, k, plain.obs)
			}
			state := test.Must(plain.Save())(t)
			restored, again := open(t, d, 1), view.NewPictures(1)
			test.OK(t, errors.Join(restored.Load(state), restored.Render(view, nil, again)))
			if !bytes.Equal(rgb.U8(), again.U8()) {
				t.Error("a restored environment looks different")
			}
		})
	}
}

// TestColours: an environment's own colours replace those of the model. A geom with an opacity of 0 is not drawn.
func TestColours(t *testing.T) {
	s := open(t, pusher(V5), 2)
	p := test.Must(newPainter(s.batch, env.View{Width: 40, Height: 40}))(t)
	defer p.close()
	geoms := int(s.batch.model.ngeom)
	colour := make([]float32, 2*geoms*4)
	for g := range geoms {
		copy(colour[4*g:], []float32{0, 1, 0, 1}) // environment 0 is all green, environment 1 is invisible
	}
	rgb := make([]byte, 2*p.frame)
	test.OK(t, p.draw(nil, colour, rgb))
	green := 0
	for i := 0; i < p.frame; i += 3 {
		if rgb[i] == 0 && rgb[i+1] > 0 && rgb[i+2] == 0 {
			green++
		} else if !bytes.Equal(rgb[i:i+3], rgb[p.frame:p.frame+3]) {
			t.Fatalf("pixel %d is %v, neither green nor sky", i/3, rgb[i:i+3])
		}
	}
	if green == 0 || !bytes.Equal(rgb[p.frame:], bytes.Repeat(rgb[p.frame:p.frame+3], 1600)) {
		t.Errorf("%d green pixels; or shapes without opacity were drawn", green)
	}
}

// TestRenderErrors: an invalid view or model is an error before anything is drawn.
func TestRenderErrors(t *testing.T) {
	v, _ := stage(t, shapes, 1)
	mesh := strings.Replace(shapes, "<worldbody>",
		`<asset><mesh name="tent" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
		<geom name="roof" type="mesh" mesh="tent"/>`, 1)
	withMesh, _ := stage(t, mesh, 1)
	for _, c := range []struct {
		vec  env.Vec
		view env.View
		want string
	}{
		{v, env.View{Width: 8, Height: 8, Camera: "three"},
			`mujoco: no camera is called "three": the model has [one two]`},
		{v, env.View{Width: 8, Height: 8, Renderer: "crayon"}, `mujoco: renderer "crayon", expected caster or osmesa`},
		{v, env.View{Width: 0, Height: 8}, "mujoco: a picture of 0 × 8 pixels, expected 1 to 16384 each"},
		{withMesh, env.View{Width: 8, Height: 8},
			"mujoco: the renderer caster draws no meshes and no height fields, osmesa does: geom 0 (roof) is a mesh"},
	} {
		err := env.Render(c.vec, c.view, []bool{false}, c.view.NewPictures(1))
		if fmt.Sprint(err) != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if err := env.Render(v, env.View{Width: 8, Height: 8}, nil, tensor.New(tensor.U8, 1, 8, 9, 3)); err == nil {
		t.Error("a picture of another size was drawn")
	}
}

// BenchmarkRender measures how many pictures of HalfCheetah one core draws in a second.
func BenchmarkRender(b *testing.B) {
	for _, size := range []int{64, 128} {
		for _, shadows := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx%d/shadows=%v", size, size, shadows), func(b *testing.B) {
				s := open(b, halfCheetah(V5), 1)
				view := env.View{Width: size, Height: size, Shadows: shadows}
				rgb := view.NewPictures(1)
				begun := processorTime(b)
				for b.Loop() {
					test.OK(b, s.Render(view, nil, rgb))
				}
				b.ReportMetric(float64(b.N)/(processorTime(b)-begun).Seconds(), "pictures/cpu-s")
			})
		}
	}
}

// BenchmarkRenderSuite measures the same for the suite's observed pictures.
func BenchmarkRenderSuite(b *testing.B) {
	v := test.Must(TabletopSuite(env.DefaultConfig(), 1))(b)
	defer v.Close()
	test.OK(b, v.Reset(nil, []uint64{1}, v.Spec().NewStep(1, 1)))
	for _, camera := range []string{"front", "wrist"} {
		b.Run(camera, func(b *testing.B) {
			view := env.View{Width: 64, Height: 64, Camera: camera, Shadows: true}
			rgb := view.NewPictures(1)
			begun := processorTime(b)
			for b.Loop() {
				test.OK(b, env.Render(v, view, nil, rgb))
			}
			b.ReportMetric(float64(b.N)/(processorTime(b)-begun).Seconds(), "pictures/cpu-s")
		})
	}
}
