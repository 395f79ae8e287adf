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

// An Asked says how a policy is evaluated.
type Asked struct {
	// Checkpoint is a folder; auto: the newest of the run's folder. For "" it is the first of these that there is:
	// the checkpoint runner.resume_dir; runner.ckpt_path, where evaluations are of these weights (see
	// config.Config.EvaluatesWeights); the newest checkpoint of the run's folder; runner.ckpt_path.
	Checkpoint string
	// Episodes are each played in an environment of their own. A language model answers so many questions, or is
	// measured on so many texts, of data.val_data_paths. 0: env.eval.rollout_epoch episodes in each environment of
	// env.eval, or all questions or texts.
	Episodes int
	JSON     bool // write the figures as JSON
}

// An Evaluation is what a rank has that only evaluates: the ranks and the configuration.
type Evaluation struct {
	Asked
	World      *spmd.World
	Ranks      *collectives.Group // all of them
	Config     *config.Config
	Registries config.Registries
	Out        io.Writer         // of rank 0, for the figures
	Progress   *metrics.Progress // of rank 0; nil elsewhere
	Host
}

// A Host is the session around an evaluation.
type Host interface {
	// Agree tells all ranks whether any of them has an error. If so all stop, and rank 0 has written it.
	Agree(ctx context.Context, e *Evaluation, err error) (bool, error)
	// Ask asks the simulators of cfg what they are, on the first of ranks, and returns cfg with the answers. It
	// returns nil where that fails, when rank 0 has written why.
	Ask(ctx context.Context, e *Evaluation, cfg *config.Config, ranks []int) (*config.Config, error)
	// Leave ends the simulators of the same MPI job.
	Leave(ctx context.Context, e *Evaluation) error
}

// Phase names, on rank 0, the work that begins now.
func (e *Evaluation) Phase(name string) {
	if e.World.Rank() == 0 {
		e.Progress.Phase(name)
	}
}

// GatherRows returns the rows of all ranks, a slice of fixed-size values on each, in the order of the
// ranks and as little-endian bytes: on rank 0, and nil elsewhere.
func (e *Evaluation) GatherRows(ctx context.Context, rows any) ([]byte, error) {
	mine, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return nil, err
	}
	all, err := e.Ranks.Gather(ctx, mine, 0)
	return slices.Concat(all...), err
}
