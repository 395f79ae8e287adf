package planner

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
)

// A Length has the numbers of iterations, evaluations and checkpoints of a whole job.
type Length struct {
	Iterations  int64
	Evaluations int64
	EvalSteps   int // steps of environments in an evaluation, at most; 0 if this is unknown
	Checkpoints int64
}

// A Bill is what a whole job costs in a layout.
type Bill struct {
	Iterations  int64   `json:"iterations"`
	Evaluations int64   `json:"evaluations"` // that Seconds counts
	Checkpoints int64   `json:"checkpoints"`
	Seconds     float64 `json:"seconds"`
	CoreHours   float64 `json:"core_hours"` // of a core for each rank that works
}

// Bill returns the cost of a job with the work w on m. Steps of evaluations take as long as those of rollouts. A
// checkpoint has the weights, twice as many moments of the optimiser, and the replay buffers.
func (x *Prediction) Bill(m *Machine, w *Workload, n Length) Bill {
	b := Bill{Iterations: n.Iterations, Checkpoints: n.Checkpoints, Seconds: float64(n.Iterations) * x.Seconds}
	if steps := w.Envs * w.Steps * w.Epochs; steps > 0 && n.EvalSteps > 0 {
		b.Evaluations = n.Evaluations
		b.Seconds += float64(n.Evaluations) * x.Phase(GenerateRollouts).Seconds * float64(n.EvalSteps) / float64(steps)
	}
	bytes := 3*w.ModelBytes + 3*w.CriticBytes + int64(w.Actors)*w.Bytes.Replay
	b.Seconds += float64(n.Checkpoints) * m.Disk.Time(float64(bytes))
	b.CoreHours = b.Seconds / 3600 * float64(len(x.Layout.Nodes)-len(x.Layout.Idle()))
	return b
}

// Jobs describes in words what the bill counts.
func (b Bill) Jobs() string {
	text := figures.Count(int(b.Iterations), "iteration")
	if b.Evaluations > 0 {
		text += fmt.Sprintf(", at most %s", figures.Count(int(b.Evaluations), "evaluation"))
	}
	if b.Checkpoints > 0 {
		text += fmt.Sprintf(", %s", figures.Count(int(b.Checkpoints), "checkpoint"))
	}
	return text
}

// String describes the bill in a sentence.
func (b Bill) String() string {
	return fmt.Sprintf("The whole job (%s) takes %s: %.3g core hours.", b.Jobs(), Seconds(b.Seconds), b.CoreHours)
}
