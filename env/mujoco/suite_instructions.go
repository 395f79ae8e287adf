package mujoco

import "strings"

// A noun is the kind of an instruction's target.
type noun uint8

const (
	aCube noun = iota
	aBall
	aZone
)

// A side tells how an instruction names its target: as the left cube, as the right cube, or by a
// colour.
type side int8

const (
	leftCube  side = -1
	byColor   side = 0
	rightCube side = 1
)

// A goal holds the indices of the objects and the zone that an instruction names. An index is 0 if
// the instruction names no such thing.
type goal struct{ object, other, zone int }

// An instruction is one of the twelve tasks of the suite.
type instruction struct {
	name     string
	phrases  [2][]string // words in training and in new_phrasing, with the placeholders OBJECT, OTHER and ZONE
	noun     noun
	side     side
	zone     bool // whether it names a zone
	other    bool // whether it names a second cube
	anyShape bool // whether cubes and the ball can be mistaken for each other
	heldOut  int  // colour that only held-out splits give the target; the constant none if there is no such colour

	done   func(t *suite, g goal) bool
	aim    func(t *suite) [3]float64                   // where the target must go
	reward func(t *suite) float64                      // reward of a step without success
	expert func(t *suite) (hand [3]float64, shut bool) // next position of the fingertips, and whether to shut them
}

// Indices into colors.
const (
	red = iota
	green
	blue
	yellow
	orange
	purple
	objectColors // number of colours of objects in training; zones may have more
	none         = -1
)

// instructions returns all instructions in the order of their indices.
func instructions() []instruction {
	twice := func(train, other string) [2][]string {
		return [2][]string{strings.Fields(train), strings.Fields(other)}
	}
	return []instruction{
		{name: "reach_cube", phrases: twice("reach the OBJECT", "to the OBJECT reach"), anyShape: true,
			heldOut: red, done: reachDone, aim: stay, reward: reachReward, expert: reachExpert},
		{name: "reach_ball", phrases: twice("reach the OBJECT", "to the OBJECT reach"), noun: aBall, anyShape: true,
			heldOut: green, done: reachDone, aim: stay, reward: reachReward, expert: reachExpert},
		{name: "push_zone", phrases: twice("push the OBJECT to the ZONE", "to the ZONE push the OBJECT"), zone: true,
			heldOut: blue, done: pushZoneDone, aim: toZone, reward: pushReward, expert: suitePushExpert},
		{name: "pick_color", phrases: twice("pick up the OBJECT", "pick the OBJECT up"),
			heldOut: yellow, done: pickDone, aim: stay, reward: (*suite).pickReward, expert: (*suite).pickExpert},
		{name: "put_zone", phrases: twice("put the OBJECT on the ZONE", "on the ZONE put the OBJECT"), zone: true,
			heldOut: orange, done: putZoneDone, aim: toZone, reward: placeReward, expert: placeExpert},
		{name: "reach_zone", phrases: twice("reach the ZONE", "to the ZONE reach"), noun: aZone, zone: true,
			heldOut: none, done: reachZoneDone, aim: stay, reward: reachReward, expert: reachExpert},
		{name: "push_left", phrases: twice("push the OBJECT to the left", "to the left push the OBJECT"),
			heldOut: purple, done: pushLeftDone, aim: toLeft, reward: pushReward, expert: suitePushExpert},
		{name: "push_right", phrases: twice("push the OBJECT to the right", "to the right push the OBJECT"),
			heldOut: red, done: pushRightDone, aim: toRight, reward: pushReward, expert: suitePushExpert},
		{name: "pick_left", phrases: twice("pick up the left cube", "pick the left cube up"), side: leftCube,
			heldOut: none, done: pickDone, aim: stay, reward: (*suite).pickReward, expert: (*suite).pickExpert},
		{name: "pick_right", phrases: twice("pick up the right cube", "pick the right cube up"), side: rightCube,
			heldOut: none, done: pickDone, aim: stay, reward: (*suite).pickReward, expert: (*suite).pickExpert},
		{name: "put_beside", phrases: twice("put the OBJECT beside the OTHER", "beside the OTHER put the OBJECT"),
			other: true, heldOut: green, done: besideDone, aim: toBeside, reward: placeReward, expert: placeExpert},
		{name: "stack", phrases: twice("stack the OBJECT on the OTHER", "on the OTHER stack the OBJECT"),
			other: true, heldOut: blue, done: stackDone, aim: ontoOther, reward: placeReward, expert: placeExpert},
	}
}

// Indices of the instructions that name a cube by its side. The perturbation other_cube exchanges
// their sentences.
const (
	orderPickLeft  = 8
	orderPickRight = 9
)

func (t *suite) orderNames() []string {
	var names []string
	for _, o := range t.orders {
		names = append(names, o.name)
	}
	return names
}

// named returns the index of o's target in g. The target is an object or a zone.
func (o *instruction) named(g goal) int {
	if o.noun == aZone {
		return g.zone
	}
	return g.object
}

// instead returns g with object or zone i in place of the target of o.
func (o *instruction) instead(g goal, i int) goal {
	if o.noun == aZone {
		g.zone = i
		return g
	}
	if i == g.other {
		g.other = g.object
	}
	g.object = i
	return g
}
