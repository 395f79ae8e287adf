package mujoco

// What physics.memo keeps of the sentence, from suiteSaid on. It may be that of another scene.
const (
	saidOrder  = iota // the instruction
	saidPhrase        // which of its phrases
	saidObject        // the colour of the object, of the second object, and of the zone
	saidOther
	saidZone
	saidLen
)

// tell notes the sentence for l. With perturb other_cube it is that for the other cube.
func (t *suite) tell(l *layout) {
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

// text writes the bytes of the sentence.
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
