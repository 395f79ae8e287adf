//go:build mujoco

package plain

/*
#include <math.h>
#include <stdlib.h>
#include <mujoco/mujoco.h>

// geom [height, width]: the geom that the ray through the centre of each pixel hits, or -1
static int see(const char *file, int width, int height, int *geom, char *why, int size) {
	mjModel *m = mj_loadXML(file, NULL, why, size);
	if (!m) return 0;
	mjData *d = mj_makeData(m);
	mj_forward(m, d);
	double tall = 2 * tan(m->cam_fovy[0] * mjPI / 360) / height;
	for (int i = 0; i < width * height; i++) {
		mjtNum local[3] = {(i % width + 0.5 - width / 2.0) * tall, (height / 2.0 - i / width - 0.5) * tall, -1}, ray[3];
		mju_rotVecMat(ray, local, d->cam_xmat);
		mj_ray(m, d, d->cam_xpos, ray, NULL, 1, -1, geom + i);
	}
	mj_deleteData(d);
	mj_deleteModel(m);
	return 1;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// See returns, for each pixel of a picture, the index of the geom that the pixel shows, or -1 for none. The picture has
// the shape [height, width], and is taken by the first camera of the model in file. See uses MuJoCo's own ray
// intersections.
func See(file string, width, height int) ([]int32, error) {
	name, why := C.CString(file), (*C.char)(C.calloc(1, 1000))
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(why))
	geom := make([]int32, width*height)
	if C.see(name, C.int(width), C.int(height), (*C.int)(&geom[0]), why, 1000) == 0 {
		return nil, fmt.Errorf("load model %s: %s", file, C.GoString(why))
	}
	return geom, nil
}
