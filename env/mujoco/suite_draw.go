package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
)

const suiteThings = tableThings + 1 // the objects, the zones and the third cube

// A layout is a scene drawn at random.
type layout struct {
	order int
	goal
	at     [suiteThings][2]float64 // positions of objects, zones and the third cube
	half   [suiteObjects]float64   // half of each object's rotation angle about z, in radians
	colors [suiteThings]int
	hand   [handJoints]float64
}

// The random streams of an episode. They all have the same key.
const (
	streamScene    = iota // the scene
	streamChange          // the change that the split makes
	streamSentence        // a second scene; a perturbed sentence belongs to it
	streamStandIn         // a third scene, the stand-in that perturbed pictures show
	streamNoise           // noise in pictures; the step is the stream's counter
)

// begin writes the initial state of an episode.
func (t *suite) begin(r *philox.Stream) {
	key := r.Uint64()
	stream := func(i uint64) *philox.Stream {
		s := philox.New(key, philox.Reset, i, 0)
		return &s
	}
	t.tallyUp()
	clear(t.memo[:suiteLen])
	t.memo[suiteKey], t.memo[suiteBright], t.memo[suiteThird] = float64(uint32(key)), 1, -1
	what, changes := noChange, stream(streamChange)
	if n := len(t.split.changes); n > 0 {
		what = t.split.changes[changes.IntN(n)]
	}
	l := t.draw(stream(streamScene), what)
	t.install(&l, what == third)
	t.change(what, changes)
	said := l
	if t.perturb == perturbOtherSentence || t.perturb == perturbShuffled {
		said = t.draw(stream(streamSentence), what)
	}
	t.noteSentence(&said)
	if t.perturb == perturbShuffled {
		l = t.draw(stream(streamStandIn), what)
		t.keepStandIn(&l)
	}
}

// install writes the scene l into the physics and the memo. If visible is false, it puts the third
// cube out of sight.
func (t *suite) install(l *layout, visible bool) {
	for i := range suiteObjects {
		at, height := l.at[thingOf(i)], cubeHalf+1e-4
		if i == thirdCube && !visible {
			at, height = [2]float64{0, 2}, -2 // out of sight
		}
		lay(t.qpos[robotJoints+7*i:], at, height, l.half[i])
		copy(t.start(i), at[:])
	}
	for i := range tableZones {
		copy(t.zone(i), l.at[tableObjects+i][:])
	}
	copy(t.qpos, l.hand[:])
	copy(t.memo[memoTarget:], l.hand[:])
	t.memo[memoGrip] = -1
	t.memo[memoObject], t.memo[suiteOther], t.memo[memoZone] = float64(l.object), float64(l.other), float64(l.zone)
	t.memo[suiteOrder] = float64(l.order)
	for i, c := range l.colors[:tableThings] {
		t.memo[memoColor+i] = float64(c)
	}
	if visible {
		t.memo[suiteThird] = float64(l.colors[tableThings])
	}
}

// thingOf returns the index of an object in the arrays of a layout, where the third cube comes
// last.
func thingOf(object int) int {
	if object == thirdCube {
		return tableThings
	}
	return object
}

// draw draws a scene of the split. It draws the positions again until they fit; see layout.fits.
func (t *suite) draw(r *philox.Stream, what change) layout {
	var l layout
	l.order = pickWeighted(r, t.chances())
	o := &t.orders[l.order]
	if o.noun == aBall {
		l.object = tableObjects - 1
	} else if o.noun == aCube {
		l.object = r.IntN(tableCubes)
		l.other = 1 - l.object
	}
	l.zone = r.IntN(tableZones)
	for free := false; !free; {
		l.scatter(r, o, what)
		free = l.fits(o, what)
	}
	for i := range l.half {
		l.half[i] = r.Uniform(-0.15, 0.15)
	}
	l.hand = [handJoints]float64{r.Uniform(-0.05, 0.05), r.Uniform(-0.05, 0.05), 0.05}
	if what == handStart {
		angle := r.Uniform(0, 2*math.Pi)
		l.hand = [handJoints]float64{0.15 * math.Cos(angle), 0.15 * math.Sin(angle), r.Uniform(0, 0.1)}
	}
	t.colour(r, &l, o)
	return l
}

// pickWeighted draws an index with probabilities proportional to weights.
func pickWeighted(r *philox.Stream, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at, last := r.Uniform(0, sum), 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if at -= w; at < 0 {
			return i
		}
		last = i
	}
	return last
}

const (
	areaX, areaY = 0.17, 0.15 // half the sides of the area for objects and zones in training
	ringX, ringY = 0.20, 0.18 // half the sides of the ring around it
)

// scatter draws the positions of all objects and zones.
func (l *layout) scatter(r *philox.Stream, o *instruction, what change) {
	meant := l.thing(o)
	for i := range l.at {
		x, y := areaX, areaY
		if what == ring && i == meant {
			x, y = ringX, ringY
		}
		l.at[i] = [2]float64{r.Uniform(-x, x), r.Uniform(-y, y)}
	}
}

// thing returns the index of o's target in the arrays of l.
func (l *layout) thing(o *instruction) int {
	if o.noun == aZone {
		return tableObjects + l.zone
	}
	return l.object
}

// fits reports whether all objects and zones are far enough apart and their positions fit the
// instruction.
func (l *layout) fits(o *instruction, what change) bool {
	things := l.at[:]
	if what != third {
		things = things[:tableThings]
	}
	for i := range things {
		least := 0.09
		if i >= tableObjects && i < tableThings {
			least = 0.12
		}
		for j := range i {
			if apart(things[i][:], things[j][:]) < least {
				return false
			}
		}
	}
	if at := things[l.thing(o)]; what == ring && math.Abs(at[0]) <= areaX && math.Abs(at[1]) <= areaY {
		return false
	}
	if o.side == byColor {
		return true
	}
	// the target is clearly on its side of the other cube (left is +x), and the third cube is
	// between them
	meant, other, between := l.at[l.object][0], l.at[l.other][0], l.at[tableThings][0]
	ahead := -float64(o.side) * (meant - other)
	return ahead >= 0.06 && (what != third || between > min(meant, other)+0.02 && between < max(meant, other)-0.02)
}

// colour draws distinct colours for all objects and zones. The split determines the possible
// colours of the target object. Other objects get colours of training. Zones get any colour.
func (t *suite) colour(r *philox.Stream, l *layout, o *instruction) {
	var taken [len(colors)]bool
	take := func(thing int, fits func(c int) bool) {
		var free [len(colors)]int
		n := 0
		for c := range taken {
			if !taken[c] && fits(c) {
				free[n] = c
				n++
			}
		}
		c := free[r.IntN(n)]
		l.colors[thing], taken[c] = c, true
	}
	trained := func(c int) bool { return c < objectColors }
	if o.noun != aZone {
		take(thingOf(l.object), func(c int) bool {
			switch {
			case t.split.heldOut:
				return c == o.heldOut
			case t.split.role:
				return c >= objectColors
			}
			return c < objectColors && c != o.heldOut
		})
	}
	for i := range tableObjects {
		if o.noun == aZone || i != l.object {
			take(i, trained)
		}
	}
	for i := range tableZones {
		take(tableObjects+i, func(int) bool { return true })
	}
	take(tableThings, trained)
}
