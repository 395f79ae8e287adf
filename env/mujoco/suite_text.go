package mujoco

// Indices into physics.memo, relative to suiteSaid. The numbers there describe the sentence. A perturbed sentence
// belongs to another scene than the simulated one.
const (
	saidOrder  = iota // index of the instruction
	saidPhrase        // index of its phrase
	saidObject        // colours of the object, of the second object, and of the zone
	saidOther
	saidZone
	saidLen
)

// noteSentence stores the sentence for l. With the perturbation other_cube, the sentence names the
// other cube.
func (t *suite) noteSentence(l *layout) {
	said := t.memo[suiteSaid:][:saidLen]
	g, order := l.goal, l.order
	if t.perturb == perturbOtherCube {
		g.object, g.other = g.other, g.object
		switch order {
		case orderPickLeft:
			order = orderPickRight
		case orderPickRight:
			order = orderPickLeft
		}
	}
	said[saidOrder], said[saidPhrase] = float64(order), count(t.split.phrased)
	said[saidObject] = float64(l.colors[thingOf(g.object)])
	said[saidOther] = float64(l.colors[thingOf(g.other)])
	said[saidZone] = float64(l.colors[tableObjects+g.zone])
}

// text writes the sentence as bytes.
func (t *suite) text(obs []float64) {
	said := t.memo[suiteSaid:][:saidLen]
	o := &t.orders[int(said[saidOrder])]
	name := func(i int) string { return colors[int(said[i])].name }
	w := wording{object: name(saidObject), kind: "cube", other: name(saidOther), zone: name(saidZone)}
	if o.noun == aBall {
		w.kind = "ball"
	}
	w.write(o.phrases[int(said[saidPhrase])], obs)
}
