package mujoco

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// The tabletop is a hand with two fingers above a table with two cubes, a ball and two coloured zones. A seed
// determines their places and colours. It also determines which object and which zone are meant, that is, which ones
// the task is about.
//
// An action is four numbers, clipped to ±1. Three move the commanded position of the hand by up to 2 cm along x, y
// and z; this position stays within 4 cm of the hand. The fourth closes the fingers if it is > 0, and opens them
// otherwise. A step lasts 0.05 s.
//
// env.Config.Observations selects the observations and their order. Lengths are in dm and
// velocities in dm/s, so that most numbers are about 1:
//
//	state        the default, 43 numbers: proprio; velocity of the hand (3); of each object position
//	             (3), cosine and sine of its turn about z; of each zone x and y; one-hot codes of the
//	             object (3) and the zone (2) that are meant; the vector from the hand to the object
//	             meant (3), and from there to the zone meant (2); velocity of the object meant (3).
//	             Without a zone in the task, numbers about it are 0
//	proprio      8 numbers: position between the fingertips, mean distance of the fingers from their
//	             shut position, the last command to them (±1), the vector from the hand to its
//	             commanded position
//	image        U8 [64, 64, 3], from the camera in front, the things in their colours
//	text         U8 [128]: the sentence of instruction in UTF-8, padded with 0
//	instruction  12 tokens, I32, of a sentence such as "push the red cube to the green zone", padded
//	             with 0: see Sentence
//
// The figures of a step are success and wrong_object. success: the task is done for the second step in a row.
// wrong_object: the same with another object, which is a failure. Both end the episode. Rewards are at most 1 in a
// step, and 1 after success. With env.Config.IgnoreTerminations, each further step in success has this reward, too.
// Otherwise success ends the episode and its rewards, so it pays only with RewardOnlySuccess.

// A tabletopTask describes one task on the table.
type tabletopTask struct {
	name     string
	limit    int      // steps of an episode
	objects  int      // number of objects that can be meant, counted from the first
	zone     bool     // a zone is meant, too
	sentence []string // the instruction; OBJECT and ZONE are placeholders

	done   func(s *scene, object int) bool             // success with the given object
	reward func(s *scene) float64                      // reward of a step without success
	expert func(s *scene) (hand [3]float64, shut bool) // the next place for the fingertips
}

// environments makes n environments of t.
func (t tabletopTask) environments(cfg env.Config, n int) (env.Vec, error) {
	shown := cfg.Observations
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

// chooseViews returns the views in names, in the same order. If names is empty, it returns the first view. The argument
// id is the environment's name.
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

// on returns t as a task of s with the observations views.
func (t tabletopTask) on(s *scene, views []view) task {
	return task{
		skip: 10, limit: t.limit, actuator: s.model.all(), renew: positions,
		info: []string{env.Success, env.WrongObject}, memo: memoLen, views: views,
		reset: func(r *philox.Stream, p *physics) { s.at(p).draw(r) },
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
