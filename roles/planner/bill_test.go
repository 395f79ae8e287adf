package planner

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestBill: ten iterations of 2 s and two evaluations, each with half as many steps as a rollout of 1 s, take 21 s. Two
// of three ranks work.
func TestBill(t *testing.T) {
	t.Parallel()
	x := &Prediction{Seconds: 2, Phases: []PhaseEstimate{{GenerateRollouts, 1, ""}, {ActorTraining, 1, ""}},
		Layout: Placement{Nodes: []int{0, 0, 0}, Actor: []int{0}, Env: []int{1}, Rollout: []int{1}}}
	w := &Workload{Envs: 8, Steps: 10, Epochs: 1}
	m := &Machine{Disk: Link{Latency: 0.25, PerByte: 0.125}}
	n := Length{Iterations: 10, Evaluations: 2, EvalSteps: 40}
	b := x.Bill(m, w, n)
	test.Equal(t, b, Bill{Iterations: 10, Evaluations: 2, Seconds: 21, CoreHours: 21. / 3600 * 2})
	test.Equal(t, b.String(),
		"The whole job (10 iterations, at most 2 evaluations) takes 21s: 0.0117 core hours.")
	n.EvalSteps = 0
	test.Equal(t, x.Bill(m, w, n).Seconds, 20)
	w.ModelBytes, w.Actors, w.Bytes.Replay, n.Checkpoints = 2, 3, 4, 2 // 18 bytes, 2.5 s
	b = x.Bill(m, w, n)
	test.Equal(t, b.Seconds, 25)
	test.Equal(t, b.Jobs(), "10 iterations, 2 checkpoints")
}
