package task

import (
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// An Asked holds the options of an evaluation.
type Asked struct {
	// Checkpoint is a checkpoint's folder, or auto for the newest checkpoint in the run's folder. "" takes the
	// first of these that exists: runner.resume_dir; runner.ckpt_path, if config.Config.EvaluatesWeights; the
	// newest checkpoint in the run's folder; runner.ckpt_path.
	Checkpoint string
	// Episodes is the number of episodes, each in its own environment. For a language model it is the number of
	// questions or texts from data.val_data_paths. 0 means env.eval.rollout_epoch episodes in each environment of
	// env.eval, or all questions or texts.
	Episodes int
	JSON     bool // write the metrics as JSON
}

// An Evaluation is what a rank of a job that only evaluates gets from its session.
type Evaluation struct {
	Asked
	World      *spmd.World
	Ranks      *collectives.Group // all ranks
	Config     *config.Config
	Registries config.Registries
	Out        io.Writer         // of rank 0, for the metrics
	Progress   *metrics.Progress // of rank 0; nil elsewhere
	Host
}

// A Host is the session that runs an evaluation.
type Host interface {
	// Agree returns true if no rank has an error. Otherwise all ranks stop, and rank 0 has written the error.
	Agree(ctx context.Context, err error) (bool, error)
	// Ask asks the external simulators of cfg for their specification, on the first rank of ranks. It returns cfg
	// with the answers. If the simulators could not be asked, it returns nil, and rank 0 has written why.
	Ask(ctx context.Context, cfg *config.Config, ranks []int) (*config.Config, error)
	// Leave ends the simulators that run in the same MPI job.
	Leave(ctx context.Context) error
}

// Phase shows, on rank 0, the name of the work that begins now.
func (e *Evaluation) Phase(name string) {
	if e.World.Rank() == 0 {
		e.Progress.Phase(name)
	}
}

// GatherRows returns, on rank 0, the rows of all ranks in the order of ranks, as little-endian bytes. rows is a
// slice of fixed-size values. Other ranks get nil.
func (e *Evaluation) GatherRows(ctx context.Context, rows any) ([]byte, error) {
	mine, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return nil, err
	}
	all, err := e.Ranks.Gather(ctx, mine, 0)
	return slices.Concat(all...), err
}
