//go:build mujoco

package mujoco

/*
#cgo LDFLAGS: -lmujoco -lm
#cgo noescape rl_step
#cgo nocallback rl_step
#cgo noescape rl_begin
#cgo nocallback rl_begin
#include <stdlib.h>
#include "batch.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlinf/rlinf/env"
)

// A batch holds n environments of one model in MuJoCo's memory. It makes the calls into C for all of them.
type batch struct {
	c       *C.rl_batch
	model   *C.mjModel
	physics []physics   // [n]: views of data
	state   [][]field   // [n]: views of all arrays that a step or a task reads
	memos   [][]float64 // [n]: physics.memo
}

// A field is one array in the state of an environment. All fields together are its complete state.
type field struct {
	name   string // MuJoCo's name, or "memo"
	values []float64
}

// load reads a model from a file or from memory.
func load(src source) (*C.mjModel, *model, error) {
	said := (*C.char)(C.calloc(1, C.RL_SAID))
	defer C.free(unsafe.Pointer(said))
	file := C.CString(src.file)
	defer C.free(unsafe.Pointer(file))
	var text *C.char
	if src.text != nil {
		text = (*C.char)(unsafe.Pointer(&src.text[0]))
	}
	m := C.rl_load(file, text, C.size_t(len(src.text)), said)
	if m == nil {
		return nil, nil, fmt.Errorf("MuJoCo %s cannot read the model %s: %s", library(), src.file,
			strings.Join(strings.Fields(C.GoString(said)), " "))
	}
	return m, describe(src.file, m), nil
}

// library returns the version of MuJoCo, such as 2.2.2.
func library() string { return C.GoString(C.mj_versionString()) }

// unload frees a model.
func unload(m *C.mjModel) { C.mj_deleteModel(m) }

// describe returns the description of m that tasks use.
func describe(file string, m *C.mjModel) *model {
	d := &model{file: file, timestep: float64(m.opt.timestep), nq: int(m.nq), nv: int(m.nv), parts: map[string][]part{}}
	add := func(kind, name string, at, of int) { d.parts[kind] = append(d.parts[kind], part{name, at, of}) }
	// number of elements of a joint in qpos and in qvel
	size := map[C.int][2]int{C.mjJNT_FREE: {7, 6}, C.mjJNT_BALL: {4, 3}, C.mjJNT_SLIDE: {1, 1}, C.mjJNT_HINGE: {1, 1}}
	for i, name := range names(m, int(m.njnt), m.name_jntadr) {
		add("joint", name, int(at(m.jnt_qposadr, i)), size[at(m.jnt_type, i)][0])
		add("velocity", name, int(at(m.jnt_dofadr, i)), size[at(m.jnt_type, i)][1])
	}
	for i, name := range names(m, int(m.nsensor), m.name_sensoradr) {
		add("sensor", name, int(at(m.sensor_adr, i)), int(at(m.sensor_dim, i)))
	}
	for i, name := range names(m, int(m.nbody), m.name_bodyadr) {
		add("body", name, 3*i, 3)
	}
	for i, name := range names(m, int(m.nsite), m.name_siteadr) {
		add("site", name, 3*i, 3)
	}
	for i, name := range names(m, int(m.ngeom), m.name_geomadr) {
		add("geom", name, 4*i, 4)
	}
	for i, name := range names(m, int(m.nu), m.name_actuatoradr) {
		add("actuator", name, i, 1)
		bounds := [2]float64{math.Inf(-1), math.Inf(1)}
		if at(m.actuator_ctrllimited, i) != 0 {
			bounds = [2]float64{float64(at(m.actuator_ctrlrange, 2*i)), float64(at(m.actuator_ctrlrange, 2*i+1))}
		}
		d.control = append(d.control, bounds)
		bias := int(at(m.actuator_biastype, i)) // a position actuator pulls back by the position: biasprm[1]
		d.servo = append(d.servo, bias == C.mjBIAS_USER || bias == C.mjBIAS_AFFINE &&
			at(m.actuator_biasprm, C.mjNBIAS*i+1) != 0)
		d.moves = append(d.moves, -1)
		if joint := int(at(m.actuator_trnid, 2*i)); at(m.actuator_trntype, i) == C.mjTRN_JOINT &&
			d.parts["joint"][joint].of == 1 {
			d.moves[i] = d.parts["joint"][joint].at
		}
	}
	return d
}

// colours returns the colours of the geoms of m, [geoms,4]: red, green, blue and opacity, from 0 to 1.
func colours(m *C.mjModel) []float32 {
	return slices.Clone(unsafe.Slice((*float32)(unsafe.Pointer(m.geom_rgba)), 4*m.ngeom))
}

// names returns the names of n parts of m. The argument offsets points to the parts' offsets in m.names. The name of an
// unnamed part is "".
func names(m *C.mjModel, n int, offsets *C.int) []string {
	list := make([]string, n)
	for i, offset := range unsafe.Slice(offsets, n) {
		list[i] = C.GoString((*C.char)(unsafe.Add(unsafe.Pointer(m.names), offset)))
	}
	return list
}

// at returns element i of a C array.
func at[T any](array *T, i int) T {
	return *(*T)(unsafe.Add(unsafe.Pointer(array), uintptr(i)*unsafe.Sizeof(*array)))
}

// newBatch makes n environments of m for the task t. The batch takes ownership of m.
func newBatch(m *C.mjModel, t task, n int) (*batch, error) {
	b := &batch{model: m, c: (*C.rl_batch)(C.calloc(1, C.sizeof_rl_batch)), physics: make([]physics, n),
		state: make([][]field, n), memos: make([][]float64, n)}
	b.c.model, b.c.substeps, b.c.contacts, b.c.renew = m, C.int(t.skip), C.int(count(t.contacts)), C.int(t.renew)
	b.c.actuators, b.c.actuator = C.int(len(t.actuator)), ints(t.actuator)
	b.c.angles, b.c.angle = C.int(len(t.turning)), ints(t.turning)
	b.c.cos, b.c.sin = doubles(n*len(t.turning)), doubles(n*len(t.turning))
	b.c.data = (**C.mjData)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(uintptr(0)))))
	for i := range n {
		d := C.rl_make(m, &b.c.said[0])
		if d == nil {
			err := fmt.Errorf("make environment %d of %d: %s", i, n, b.said())
			return nil, errors.Join(err, b.close())
		}
		unsafe.Slice(b.c.data, n)[i] = d
		b.c.n++
		b.memos[i] = make([]float64, t.memo)
		b.view(i)
	}
	return b, nil
}

// ints returns a C copy of x. The caller frees it.
func ints(x []int) *C.int {
	p := (*C.int)(C.calloc(C.size_t(len(x)+1), C.sizeof_int))
	for i, v := range x {
		unsafe.Slice(p, len(x))[i] = C.int(v)
	}
	return p
}

// doubles returns a C array of n zeros. The caller frees it.
func doubles(n int) *C.double { return (*C.double)(C.calloc(C.size_t(n+1), C.sizeof_double)) }

// view sets physics[i] and state[i] to views of the data of environment i.
func (b *batch) view(i int) {
	m, d := b.model, at(b.c.data, i)
	view := func(p *C.mjtNum, n int) []float64 { return unsafe.Slice((*float64)(unsafe.Pointer(p)), n) }
	angles := func(p *C.double) []float64 {
		n := int(b.c.angles)
		return unsafe.Slice((*float64)(unsafe.Pointer(p)), len(b.physics)*n)[i*n : (i+1)*n]
	}
	p := physics{
		qpos: view(d.qpos, int(m.nq)), qvel: view(d.qvel, int(m.nv)), xpos: view(d.xpos, 3*int(m.nbody)),
		siteXpos: view(d.site_xpos, 3*int(m.nsite)),
		sensor:   view(d.sensordata, int(m.nsensordata)), cfrcExt: view(d.cfrc_ext, 6*int(m.nbody)),
		cos:      angles(b.c.cos),
		sin:      angles(b.c.sin),
		mocapPos: view(d.mocap_pos, 3*int(m.nmocap)), mocapQuat: view(d.mocap_quat, 4*int(m.nmocap)), memo: b.memos[i],
	}
	b.physics[i] = p
	b.state[i] = []field{
		{"time", view(&d.time, 1)}, {"qpos", p.qpos}, {"qvel", p.qvel}, {"act", view(d.act, int(m.na))},
		{"qacc_warmstart", view(d.qacc_warmstart, int(m.nv))},
		{"mocap_pos", p.mocapPos}, {"mocap_quat", p.mocapQuat}, {"xpos", p.xpos},
		{"site_xpos", p.siteXpos},
		{"sensordata", p.sensor}, {"cfrc_ext", p.cfrcExt}, {"cos", p.cos}, {"sin", p.sin}, {"memo", p.memo},
	}
}

// clear puts environment i into the model's initial state.
func (b *batch) clear(i int) { C.mj_resetData(b.model, at(b.c.data, i)) }

// begin computes the derived quantities of environment i. Call it after writing qpos and qvel.
func (b *batch) begin(i int) error {
	if C.rl_begin(b.c, C.int(i)) == 0 {
		return b.fault(i)
	}
	return nil
}

// step steps the environments whose turn is not Idle, each with its row of action. If environment i
// fails, step sets lost[i] and goes on with the next environment. The error is the SimulationError of the
// first failed environment, with the number of further failures.
func (b *batch) step(action []float32, turn []env.Turn, lost []bool) (err error) {
	more := 0
	for from := 0; from < len(turn); {
		i := int(C.rl_step(b.c, C.int(from), (*C.float)(&action[0]), (*C.uint8_t)(unsafe.Pointer(&turn[0]))))
		if i < len(turn) {
			lost[i] = true
			if f := b.fault(i); err == nil {
				err = f
			} else {
				more++
			}
		}
		from = i + 1
	}
	if more > 0 {
		return fmt.Errorf("%w, and %d more", err, more)
	}
	return err
}

// fault returns the SimulationError of environment i, and gives the environment new data.
func (b *batch) fault(i int) error {
	said, _, _ := strings.Cut(b.said(), " Time = ") // the time is already in SimulationError.Time
	f := &SimulationError{Env: i, Time: float64(b.c.time), Said: strings.TrimSuffix(said, ".")}
	if C.rl_remake(b.c, C.int(i)) == 0 {
		return fmt.Errorf("%w; make it anew: %s", f, b.said())
	}
	b.view(i)
	return f
}

func (b *batch) said() string { return C.GoString(&b.c.said[0]) }

// close frees the environments and the model.
func (b *batch) close() error {
	if b.c == nil {
		return nil
	}
	for _, d := range unsafe.Slice(b.c.data, b.c.n) {
		C.mj_deleteData(d)
	}
	unload(b.model)
	for _, p := range []unsafe.Pointer{
		unsafe.Pointer(b.c.data), unsafe.Pointer(b.c.actuator), unsafe.Pointer(b.c.angle), unsafe.Pointer(b.c.cos),
		unsafe.Pointer(b.c.sin),
		unsafe.Pointer(b.c),
	} {
		C.free(p)
	}
	b.c, b.physics, b.state = nil, nil, nil
	return nil
}
