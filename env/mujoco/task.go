package mujoco

import (
	"embed"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

//go:embed models
var models embed.FS

// A definition is a named environment: a model and what is to be done with it.
type definition struct {
	name    string // "HalfCheetah", to which the version is added
	file    string // in models
	version Version
	skip    int                             // steps of the simulation in one of the environment
	limit   int                             // steps of an episode
	task    func(m *model, dt float64) task // dt: seconds per step
}

// constructor returns what makes environments of d.
func (d definition) constructor() env.Constructor {
	return func(cfg env.Config, n int) (env.Vec, error) {
		if err := cfg.Plain(); err != nil {
			return nil, err
		}
		return newVec(d.source(), d.plan, cfg, n)
	}
}

func (d definition) source() source {
	return embedded(fmt.Sprintf("%s-v%d", d.name, d.version), d.file)
}

func (d definition) plan(m *model) (task, error) {
	t := d.task(m, m.timestep*float64(d.skip))
	t.skip, t.limit, t.actuator = d.skip, d.limit, m.all()
	return t, nil
}

// A source is where a model comes from.
type source struct {
	name string // the environment's
	file string // path of the model, or its name among the embedded ones
	text []byte // the model itself; nil: it is in file
}

// embedded is the compiled-in model in file, for the environment called name.
func embedded(name, file string) source {
	text, err := models.ReadFile("models/" + file)
	if err != nil {
		panic("mujoco: " + err.Error()) // the model was not compiled in
	}
	return source{name: name, file: file, text: text}
}

// A task says what one environment is: functions of the physics, which keep nothing.
type task struct {
	skip, limit int   // steps of the simulation in one of the environment, steps of an episode
	width       int   // numbers that observe writes
	actuator    []int // the actuators that an action sets, in its order; all that control sets, where there is one
	turning     []int // indices into qpos: the angles whose cosine and sine the physics has
	contacts    bool  // the physics has cfrcExt
	renew       renewal
	info        []string
	names       []string  // env.Spec.Tasks
	weights     []float64 // env.Spec.TaskWeights
	memo        int       // numbers of physics.memo
	views       []view    // observations besides that of observe, which is not shown where width is 0

	// reset writes the initial state into qpos and qvel, which are the model's own, and into
	// mocapPos and memo.
	reset func(r *philox.Stream, p *physics)
	// before notes ahead of a step what step gets then: as many numbers as memory says. Without it
	// they mean nothing.
	memory int
	before func(p *physics, note []float64)
	// control turns an action, of as many numbers within ±1 as commands says, into what the
	// actuators are set to. Without it the action is that.
	commands int
	control  func(p *physics, action, ctrl []float32)
	// step judges the step just taken. info is as long as the task's info.
	step func(p *physics, action []float32, note []float64, info []float32) (reward float64, terminated bool)
	// observe writes the observation.
	observe func(p *physics, obs []float64)
	// stage, unless nil, is called before and after an observed picture is drawn: it may change what
	// stands in qpos, mocapPos and memo before, and puts it back after.
	stage func(p *physics)
	// develop, unless nil, changes an observed picture of that view, [height,width,3].
	develop func(p *physics, view int, rgb []byte)
	// paint writes the colours in which geoms are seen, [geoms,4] as MuJoCo's geom_rgba; nil: in
	// those of the model.
	paint func(p *physics, colour []float32)
	// expert writes what is to be done in the present state; nil: nobody knows.
	expert func(p *physics, action []float32)
}

// A view is one named observation: of width numbers, or a picture.
type view struct {
	name    string
	dtype   tensor.DType // F32, I32 or U8
	text    bool         // U8: a text in UTF-8
	width   int
	bound   float32 // numbers are within ±bound
	observe func(p *physics, obs []float64)
	picture *env.View // U8 [height,width,3]; with it all but name is unset
}

// A renewal says what is computed of the state that a step left. By itself MuJoCo leaves what it
// computed of the state before.
type renewal int

const (
	nothing   renewal = iota // as Gymnasium reads it
	positions                // of bodies and sites
	sensors                  // that, and sensors of positions and velocities
)

// physics is one environment in MuJoCo's memory, under MuJoCo's names
// (https://mujoco.readthedocs.io, mjData). The task of a Reset may write qpos, qvel, mocapPos and
// mocapQuat, and that of a step's control qpos and mocapPos; all else is for reading, memo apart.
type physics struct {
	qpos, qvel []float64 // [nq], [nv]
	xpos       []float64 // [nbody,3]: positions of the bodies' frames
	siteXpos   []float64 // [nsite,3]
	sensor     []float64 // [nsensordata]
	cfrcExt    []float64 // [nbody,6]: contact torques and forces, where the task has contacts
	mocapPos   []float64 // [nmocap,3]: positions of bodies that nothing moves
	mocapQuat  []float64 // [nmocap,4]: how those are turned
	cos, sin   []float64 // of the task's turning angles, by the C library
	memo       []float64 // what the task keeps of its own from reset on
}

// body returns the position of a body.
func (p *physics) body(i int) []float64 { return p.xpos[3*i : 3*i+3] }

// uniform adds noise from [-scale, scale) to every element of x.
func uniform(r *philox.Stream, scale float64, x []float64) {
	for i := range x {
		x[i] += r.Uniform(-scale, scale)
	}
}

// normal adds normal noise of that standard deviation to every element of x.
func normal(r *philox.Stream, scale float64, x []float64) {
	for i := 0; i < len(x); i += 2 {
		a, b := r.Normal()
		x[i] += scale * a
		if i+1 < len(x) {
			x[i+1] += scale * b
		}
	}
}

// effort returns Σ a².
func effort(action []float32) float64 {
	sum := 0.0
	for _, a := range action {
		sum += float64(a) * float64(a)
	}
	return sum
}

// distance returns |a - b| of two points in space.
func distance(a, b []float64) float64 {
	x, y, z := a[0]-b[0], a[1]-b[1], a[2]-b[2]
	return math.Sqrt(x*x + y*y + z*z)
}

// clip keeps x within ±limit.
func clip(x, limit float64) float64 { return min(max(x, -limit), limit) }

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
