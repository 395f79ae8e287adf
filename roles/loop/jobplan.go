package loop

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A JobPlan describes a job of any task to the loop. It is the same on every rank, and does not change.
type JobPlan struct {
	*job.Job
	EnvSpec   env.Spec // the observations and actions of a training environment; zero if there are no environments
	NumParams int      // the number of trained parameters
	EnvStates bool     // checkpoints have a file with the states of environments
	MayDiffer []string // the keys of this task that may differ in a resumed run
	// BasePath is the file with the base weights of adapters, if runner.ckpt_path names one. Base weights are not
	// trained.
	BasePath string

	// Connect sets Comms, Axes and Direct in the group of a component.
	Connect func(*spmd.GroupSpec)
	// Fits returns an error if a state belongs to another job. model lists the tensors of the state's model. trainer
	// has the small tensors of the trainer's state. trainer is empty if only weights are loaded.
	Fits func(model []tensor.Field, trainer tensor.Dict) error
	// NewRecorder returns the recorder of a run with this start state. It is called on rank 0.
	NewRecorder func(f *runfolder.Folder, from StartState) Recorder
}

// A Recorder computes the metrics of a task from the reports of all ranks.
type Recorder interface {
	// Begin sets the numbers of the progress line before the first iteration.
	Begin(*metrics.RunStatus)
	// Add adds the report of one rank.
	Add(l *Logbook, r *RankReport) error
	// Added is called after Add was called for all reports of an iteration.
	Added(*metrics.RunStatus)
	// Line is called before each line, and sets the metrics that are not in the reports. It returns the name of the
	// metric for work per second, and the amount of work since the last line.
	Line(l *Logbook) (rate string, done float64, err error)
	// Timed reports whether the time of a phase is written as a metric. seconds is the time of the slowest rank.
	Timed(p Phase, seconds float64) bool
	// Score returns the score for a value of the headline metric. Higher scores are better. The score is NaN if the job
	// does not measure the policy.
	Score(value float64) float64
	// Excess returns an error if more episodes were lost than the configuration allows.
	Excess() error
	// Close closes the recorder's files.
	Close() error
}
