package planner

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestBill: ten iterations of 2 s and two evaluations, each with half as many steps as a rollout of 1 s, take 21 s. Two
// of three ranks work.
func TestBill(t *testing.T) {
	t.Parallel()
	x := &Prediction{Seconds: 2, Phases: []Phase{{GenerateRollouts, 1, ""}, {ActorTraining, 1, ""}},
		Layout: Layout{Nodes: []int{0, 0, 0}, Actor: []int{0}, Env: []int{1}, Rollout: []int{1}}}
	w := &Work{Envs: 8, Steps: 10, Epochs: 1}
	b := x.Bill(w, 10, 2, 40)
	test.Equal(t, b, Bill{Iterations: 10, Evaluations: 2, Seconds: 21, CoreHours: 21. / 3600 * 2})
	test.Equal(t, b.String(), "The whole job, 10 iterations and at most 2 evaluations, takes 21s: 0.0117 core hours.")
	test.Equal(t, x.Bill(w, 10, 2, 0).Seconds, 20)
}
