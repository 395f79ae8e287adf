package mujoco

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
)

const (
	eye         = 0  // the mocap body that holds the camera in front
	noiseLevels = 32 // of 255
)

// tableColors are the colours of the table. Training uses the first one.
var tableColors = [...][3]float32{{0.76, 0.70, 0.62}, {0.35, 0.45, 0.55}, {0.45, 0.33, 0.25}, {0.62, 0.72, 0.62}}

// change applies one of the split's changes to the initial state of an episode.
func (t *suite) change(what change, r *philox.Stream) {
	switch what {
	case brightness:
		t.memo[suiteBright] = 0.7
		if r.IntN(2) > 0 {
			t.memo[suiteWhite] = 0.3 * 255
		}
	case tableColor:
		t.memo[suiteTable] = float64(1 + r.IntN(len(tableColors)-1))
	case pictureNoise:
		t.memo[suiteNoise] = noiseLevels
	case movedCamera:
		t.moveCamera(r)
	case moved:
		t.memo[suiteMoveAt], t.memo[suiteMoveTo] = float64(3+r.IntN(6)), r.Uniform(0, 2*math.Pi)
	}
}

// moveCamera moves the camera in front by 2 cm and turns it by 3°.
func (t *suite) moveCamera(r *philox.Stream) {
	way, axis := direction3(r), direction3(r)
	half := 1.5 * math.Pi / 180
	for i := range way {
		t.mocapPos[3*eye+i] += 0.02 * way[i]
		t.mocapQuat[4*eye+1+i] = math.Sin(half) * axis[i]
	}
	t.mocapQuat[4*eye] = math.Cos(half)
}

// direction3 draws a unit vector.
func direction3(r *philox.Stream) [3]float64 {
	z, angle := r.Uniform(-1, 1), r.Uniform(0, 2*math.Pi)
	s := math.Sqrt(1 - z*z)
	return [3]float64{s * math.Cos(angle), s * math.Sin(angle), z}
}

// disturb moves the target by 5 cm, in the direction drawn for the episode. If the new place is not
// free, it tries other directions. The target stays if no direction is possible, or if the hand is
// already at the target.
func (t *suite) disturb() {
	const far, directions = 0.05, 16
	zone := t.order().noun == aZone
	from := t.target()
	if !zone && (apart(t.hand(), from) < 0.06 && t.hand()[2] < 0.09) {
		return // the hand is at the target
	}
	for i := range directions {
		angle := t.memo[suiteMoveTo] + float64(i)*2*math.Pi/directions
		to := []float64{from[0] + far*math.Cos(angle), from[1] + far*math.Sin(angle)}
		if math.Abs(to[0]) > areaX || math.Abs(to[1]) > areaY || !t.free(to, zone) {
			continue
		}
		if zone {
			copy(t.zone(t.meantZone()), to)
			return
		}
		copy(t.qpos[robotJoints+7*t.meant():], to)
		copy(t.start(t.meant()), to)
		return
	}
}

// free reports whether the target can be moved to the given position. Set zone if the target is a
// zone.
func (t *suite) free(position []float64, zone bool) bool {
	if zone {
		return apart(position, t.zone(1-t.meantZone())) > 0.11
	}
	for i := range suiteObjects {
		if i != t.meant() && apart(position, t.object(i)) < 0.08 {
			return false
		}
	}
	return apart(position, t.hand()) > 0.07 || t.hand()[2] > 0.09
}

// paint writes the colours of the objects, the zones and the table.
func (t *suite) paint(colour []float32) {
	t.scene.paint(colour)
	copy(colour[t.table:], tableColors[int(t.memo[suiteTable])][:])
	cube := colour[t.geoms[tableThings]:][:4]
	cube[3] = float32(count(t.memo[suiteThird] >= 0))
	if cube[3] > 0 {
		copy(cube, colors[int(t.memo[suiteThird])].rgb[:])
	}
}

// develops reports whether develop may change pictures.
func (t *suite) develops() bool {
	return t.perturb == perturbBlackImage || slices.Contains(t.split.changes, brightness) ||
		slices.Contains(t.split.changes, pictureNoise)
}

// develop applies brightness, noise or blackness to the picture of the observation with the index
// view.
func (t *suite) develop(view int, rgb []byte) {
	if t.perturb == perturbBlackImage {
		clear(rgb)
		return
	}
	if bright, white := t.memo[suiteBright], t.memo[suiteWhite]; bright != 1 {
		for i, x := range rgb {
			rgb[i] = byte(bright*float64(x) + white + 0.5)
		}
	}
	if t.memo[suiteNoise] > 0 {
		r := philox.New(uint64(t.memo[suiteKey]), philox.Reset, streamNoise+uint64(view), uint64(t.memo[suiteClock]))
		for i := 0; i+4 <= len(rgb); i += 4 {
			bits := r.Uint32()
			for k := range 4 {
				off := int(bits>>(8*k)&(2*noiseLevels-1)) - noiseLevels
				rgb[i+k] = byte(min(max(int(rgb[i+k])+off, 0), 255))
			}
		}
	}
}
