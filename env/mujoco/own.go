package mujoco

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// NewModel makes n environments of cfg.ModelPath, an MJCF file, with the task in cfg.Task. If the
// task names a part that the model does not have, the error lists the names of all parts of this
// kind.
func NewModel(cfg env.Config, n int) (env.Vec, error) {
	if cfg.ModelPath == "" || cfg.Task == nil {
		return nil, fmt.Errorf("%s: your own MJCF model: set model_path and task", cfg.ID())
	}
	if err := cfg.NoSuite(); err != nil {
		return nil, err
	}
	if len(cfg.Observations) > 0 {
		return nil, fmt.Errorf("%s: %w", cfg.ID(), env.KeyErrors{{Key: "observations", Reason: fmt.Sprintf("%v: "+
			"an MJCF model of your own names numbers in task.observations, and observes no camera", cfg.Observations)}})
	}
	info, err := os.Stat(cfg.ModelPath)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.ID(), noModel(err.Error()))
	}
	if !info.Mode().IsRegular() { // reading a pipe could block forever
		what := "not a regular file"
		if info.IsDir() {
			what = "a folder"
		}
		return nil, fmt.Errorf("%s: %w", cfg.ID(), noModel(cfg.ModelPath+" is "+what+": expected an MJCF file"))
	}
	return newVec(source{name: cfg.ID(), file: cfg.ModelPath}, func(m *model) (task, error) {
		return declare(m, cfg.Task)
	}, cfg, n)
}

// noModel returns the error that model_path does not name an MJCF file, with the given reason.
func noModel(reason string) error { return env.KeyErrors{{Key: "model_path", Reason: reason}} }

// declare compiles t for the model m. Its error lists all mistakes in t.
func declare(m *model, t *env.Task) (task, error) {
	if !(m.timestep > 0) {
		return task{}, noModel(fmt.Sprintf("%s: option timestep %g: expected a number > 0, in seconds", m.file,
			m.timestep))
	}
	c := compiler{model: m, read: map[string]bool{}}
	out := task{skip: max(t.FrameSkip, 1), limit: t.MaxSteps, actuator: c.actuators(t.Actuators)}
	width := 0
	observations := compile(&c, "observations", t.Observations, func(key string, q env.Quantity) *quantity {
		compiled := c.quantity(key, q)
		width += compiled.width()
		return compiled
	})
	rewards := compile(&c, "rewards", t.Rewards, func(key string, r env.Reward) *term {
		return c.term(key, r, out.actuator, &out.memory)
	})
	terminations := compile(&c, "terminations", t.Terminations, c.bounds)
	success := compile(&c, "success", t.Success, c.bounds)
	noise := compile(&c, "reset_noise", t.ResetNoise, c.noise)
	out.reset = func(r *philox.Stream, p *physics) {
		for _, n := range noise {
			n.draw(r, p)
		}
		clear(p.memo)
	}
	if len(success) > 0 {
		out.info, out.memo = []string{"success"}, 1
	}
	if t.Delta > 0 {
		c.follow(&out, t.Delta, t.Lead)
	}
	if len(c.wrong) > 0 {
		return task{}, fmt.Errorf("%s and the task do not fit: %w", m.file, c.wrong)
	}

	dt := m.timestep * float64(out.skip)
	if c.read["sensor"] {
		out.renew = sensors
	} else if c.read["body"] || c.read["site"] {
		out.renew = positions
	}
	out.views = stateView(width, func(p *physics, obs []float64) {
		for _, q := range observations {
			obs = obs[copy(obs, q.read(p, nil)):]
		}
	})
	if out.memory > 0 {
		out.prepare = func(p *physics, note []float64) {
			for _, r := range rewards {
				if r.memory > 0 {
					note = note[copy(note, r.quantity.read(p, nil)):]
				}
			}
		}
	}
	out.step = (&outcome{rewards, terminations, success, float64(t.SuccessSteps), dt}).step
	return out, nil
}

// An outcome computes the reward of a step in a user's task, and whether the episode ends.
type outcome struct {
	rewards               []*term
	terminations, success []*bounds
	successSteps          float64
	dt                    float64 // seconds per step
}

// arrived keeps in memo[0] the number of consecutive steps in which the success bounds hold. It reports whether there
// were at least successSteps.
func (o *outcome) arrived(p *physics) bool {
	for _, b := range o.success {
		if !b.hold(p) {
			p.memo[0] = 0
			return false
		}
	}
	p.memo[0]++
	return p.memo[0] >= o.successSteps
}

func (o *outcome) step(p *physics, action []float32, note []float64, info []float32) (float64, bool) {
	arrived := len(o.success) > 0 && o.arrived(p)
	failed := false
	for _, b := range o.terminations {
		failed = failed || !b.hold(p)
	}
	if len(o.success) > 0 {
		info[0] = float32(count(arrived))
	}
	reward := 0.0
	for _, r := range o.rewards {
		if r.when == "success" && !arrived || r.when == "alive" && failed {
			note = note[r.memory:]
			continue
		}
		reward += r.value(p, action, note, o.dt)
		note = note[r.memory:]
	}
	return reward, failed || arrived
}

// A quantity is a compiled env.Quantity: elements of an array of the physics, and the functions to
// apply to them.
type quantity struct {
	array   func(p *physics) []float64 // nil if the quantity is a part of the action
	at      []int                      // indices into array, or into the action
	origin  func(p *physics) []float64 // the array of the elements to subtract
	minus   []int                      // indices into origin; nil if nothing is subtracted
	scale   float64
	apply   []string
	clip    float64
	scratch []float64
}

// width returns the number of values that read returns.
func (q *quantity) width() int {
	for _, f := range q.apply {
		if f == "norm" || f == "sum" {
			return 1
		}
	}
	return len(q.at)
}

// read returns the values of the quantity. They are valid until the next call.
func (q *quantity) read(p *physics, action []float32) []float64 {
	x := q.scratch
	if q.array == nil {
		for i, at := range q.at {
			x[i] = float64(action[at])
		}
	} else {
		from := q.array(p)
		for i, at := range q.at {
			x[i] = from[at]
		}
		for i, at := range q.minus {
			x[i] -= q.origin(p)[at]
		}
	}
	for i := range x {
		x[i] *= q.scale
	}
	for _, f := range q.apply {
		x = apply(f, x)
	}
	if q.clip > 0 {
		for i := range x {
			x[i] = clip(x[i], q.clip)
		}
	}
	return x
}

// apply applies the function f to x in place, and returns the result, which may be shorter.
func apply(f string, x []float64) []float64 {
	switch f {
	case "norm":
		x[0] = math.Sqrt(sum(apply("square", x)))
		return x[:1]
	case "sum":
		x[0] = sum(x)
		return x[:1]
	}
	for i, v := range x {
		switch f {
		case "cos":
			x[i] = math.Cos(v)
		case "sin":
			x[i] = math.Sin(v)
		case "wrap":
			x[i] = wrap(v)
		case "abs":
			x[i] = math.Abs(v)
		case "square":
			x[i] = v * v
		case "tanh":
			x[i] = math.Tanh(v)
		}
	}
	return x
}

func sum(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s
}

// wrap returns the angle x in [-π, π): ((x+π) mod 2π) - π, where mod is never negative.
func wrap(x float64) float64 {
	m := math.Mod(x+math.Pi, 2*math.Pi)
	if m < 0 {
		m += 2 * math.Pi
	}
	return m - math.Pi
}

// A term is a compiled env.Reward.
type term struct {
	quantity *quantity // nil if the term is constant
	constant float64
	weight   float64
	rate     bool
	memory   int // number of values to save before the step
	when     string
}

// value returns the term's contribution to the reward of a step of dt seconds.
func (r *term) value(p *physics, action []float32, note []float64, dt float64) float64 {
	if r.quantity == nil {
		return r.constant
	}
	if r.memory > 0 && !r.rate {
		return r.weight * sum(note[:r.memory])
	}
	total := 0.0
	for i, v := range r.quantity.read(p, action) {
		if r.rate {
			v = (v - note[i]) / dt
		}
		total += v
	}
	return r.weight * total
}

// bounds are a compiled env.Bounds.
type bounds struct {
	quantity  *quantity
	low, high float64
}

// hold reports whether all numbers of the quantity are within the bounds.
func (b *bounds) hold(p *physics) bool {
	return !slices.ContainsFunc(b.quantity.read(p, nil), func(v float64) bool { return !(b.low <= v && v <= b.high) })
}

// noise is a compiled env.Noise.
type noise struct {
	array     func(p *physics) []float64
	at        []int
	low, high float64
	std       float64
}

func (n *noise) draw(r *philox.Stream, p *physics) {
	x := n.array(p)
	for _, at := range n.at {
		if n.std > 0 {
			a, _ := r.Normal()
			x[at] += n.std * a
		} else {
			x[at] += r.Uniform(n.low, n.high)
		}
	}
}

// A compiler resolves the names in an env.Task to indices in the model's arrays, and collects the errors.
type compiler struct {
	model *model
	read  map[string]bool // kinds of quantities that the task reads
	wrong env.KeyErrors
}

// compile calls f for each item of a list, with the item's key, and returns the results.
func compile[T, U any](c *compiler, key string, list []T, f func(key string, item T) U) []U {
	out := make([]U, len(list))
	for i, item := range list {
		out[i] = f(fmt.Sprintf("task.%s.%d", key, i), item)
	}
	return out
}

// arrayOf returns a function that returns the array of the given kind. It returns nil for actuators.
func arrayOf(kind string) func(p *physics) []float64 {
	switch kind {
	case "joint":
		return func(p *physics) []float64 { return p.qpos }
	case "velocity":
		return func(p *physics) []float64 { return p.qvel }
	case "sensor":
		return func(p *physics) []float64 { return p.sensor }
	case "body":
		return func(p *physics) []float64 { return p.xpos }
	case "site":
		return func(p *physics) []float64 { return p.siteXpos }
	}
	return nil
}

// find returns the indices of the elements of the part called name, or of all parts of this kind if name is "*".
func (c *compiler) find(key, kind, name string) (at []int) {
	var known []string
	for _, p := range c.model.parts[kind] {
		if p.name == name || name == "*" {
			for i := range p.of {
				at = append(at, p.at+i)
			}
		}
		if p.name != "" {
			known = append(known, p.name)
		}
	}
	if at == nil {
		c.complain(key, "no %s %q, it has %s", kind, name, orNone(known))
	}
	return at
}

// has reports whether the model has a part of the given kind and name.
func (c *compiler) has(kind, name string) bool {
	return slices.ContainsFunc(c.model.parts[kind], func(p part) bool { return p.name == name })
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	return strings.Join(names, ", ")
}

func (c *compiler) complain(key, format string, args ...any) {
	c.wrong = append(c.wrong, env.KeyError{Key: key, Reason: fmt.Sprintf(format, args...)})
}

// actuators returns the indices of the named actuators, or of all actuators if names is nil.
func (c *compiler) actuators(names []string) []int {
	list := c.model.all()
	if names != nil {
		list = nil
		for i, name := range names {
			list = append(list, c.find(fmt.Sprintf("task.actuators.%d", i), "actuator", name)...)
		}
	}
	if len(list) == 0 && len(c.wrong) == 0 {
		c.complain("task.actuators", "the model has no actuators")
	}
	return list
}

func (c *compiler) quantity(key string, q env.Quantity) *quantity {
	kind, name := q.Source()
	c.read[kind] = true
	out := &quantity{array: arrayOf(kind), at: c.find(key, kind, name), scale: cmp.Or(q.Scale, 1), apply: q.Apply,
		clip: q.Clip}
	if q.RelativeTo != "" {
		other := map[string]string{"body": "site", "site": "body"}[kind]
		if c.has(kind, q.RelativeTo) || !c.has(other, q.RelativeTo) {
			other = kind
		}
		out.origin, out.minus = arrayOf(other), c.find(key+".relative_to", other, q.RelativeTo)
	}
	if q.Elements != nil && out.at != nil {
		out.at, out.minus = c.pick(key, q.Elements, out.at), c.pick(key, q.Elements, out.minus)
	}
	out.scratch = make([]float64, len(out.at))
	return out
}

// pick returns the elements of list at the given indices, and reports invalid indices as mistakes. If list is nil, it
// returns nil.
func (c *compiler) pick(key string, indices, list []int) (picked []int) {
	if list == nil {
		return nil
	}
	for _, e := range indices {
		if e < 0 || e >= len(list) {
			c.complain(key+".elements", "%d, expected 0..%d", e, len(list)-1)
			continue
		}
		picked = append(picked, list[e])
	}
	return picked
}

// term compiles r for an action that sets the given actuators. If the term needs values from before
// the step, their number is added to memory.
func (c *compiler) term(key string, r env.Reward, actuators []int, memory *int) *term {
	out := &term{constant: r.Constant, weight: r.Weight, rate: r.Rate, when: r.When}
	kind, _ := r.Source()
	if kind == "" {
		return out
	}
	out.quantity = c.quantity(key, r.Quantity)
	if r.Before || r.Rate {
		out.memory = out.quantity.width()
		*memory += out.memory
	}
	if kind == "actuator" {
		for i, a := range out.quantity.at {
			if out.quantity.at[i] = slices.Index(actuators, a); out.quantity.at[i] < 0 {
				c.complain(key, "actuator %q is not among task.actuators", r.Actuator)
			}
		}
	}
	return out
}

func (c *compiler) bounds(key string, b env.Bounds) *bounds {
	out := &bounds{quantity: c.quantity(key, b.Quantity), low: math.Inf(-1), high: math.Inf(1)}
	if b.Low != nil {
		out.low = *b.Low
	}
	if b.High != nil {
		out.high = *b.High
	}
	return out
}

func (c *compiler) noise(key string, n env.Noise) *noise {
	kind, name := "joint", n.Joint
	if name == "" {
		kind, name = "velocity", n.Velocity
	}
	out := &noise{array: arrayOf(kind), at: c.find(key, kind, name), low: n.Low, high: n.High, std: n.Std}
	if n.Elements != nil && out.at != nil {
		out.at = c.pick(key, n.Elements, out.at)
	}
	return out
}

// follow makes actions relative: they move the joints' set points, which are kept in physics.memo. See env.Task.Delta.
func (c *compiler) follow(out *task, delta, lead float64) {
	var joints []int
	for _, a := range out.actuator {
		switch name := c.model.parts["actuator"][a].name; {
		case c.model.moves[a] < 0:
			c.complain("task.delta", "actuator %q moves no joint of one number", name)
		case !c.model.servo[a]:
			c.complain("task.delta", "actuator %q does not hold a position: expected a position actuator", name)
		}
		joints = append(joints, c.model.moves[a])
	}
	first, reset := out.memo, out.reset
	out.memo += len(joints)
	out.commands = len(joints)
	out.reset = func(r *philox.Stream, p *physics) {
		reset(r, p)
		for i, at := range joints {
			p.memo[first+i] = p.qpos[at]
		}
	}
	out.control = func(p *physics, action, ctrl []float32) {
		for i, at := range joints {
			set := &p.memo[first+i]
			*set = ahead(*set+delta*clip(float64(action[i]), 1), p.qpos[at], lead, c.model.control[out.actuator[i]])
			ctrl[i] = float32(*set)
		}
	}
}

// ahead clips command to bounds. If lead > 0, it first clips command to position ± lead.
func ahead(command, position, lead float64, bounds [2]float64) float64 {
	if lead > 0 {
		command = position + clip(command-position, lead)
	}
	return min(max(command, bounds[0]), bounds[1])
}
