package task

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// An EvaluationOptions holds the options of an evaluation.
type EvaluationOptions struct {
	// Checkpoint is a checkpoint's folder, or "auto" for the newest checkpoint in the run's folder. "" is the first of
	// these that exists: runner.resume_dir, the newest checkpoint in the run's folder, runner.ckpt_path. If
	// config.Config.EvaluatesWeights is true, runner.ckpt_path comes before the newest checkpoint.
	Checkpoint string
	// Episodes is the number of episodes, each in its own environment. For a language model it is the number of
	// questions or texts from data.val_data_paths. If it is 0, each environment of env.eval runs env.eval.rollout_epoch
	// episodes, and a language model gets all questions or texts.
	Episodes int
	JSON     bool // write the metrics as JSON
	Record   RecordOptions
}

// A RecordOptions says which episodes of an evaluation are recorded as demonstrations, and in which file.
type RecordOptions struct {
	File string // "" for what env.eval.data_collection says
	env.DataCollection
}

// An Evaluation has what a session provides to each rank of a job that only evaluates.
type Evaluation struct {
	EvaluationOptions
	World      *spmd.World
	Ranks      *collectives.Group // all ranks
	Config     *config.Config
	Registries config.Registries
	Out        io.Writer             // where rank 0 writes the metrics
	Progress   *metrics.ProgressLine // the progress line of rank 0; nil on other ranks
	EvaluationSession
}

// An EvaluationSession is the session that runs an evaluation.
type EvaluationSession interface {
	// Agree returns true if err is nil on all ranks. Otherwise it returns false on all ranks, and rank 0 writes the
	// error.
	Agree(ctx context.Context, err error) (bool, error)
	// Ask queries the specification of the external simulators of cfg, on the first rank of ranks. It returns cfg with
	// the specification. If the simulators do not answer, Ask returns nil, and rank 0 writes the reason.
	Ask(ctx context.Context, cfg *config.Config, ranks []int) (*config.Config, error)
	// Warn shows a warning.
	Warn(text string)
	// Leave ends the simulators that run in this MPI job.
	Leave(ctx context.Context) error
}

// Phase shows the name of the work that begins now. It does so only on rank 0.
func (e *Evaluation) Phase(name string) {
	if e.World.Rank() == 0 {
		e.Progress.Phase(name)
	}
}

// GatherRows gathers the rows of all ranks on rank 0. It returns them as little-endian bytes, in the order of ranks. On
// other ranks it returns nil. rows is a slice of fixed-size values: see binary.Append.
func (e *Evaluation) GatherRows(ctx context.Context, rows any) ([]byte, error) {
	mine, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return nil, err
	}
	all, err := e.Ranks.Gather(ctx, mine, 0)
	return slices.Concat(all...), err
}

// Results are the metrics of an evaluation.
type Results struct {
	From      string // folder or file of the model
	Task      string // the environments, or the files with questions or texts
	Unit      string // episodes, questions or texts
	Count     int    // number of these units
	States    int    // number of different initial states; 0 if each episode has its own
	Film      string // file of the film; "" if there is none
	Record    string // file of the recorded episodes; "" if there is none
	Recorded  [2]int // episodes and transitions in this file
	Names     []string
	Values    []float64
	Intervals map[string][2]float64 // 95 % confidence intervals of some metrics
	Width     int                   // minimum width of the column of names
}

// Write writes r to e.Out, as a line for each metric or as one JSON object.
func (e *Evaluation) Write(r *Results) error {
	if e.JSON {
		return r.writeJSON(e.Out)
	}
	unit := r.Unit
	if r.States > 0 {
		unit += fmt.Sprintf(" from %d initial states", r.States)
	}
	fmt.Fprintf(e.Out, "%s, %d %s of %s\n", printable.Line(r.From), r.Count, unit, printable.Line(r.Task))
	width := r.Width
	for _, name := range r.Names {
		width = max(width, len(name))
	}
	for i, name := range r.Names {
		fmt.Fprintf(e.Out, "  %-*s %.4g", width, name, r.Values[i])
		if within, ok := r.Intervals[name]; ok {
			fmt.Fprintf(e.Out, "  (95 %%: %.4g to %.4g)", within[0], within[1])
		}
		fmt.Fprintln(e.Out)
	}
	if r.Film != "" {
		fmt.Fprintf(e.Out, "  %-*s %s\n", width, "film", r.Film)
	}
	if r.Record != "" {
		fmt.Fprintf(e.Out, "  %-*s %s: %d episodes, %d transitions\n", width, "record", printable.Line(r.Record),
			r.Recorded[0], r.Recorded[1])
	}
	return nil
}

func (r *Results) writeJSON(out io.Writer) error {
	all := map[string]any{"checkpoint": r.From, "task": r.Task, r.Unit: r.Count}
	if r.Film != "" {
		all["film"] = r.Film
	}
	if r.Record != "" {
		all["record"], all["recorded_episodes"], all["recorded_transitions"] = r.Record, r.Recorded[0], r.Recorded[1]
	}
	if r.States > 0 {
		all["initial_states"] = r.States
	}
	for i, name := range r.Names {
		all[name] = r.Values[i]
		if within, ok := r.Intervals[name]; ok {
			all[name+"_interval"] = within
		}
	}
	return json.NewEncoder(out).Encode(all)
}
