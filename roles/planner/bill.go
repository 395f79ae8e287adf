package planner

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
)

// A Bill is what a whole job costs in a layout. Checkpoints do not count.
type Bill struct {
	Iterations  int64   `json:"iterations"`
	Evaluations int64   `json:"evaluations"`
	Seconds     float64 `json:"seconds"`
	CoreHours   float64 `json:"core_hours"` // of a core for each rank that works
}

// Bill returns the cost of a job with the work w. Each of its evaluations makes evalSteps steps of environments, at
// most. They take as long as those of rollouts. If evalSteps is 0, evaluations do not count.
func (x *Prediction) Bill(w *Work, iterations, evaluations int64, evalSteps int) Bill {
	b := Bill{Iterations: iterations, Seconds: float64(iterations) * x.Seconds}
	if steps := w.Envs * w.Steps * w.Epochs; steps > 0 && evalSteps > 0 {
		b.Evaluations = evaluations
		b.Seconds += float64(evaluations) * x.Phase(GenerateRollouts).Seconds * float64(evalSteps) / float64(steps)
	}
	b.CoreHours = b.Seconds / 3600 * float64(len(x.Layout.Nodes)-len(x.Layout.Idle()))
	return b
}

// String describes the bill in a sentence.
func (b Bill) String() string {
	evaluations := ""
	if b.Evaluations > 0 {
		evaluations = fmt.Sprintf(" and at most %s", figures.Count(int(b.Evaluations), "evaluation"))
	}
	return fmt.Sprintf("The whole job, %s%s, takes %s: %.3g core hours.", figures.Count(int(b.Iterations), "iteration"),
		evaluations, Seconds(b.Seconds), b.CoreHours)
}
