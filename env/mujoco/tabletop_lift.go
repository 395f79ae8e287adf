package mujoco

import (
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// TabletopLift makes TabletopLift-v1, for learning from images with a sparse reward: the hand must lift the centre of
// the red cube more than 8 cm above the table, in 60 steps. Its default observations are image and proprio.
//
//	reward = 1 for a success, and 0 otherwise
//
// A seed determines the position of the red cube, within ±6 cm of the table's centre along x and y. The hand, the other
// things and all colours are the same in every episode.
func TabletopLift(cfg env.Config, n int) (env.Vec, error) {
	return tabletopTask{
		name: "TabletopLift-v1", limit: 60, objects: 1, sentence: strings.Fields("pick up the OBJECT"),
		shown: []string{"image", "proprio"}, draw: (*scene).drawLift,
		done:   func(s *scene, object int) bool { return s.object(object)[2] > pickLift },
		reward: func(*scene) float64 { return 0 }, expert: (*scene).pickExpert,
	}.environments(cfg, n)
}

const liftArea = 0.06 // m: half a side of the square in which the red cube lies

// drawLift writes an initial state of TabletopLift. The things get their colours in the order of the list colors, so
// the cube is red.
func (s *scene) drawLift(r *philox.Stream) {
	s.arrange([tableThings][2]float64{
		{r.Uniform(-liftArea, liftArea), r.Uniform(-liftArea, liftArea)},
		{-0.15, -0.12}, {0.15, -0.12}, {-0.15, 0.12}, {0.15, 0.12},
	})
}

// arrange writes an initial state with the things at the given positions, the hand above the table's centre, and the
// first object and zone as targets.
func (s *scene) arrange(at [tableThings][2]float64) {
	for i := range tableObjects {
		lay(s.qpos[robotJoints+7*i:], at[i], cubeHalf+1e-4, 0)
	}
	for i := range tableZones {
		copy(s.zone(i), at[tableObjects+i][:])
	}
	s.qpos[2] = 0.05
	clear(s.memo)
	copy(s.memo[memoTarget:], s.qpos[:handJoints])
	s.memo[memoGrip] = -1
	for i := range tableThings {
		s.memo[memoColor+i] = float64(i)
	}
}
