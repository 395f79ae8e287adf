package job

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// A Job is the part of a plan that all tasks share. It is the same on every rank, and does not change.
type Job struct {
	Config     *config.Config
	Registries config.Registries // the parts that the configuration can name
	Placement  *spmd.Placement   // the ranks of each component

	SyncInterval int64 // number of iterations between updates of the rollouts' weights
	MaxSteps     int64 // number of iterations of the whole run
	table        *collectives.TuningTable
}

// Common returns j.
func (j *Job) Common() *Job { return j }

// Collectives returns the options of collectives in training.
func (j *Job) Collectives() collectives.Options {
	return collectives.Options{Fast: j.Config.Comm.Reduce == config.ReduceFast, Table: j.table,
		Debug: j.Config.Comm.Debug}
}

// WorkersOn returns the names of the workers on rank r, for example "env[0]".
func (j *Job) WorkersOn(r int) []string {
	workers := []string{}
	for _, name := range j.Placement.Components() {
		for _, m := range j.MembersOn(name, r) {
			workers = append(workers, fmt.Sprintf("%s[%d]", name, m))
		}
	}
	return workers
}

// MembersOn returns the indices of a component's members on a rank. It returns nil if there are none.
func (j *Job) MembersOn(component string, rank int) (members []int) {
	for m, at := range j.Placement.Ranks(component) {
		if at == rank {
			members = append(members, m)
		}
	}
	return members
}

// On reports whether a component has workers on a rank.
func (j *Job) On(component string, rank int) bool {
	return slices.Contains(j.Placement.Ranks(component), rank)
}

// Async reports whether rollouts go on while actors train.
func (j *Job) Async() bool { return j.Config.Runner.Async && j.Config.Trains() }

// SendsPatches reports whether weights are sent as changes to the initial weights.
func (j *Job) SendsPatches() bool { return j.Config.WeightSyncer.Type == config.WeightSyncPatch }

// SyncsAt reports whether the iteration after step begins with the newest weights. It is always true in an asynchronous
// run.
func (j *Job) SyncsAt(step int64) bool { return j.Async() || step%j.SyncInterval == 0 }

// EvaluatesAt reports whether an evaluation follows step.
func (j *Job) EvaluatesAt(step int64) bool {
	return j.Config.Evaluates() && (step >= j.MaxSteps || step%int64(j.Config.Runner.ValCheckInterval) == 0)
}

// SavesAt reports whether a checkpoint is due after step.
func (j *Job) SavesAt(step int64) bool {
	every, last := int64(j.Config.Runner.SaveInterval), step >= j.MaxSteps
	return step > 0 && (last && j.Config.Runner.SaveAtEnd || every > 0 && (last || step%every == 0))
}
