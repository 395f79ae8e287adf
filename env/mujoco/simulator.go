//go:build mujoco

package mujoco

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// newVec makes n environments of the model in src. The function plan returns the task for this model.
func newVec(src source, plan func(m *model) (task, error), cfg env.Config, n int) (env.Vec, error) {
	s, err := newSimulator(src, plan, n)
	if err != nil {
		return nil, err
	}
	return env.NewEpisodic(s, cfg), nil
}

// A simulator is an env.Simulator for N environments of one task and one model.
type simulator struct {
	spec  env.Spec
	task  task
	batch *batch
	lost  []bool    // [N]: the environment has failed and needs a Reset
	notes []float64 // [N,memory]: values from task.prepare
	obs   []float64 // scratch: one observation
	ctrl  []float32 // [N,actuators]: output of task.control
	rand  philox.Stream

	painters map[env.View]*painter // a painter for each view rendered so far
	colour   []float32             // [N,geoms,4]: output of task.paint
	unseen   error                 // error of drawing a picture in Observe; the next Step returns it
}

var (
	_ env.Simulator = (*simulator)(nil)
	_ env.Saver     = (*simulator)(nil)
	_ env.Expert    = (*simulator)(nil)
	_ env.Renderer  = (*simulator)(nil)
)

func newSimulator(src source, plan func(m *model) (task, error), n int) (*simulator, error) {
	handle, m, err := load(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.name, noModel(err.Error()))
	}
	t, err := plan(m)
	if err != nil {
		unload(handle)
		return nil, fmt.Errorf("%s: %w", src.name, err)
	}
	s := &simulator{
		spec: t.spec(src.name, m), task: t,
		lost: make([]bool, n), notes: make([]float64, n*t.memory),
		painters: map[env.View]*painter{},
	}
	if t.paint != nil {
		s.colour = slices.Repeat(colours(handle), n)
	}
	for _, v := range t.views {
		if v.width > len(s.obs) {
			s.obs = make([]float64, v.width)
		}
	}
	if t.control != nil {
		s.ctrl = make([]float32, n*len(t.actuator))
	}
	if s.batch, err = newBatch(handle, t, n); err != nil {
		return nil, fmt.Errorf("%s: %w", src.name, err)
	}
	return s, nil
}

// spec returns the Spec of the environment called name.
func (t task) spec(name string, m *model) env.Spec {
	inf := float32(math.Inf(1))
	spec := env.Spec{Name: name, Action: box(tensor.F32, t.commands, 1), MaxSteps: t.limit, Info: t.info,
		Tasks: t.names, TaskWeights: t.weights, Goal: t.goal}
	if t.control == nil {
		spec.Action = box(tensor.F32, len(t.actuator), inf)
		for i, a := range t.actuator {
			spec.Action.Low[i], spec.Action.High[i] = float32(m.control[a][0]), float32(m.control[a][1])
		}
	}
	for _, v := range t.views {
		space := box(v.dtype, v.width, v.bound)
		if v.picture != nil {
			space = pictureSpace(*v.picture)
		}
		field := env.Field{Name: v.name, Space: space}
		if v.name == instructionView {
			field.Words = vocabulary()
		}
		if v.text {
			clear(field.Low)
			field.Text = true
		}
		spec.Obs = append(spec.Obs, field)
	}
	return spec
}

// box returns a space of n numbers within ±bound.
func box(dtype tensor.DType, n int, bound float32) env.Space {
	return env.Space{
		Kind: env.Box, DType: dtype, Shape: []int{n}, Low: slices.Repeat([]float32{-bound}, n),
		High: slices.Repeat([]float32{bound}, n),
	}
}

// Spec describes one environment.
func (s *simulator) Spec() env.Spec { return s.spec }

// Len returns N.
func (s *simulator) Len() int { return len(s.lost) }

// Reset puts environment n into the initial state for seed.
func (s *simulator) Reset(n int, seed uint64) error {
	s.batch.clear(n)
	s.rand = philox.New(seed, philox.Reset, 0, 0)
	s.task.reset(&s.rand, &s.batch.physics[n])
	err := s.batch.begin(n)
	s.lost[n] = err != nil
	return err
}

// Step takes one step of every environment that is not idle. The error is the SimulationError of the first
// environment that failed, with the number of further failures. All other environments have taken
// the step.
func (s *simulator) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n := range turn {
		if turn[n] == env.Idle {
			continue
		}
		if s.lost[n] {
			return fmt.Errorf("environment %d was lost to a fault and not reset since", n)
		}
		if s.task.prepare != nil {
			s.task.prepare(&s.batch.physics[n], s.note(n))
		}
	}
	if s.unseen != nil {
		return s.unseen
	}
	a, ctrl := action.F32(), action.F32()
	width, figures := s.spec.Action.Dim(), len(s.task.info)
	if s.task.control != nil {
		ctrl = s.ctrl
		for n := range turn {
			if turn[n] != env.Idle {
				s.task.control(&s.batch.physics[n], a[n*width:(n+1)*width],
					ctrl[n*len(s.task.actuator):(n+1)*len(s.task.actuator)])
			}
		}
	}
	err := s.batch.step(ctrl, turn, s.lost)
	for n := range turn {
		if turn[n] == env.Idle || s.lost[n] {
			continue
		}
		r, end := s.task.step(&s.batch.physics[n], a[n*width:(n+1)*width], s.note(n), info[n*figures:(n+1)*figures])
		reward[n], terminated[n] = float32(r), byte(count(end))
	}
	return err
}

// note returns the elements of notes for environment n.
func (s *simulator) note(n int) []float64 { return s.notes[n*s.task.memory : (n+1)*s.task.memory] }

// Observe writes the observations of the environments where mask is true to their rows of obs.
func (s *simulator) Observe(mask []bool, obs tensor.Dict) {
	for i, v := range s.task.views {
		t := obs.Must(v.name)
		if v.picture != nil {
			if err := s.see(i, mask, t); err != nil {
				s.unseen = err
			}
			continue
		}
		for n := range s.lost {
			if mask != nil && !mask[n] {
				continue
			}
			v.observe(&s.batch.physics[n], s.obs[:v.width])
			switch v.dtype {
			case tensor.I32:
				convert(t.I32()[n*v.width:], s.obs[:v.width])
			case tensor.U8:
				convert(t.U8()[n*v.width:], s.obs[:v.width])
			default:
				convert(t.F32()[n*v.width:], s.obs[:v.width])
			}
		}
	}
}

func convert[T int32 | float32 | uint8](dst []T, src []float64) {
	for i, v := range src {
		dst[i] = T(v)
	}
}

// see draws observation i, which must be a picture, into rgb.
func (s *simulator) see(i int, mask []bool, rgb tensor.Tensor) error {
	s.each(mask, s.task.stage)
	err := s.Render(*s.task.views[i].picture, mask, rgb)
	s.each(mask, s.task.stage)
	if err != nil || s.task.develop == nil {
		return err
	}
	all := rgb.U8()
	size := len(all) / s.Len()
	for n := range s.lost {
		if mask == nil || mask[n] {
			s.task.develop(&s.batch.physics[n], i, all[n*size:(n+1)*size])
		}
	}
	return nil
}

// each calls f for each environment where mask is true, unless f is nil.
func (s *simulator) each(mask []bool, f func(p *physics)) {
	for n := range s.lost {
		if f != nil && (mask == nil || mask[n]) {
			f(&s.batch.physics[n])
		}
	}
}

// Act fills action with the actions of the task's expert.
func (s *simulator) Act(action tensor.Tensor) error {
	if s.task.expert == nil {
		return fmt.Errorf("%s has no expert: %w", s.spec.Name, errors.ErrUnsupported)
	}
	a, width := action.F32(), s.spec.Action.Dim()
	for n := range s.lost {
		s.task.expert(&s.batch.physics[n], a[n*width:(n+1)*width])
	}
	return nil
}

// Render draws the environments where mask is true. The first call for a view makes a painter,
// which Close frees.
func (s *simulator) Render(view env.View, mask []bool, rgb tensor.Tensor) error {
	p := s.painters[view]
	if p == nil {
		var err error
		if p, err = newPainter(s.batch, view); err != nil {
			return err
		}
		s.painters[view] = p
	}
	if row := len(s.colour) / s.Len(); row > 0 {
		for n := range s.lost {
			s.task.paint(&s.batch.physics[n], s.colour[n*row:(n+1)*row])
		}
	}
	return p.draw(mask, s.colour, rgb.U8())
}

// Close frees all memory.
func (s *simulator) Close() error {
	for _, p := range s.painters {
		p.close()
	}
	clear(s.painters)
	return s.batch.close()
}

// Save returns the states of all environments: arrays F64 [N,·] under MuJoCo's names, and "lost",
// U8 [N].
func (s *simulator) Save() (tensor.Dict, error) {
	var d tensor.Dict
	for i, f := range s.batch.state[0] {
		if len(f.values) == 0 {
			continue
		}
		t := tensor.New(tensor.F64, s.Len(), len(f.values))
		for n := range s.batch.state {
			copy(t.F64()[n*len(f.values):], s.batch.state[n][i].values)
		}
		d.Set(f.name, t)
	}
	lost := tensor.New(tensor.U8, s.Len())
	for n, l := range s.lost {
		lost.U8()[n] = byte(count(l))
	}
	d.Set("lost", lost)
	return d, nil
}

// Load restores a state from Save.
func (s *simulator) Load(d tensor.Dict) error {
	lost, err := s.saved(d, "lost", tensor.U8, s.Len())
	if err != nil {
		return err
	}
	var parts []tensor.Tensor
	for _, f := range s.batch.state[0] {
		t, err := s.saved(d, f.name, tensor.F64, s.Len()*len(f.values))
		if err != nil {
			return err
		}
		parts = append(parts, t)
	}
	for n := range s.lost {
		s.batch.clear(n)
		s.lost[n] = lost.U8()[n] != 0
		for i, f := range s.batch.state[n] {
			if len(f.values) > 0 {
				copy(f.values, parts[i].F64()[n*len(f.values):])
			}
		}
	}
	return nil
}

// saved returns the tensor called name in the saved state d. It returns an error if the tensor has
// another type or size. If elements is 0, it returns the zero Tensor.
func (s *simulator) saved(d tensor.Dict, name string, dtype tensor.DType, elements int) (tensor.Tensor, error) {
	t, ok := d.Get(name)
	if elements == 0 {
		return tensor.Tensor{}, nil
	}
	if !ok || t.DType() != dtype || t.Len() != elements || t.Dim(0) != s.Len() {
		return t, fmt.Errorf("%s: load: %s is %v, expected %v of %d elements for %d environments", s.spec.Name, name, t,
			dtype, elements, s.Len())
	}
	return t, nil
}
