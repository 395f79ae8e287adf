package mujoco

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// The tabletop is a hand with two fingers above a table with two cubes, a ball and two coloured zones. A seed
// determines their positions and colours, and the target object and the target zone of the task. The code also says
// "meant" for "target".
//
// An action is four numbers, clipped to ±1. The first three move the commanded position of the hand by up to 2 cm along
// x, y and z. The commanded position stays within 4 cm of the hand. The fourth closes the fingers if it is > 0, and
// opens them otherwise. A step lasts 0.05 s.
//
// env.Config.Observations selects the observations and their order. Lengths are in dm and
// velocities in dm/s, so that most numbers are about 1:
//
//	state        the default of most tasks, 43 numbers: proprio (8); velocity of the hand (3); for each object, its
//	             position (3) and the cosine and sine of its rotation about z; for each zone, x and y;
//	             one-hot codes of the target object (3) and the target zone (2); the vector from the
//	             hand to the target object (3); the vector from the target object to the target zone
//	             (2); velocity of the target object (3). Numbers about the target zone are 0 if the
//	             task has none
//	proprio      8 numbers: position of the point between the fingertips (3), mean distance of the
//	             fingers from their shut position, last command to the fingers (±1), vector from the
//	             hand to its commanded position (3)
//	image        U8 [64, 64, 3], from the camera in front, which shows the colours
//	text         U8 [128]: the sentence of the observation instruction in UTF-8, padded with 0
//	instruction  I32 [12]: tokens of a sentence such as "push the red cube to the green zone", padded
//	             with 0; see Sentence
//
// The figures of a step are success and wrong_object. A step is a success if the task is done for the second step in a
// row. A step has wrong_object if the task is done with another object for the second step in a row. Both figures end
// the episode. The reward of a step is 1 for a success, and at most 1 otherwise. With env.Config.IgnoreTerminations,
// each further successful step also has reward 1. Without it, no rewards follow a success, so success pays only with
// RewardOnlySuccess, or in TabletopLift, whose other rewards are 0.

// A tabletopTask defines one task on the table.
type tabletopTask struct {
	name     string
	limit    int      // steps of an episode
	objects  int      // number of possible targets, which come first in the list of objects
	zone     bool     // whether the task has a target zone
	sentence []string // the instruction, with the placeholders OBJECT and ZONE
	shown    []string // default observations; nil: the first of scene.views

	draw   func(s *scene, r *philox.Stream)            // writes an initial state
	done   func(s *scene, object int) bool             // whether the task is done with the given object
	reward func(s *scene) float64                      // reward of a step without success
	expert func(s *scene) (hand [3]float64, shut bool) // next position of the fingertips, and whether to shut them
}

// environments makes n environments of t.
func (t tabletopTask) environments(cfg env.Config, n int) (env.Vec, error) {
	shown := cfg.Observations
	if len(shown) == 0 {
		shown = t.shown
	}
	cfg.Observations = nil
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	s := &scene{task: t}
	views, err := chooseViews(t.name, shown, s.views())
	if err != nil {
		return nil, err
	}
	return newVec(embedded(t.name, "tabletop.xml"), func(m *model) (task, error) {
		s.find(m)
		return t.on(s, views), nil
	}, cfg, n)
}

// chooseViews returns the views with the given names, in this order. Without names, it returns the first view. Errors
// begin with id, the environment's name.
func chooseViews(id string, names []string, all []view) (chosen []view, err error) {
	if len(names) == 0 {
		return all[:1], nil
	}
	for i, name := range names {
		at := slices.IndexFunc(all, func(v view) bool { return v.name == name })
		if at < 0 || slices.Contains(names[:i], name) {
			var known []string
			for _, v := range all {
				known = append(known, v.name)
			}
			last := len(known) - 1
			return nil, fmt.Errorf("%s: observations.%d: %q, expected %s or %s, each once", id, i, name,
				strings.Join(known[:last], ", "), known[last])
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// on returns t as a task on the scene s with the given observations.
func (t tabletopTask) on(s *scene, views []view) task {
	return task{
		skip: 10, limit: t.limit, actuator: s.model.all(), renew: positions,
		info: []string{env.Success, env.WrongObject}, memo: memoLen, views: views,
		reset: func(r *philox.Stream, p *physics) { t.draw(s.at(p), r) },
		step: func(p *physics, _ []float32, _ []float64, info []float32) (float64, bool) {
			success, wrong := s.at(p).judge()
			info[0], info[1] = float32(count(success)), float32(count(wrong))
			if success {
				return 1, true
			}
			return t.reward(s), wrong
		},
		commands: handJoints + 1,
		control:  func(p *physics, action, ctrl []float32) { s.at(p).command(action, ctrl) },
		paint:    func(p *physics, colour []float32) { s.at(p).paint(colour) },
		expert: func(p *physics, action []float32) {
			to, shut := t.expert(s.at(p))
			s.steer(action, to, shut)
		},
	}
}
