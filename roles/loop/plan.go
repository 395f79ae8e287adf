package loop

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// A Plan is what a run needs to know of its task. It is the same on every rank, and does not change.
type Plan interface {
	// Common returns the part that no task owns.
	Common() *job.Job
	// EnvSpec returns what one training environment shows and takes; nothing where there are none.
	EnvSpec() env.Spec
	// NumParams returns the number of parameters that are trained.
	NumParams() int
	// Comms returns the purposes of the communicators between the members of a component, and the components
	// whose members they send messages to.
	Comms(component string) (comms, direct []string)
	// Environments returns how many environments training has, and whether checkpoints hold their states.
	Environments() (n int, saved bool)
	// MayDiffer returns the keys that may differ in a resumed run of this task, beside those of every task.
	MayDiffer() []string
	// ReadWeights reads the file of weights runner.ckpt_path. Where the file has another part of the model than
	// what is trained, whole is false, and d is empty.
	ReadWeights(path string) (d tensor.Dict, whole bool, err error)
	// Fits checks that a state, or weights alone, are of this job's model and data.
	Fits(member.State) error
	// NewRecorder returns what makes the metrics of a run that starts from a state, on rank 0.
	NewRecorder(f *runfolder.Folder, from StartState) Recorder
}

// A Recorder makes the metrics of a task from the reports of all ranks.
type Recorder interface {
	// Begin fills in what the progress line shows of a run that has not begun.
	Begin(*metrics.State)
	// Add takes the report of a rank.
	Add(l *Logbook, r *Report) error
	// Added is called when the reports of all ranks of an iteration were added.
	Added(*metrics.State)
	// Line sets the metrics of a line that reports do not name. It returns the name of the rate per second, and how
	// much was done since the last line.
	Line(l *Logbook) (rate string, done float64, err error)
	// Timed reports whether the time of a phase is a metric, which took the slowest rank so many seconds.
	Timed(p Phase, seconds float64) bool
	// Score returns how good a policy with that value of training or evaluation is; NaN where it is not known.
	Score(value float64) float64
	// Excess returns an error if more was lost than may be.
	Excess() error
}
