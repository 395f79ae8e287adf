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

// A Version is Gymnasium's version number of a task.
type Version int

// The versions differ in rewards, observations and models; see each constructor.
const (
	V4 Version = 4
	V5 Version = 5
)

// A definition defines a named environment: a model and a task.
type definition struct {
	name    string // "HalfCheetah"; the version is added
	file    string // name in models
	version Version
	skip    int                             // simulation steps per environment step
	limit   int                             // steps of an episode
	task    func(m *model, dt float64) task // dt: seconds per step
}

// constructor returns the env.Constructor of d.
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

// A source is the origin of a model.
type source struct {
	name string // the environment's name
	file string // path of the model, or its name in models
	text []byte // the MJCF text; if nil, file is read
}

// embedded returns a source with the embedded model in file, for the environment called name.
func embedded(name, file string) source {
	text, err := models.ReadFile("models/" + file)
	if err != nil {
		panic("mujoco: " + err.Error()) // the model was not compiled in
	}
	return source{name: name, file: file, text: text}
}

// A task describes one environment by functions of the physics. The functions keep no state between
// calls.
type task struct {
	skip, limit int   // simulation steps per environment step; steps of an episode
	actuator    []int // actuators that control sets, or that the action sets if control is nil
	turning     []int // indices into qpos of the angles for physics.cos and physics.sin
	contacts    bool  // whether to compute physics.cfrcExt
	renew       renewal
	info        []string
	names       []string  // Tasks of the env.Spec
	weights     []float64 // TaskWeights of the env.Spec
	memo        int       // length of physics.memo
	views       []view    // the observations
	goal        *env.Goal // Goal of the env.Spec

	// reset writes the initial state into qpos, qvel, mocapPos and memo. Before the call, qpos and
	// qvel hold the model's own initial state.
	reset func(r *philox.Stream, p *physics)
	// prepare is called before the simulation, unless it is nil. It saves values in note, which
	// step reads. The field memory is the number of these values.
	memory  int
	prepare func(p *physics, note []float64)
	// control computes the inputs of the actuators, ctrl, from an action. The field commands is the
	// length of the action, whose numbers are within ±1. If control is nil, the action is the
	// inputs themselves.
	commands int
	control  func(p *physics, action, ctrl []float32)
	// step returns the results of the step that was just simulated, and fills info.
	step func(p *physics, action []float32, note []float64, info []float32) (reward float64, terminated bool)
	// stage is called before and after an observed picture is drawn, unless it is nil. The first
	// call may change qpos, mocapPos and memo. The second call must restore them.
	stage func(p *physics)
	// develop changes an observed picture, [height,width,3], unless it is nil. The picture is that
	// of views[view].
	develop func(p *physics, view int, rgb []byte)
	// paint writes the colours of the geoms, [geoms,4] like MuJoCo's geom_rgba. If it is nil,
	// pictures have the model's colours.
	paint func(p *physics, colour []float32)
	// expert writes the expert's action in the current state. It is nil if there is no expert.
	expert func(p *physics, action []float32)
}

// A view is one named observation: a vector of width numbers, or a picture.
type view struct {
	name    string
	dtype   tensor.DType // F32, I32 or U8
	text    bool         // whether the numbers, U8, are a text in UTF-8
	width   int
	bound   float32 // numbers are within ±bound
	observe func(p *physics, obs []float64)
	picture *env.View // U8 [height,width,3]; if not nil, name is the only other field that is set
}

// numbersView returns an observation called name: a vector of width numbers, which the function
// observe writes.
func numbersView(name string, width int, observe func(p *physics, obs []float64)) view {
	return view{name: name, dtype: tensor.F32, width: width, bound: float32(math.Inf(1)), observe: observe}
}

// stateView returns the views of a task whose only observation is "state".
func stateView(width int, observe func(p *physics, obs []float64)) []view {
	return []view{numbersView("state", width, observe)}
}

// A renewal selects the quantities that are recomputed after a step. All other quantities keep the
// values of the integrator's last stage.
type renewal int

const (
	nothing   renewal = iota // as in Gymnasium
	positions                // positions of bodies and sites
	sensors                  // positions, and sensors of positions and velocities
)

// physics holds views of one environment in MuJoCo's memory, with MuJoCo's names
// (https://mujoco.readthedocs.io, mjData). task.reset may write qpos, qvel, mocapPos and mocapQuat,
// and task.control may write qpos and mocapPos. Every function may write memo. All other fields are
// read-only.
type physics struct {
	qpos, qvel []float64 // [nq], [nv]
	xpos       []float64 // [nbody,3]: positions of the bodies' frames
	siteXpos   []float64 // [nsite,3]
	sensor     []float64 // [nsensordata]
	cfrcExt    []float64 // [nbody,6]: contact torques and forces, if task.contacts is true
	mocapPos   []float64 // [nmocap,3]: positions of mocap bodies
	mocapQuat  []float64 // [nmocap,4]: their orientations
	cos, sin   []float64 // cosines and sines of the angles in task.turning, computed by the C library
	memo       []float64 // values that the task keeps during an episode
}

// body returns the position of a body.
func (p *physics) body(i int) []float64 { return p.xpos[3*i : 3*i+3] }

// uniform adds noise from [-scale, scale) to every element of x.
func uniform(r *philox.Stream, scale float64, x []float64) {
	for i := range x {
		x[i] += r.Uniform(-scale, scale)
	}
}

// normal adds normal noise with standard deviation scale to every element of x.
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

// distance returns the distance between two points in space.
func distance(a, b []float64) float64 {
	x, y, z := a[0]-b[0], a[1]-b[1], a[2]-b[2]
	return math.Sqrt(x*x + y*y + z*z)
}

// clip clips x to ±limit.
func clip(x, limit float64) float64 { return min(max(x, -limit), limit) }

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
