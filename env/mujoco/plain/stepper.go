//go:build mujoco

package plain

/*
#cgo LDFLAGS: -lmujoco
#include <stdlib.h>
#include <mujoco/mujoco.h>

typedef struct { mjModel *m; mjData **d; int n, skip, contacts; } loop;

static int loop_open(loop *l, const char *file, char *why, int size) {
	l->m = mj_loadXML(file, NULL, why, size);
	if (!l->m) return 0;
	l->d = calloc(l->n, sizeof *l->d);
	for (int i = 0; i < l->n; i++) l->d[i] = mj_makeData(l->m);
	return 1;
}

static void loop_place(loop *l, int i, const double *qpos, const double *qvel) {
	mj_resetData(l->m, l->d[i]);
	mju_copy(l->d[i]->qpos, qpos, l->m->nq);
	mju_copy(l->d[i]->qvel, qvel, l->m->nv);
	mj_forward(l->m, l->d[i]);
}

// action [steps, n, nu]; out [n, nq + nv]: positions and velocities, which every step overwrites
static void loop_run(loop *l, int steps, const float *action, float *out) {
	const mjModel *m = l->m;
	for (int t = 0; t < steps; t++)
		for (int i = 0; i < l->n; i++) {
			mjData *d = l->d[i];
			for (int k = 0; k < m->nu; k++) d->ctrl[k] = *action++;
			for (int s = 0; s < l->skip; s++) mj_step(m, d);
			if (l->contacts) mj_rnePostConstraint(m, d);
			float *o = out + i * (m->nq + m->nv);
			for (int k = 0; k < m->nq; k++) *o++ = d->qpos[k];
			for (int k = 0; k < m->nv; k++) *o++ = d->qvel[k];
		}
}

static void loop_close(loop *l) {
	for (int i = 0; i < l->n; i++) mj_deleteData(l->d[i]);
	mj_deleteModel(l->m);
	free(l->d);
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// A Stepper simulates n environments of one model, without a task.
type Stepper struct {
	c   C.loop
	out []float32
}

// Open reads the model in file, and makes n environments. The argument skip is the number of simulation steps in a
// step. If contacts is true, a step also computes contact forces.
func Open(file string, n, skip int, contacts bool) (*Stepper, error) {
	name, why := C.CString(file), (*C.char)(C.calloc(1, 1000))
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(why))
	l := &Stepper{c: C.loop{n: C.int(n), skip: C.int(skip)}}
	if contacts {
		l.c.contacts = 1
	}
	c := l.c
	if C.loop_open(&c, name, why, 1000) == 0 {
		return nil, fmt.Errorf("load model %s: %s", file, C.GoString(why))
	}
	l.c, l.out = c, make([]float32, n*int(c.m.nq+c.m.nv))
	return l, nil
}

// Place sets the state of environment i.
func (l *Stepper) Place(i int, qpos, qvel []float64) {
	c := l.c
	C.loop_place(&c, C.int(i), (*C.double)(&qpos[0]), (*C.double)(&qvel[0]))
}

// Run takes one step for each row of action, [steps, n, actuators]. It returns the positions and
// velocities after the last step, [n, nq + nv], which the next Run overwrites.
func (l *Stepper) Run(steps int, action []float32) []float32 {
	c := l.c
	C.loop_run(&c, C.int(steps), (*C.float)(&action[0]), (*C.float)(&l.out[0]))
	return l.out
}

// Close frees the environments and the model.
func (l *Stepper) Close() {
	c := l.c
	C.loop_close(&c)
}
