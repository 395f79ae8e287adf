package mujoco

// Indices into physics.memo, from suiteSaid on, for the sentence. It may belong to another scene.
const (
	saidOrder  = iota // number of the instruction
	saidPhrase        // number of its phrase
	saidObject        // colours of the object, of the second object, and of the zone
	saidOther
	saidZone
	saidLen
)

// noteSentence notes the sentence for l; with the perturbation other_cube, the sentence for the other cube.
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
	clear(obs)
	memo := t.memo[suiteSaid:][:saidLen]
	o := &t.orders[int(memo[saidOrder])]
	name := func(i int) string { return colors[int(memo[i])].name }
	said := obs[:0]
	for _, word := range o.phrases[int(memo[saidPhrase])] {
		switch {
		case word == "OBJECT" && o.noun == aBall:
			said = say(said, name(saidObject), "ball")
		case word == "OBJECT":
			said = say(said, name(saidObject), "cube")
		case word == "OTHER":
			said = say(said, name(saidOther), "cube")
		case word == "ZONE":
			said = say(said, name(saidZone), "zone")
		default:
			said = say(said, word)
		}
	}
}
