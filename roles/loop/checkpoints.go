package loop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/state"
)

// A CheckpointSaver saves checkpoints. Rank 0 collects the state of a run, and writes the files. The CheckpointSaver
// also distributes a checkpoint to all ranks. All ranks must call its methods, in the same order.
type CheckpointSaver struct {
	group  *collectives.Group
	Store  *checkpoint.Store // on rank 0
	ranks  int
	YAML   []byte // the resolved configuration
	saved  int64  // step of the newest checkpoint; -1 if there is none
	warn   func(string)
	warned bool // the user was warned that environments cannot save their states
}

// NewCheckpointSaver returns a saver for runs of the configuration yaml. Rank 0 sets its Store. warn shows warnings.
func NewCheckpointSaver(group *collectives.Group, yaml []byte, warn func(string)) *CheckpointSaver {
	return &CheckpointSaver{group: group, ranks: group.Size(), saved: -1, YAML: yaml, warn: warn}
}

// Join makes the saver work with the ranks of a new world.
func (s *CheckpointSaver) Join(group *collectives.Group) { s.group = group }

// save writes a checkpoint of the present step. No messages may be in flight.
func (s *CheckpointSaver) save(ctx context.Context, r *Loop) error {
	if s.saved == r.step {
		return nil
	}
	s.saved = r.step
	err := state.Collect(ctx, s.group, r.pieces, r.parts(), func(c *state.Collection) error {
		var files []checkpoint.File
		for _, name := range filesAt(r.plan, r.step) {
			write := func(w io.Writer) error { return c.Write(w, name) }
			files = append(files, checkpoint.File{Name: name, Write: write})
		}
		return s.write(r, files...)
	})
	if err != nil {
		err = fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	return err
}

// filesAt returns the names of a checkpoint's files of tensors: the model, the trainer, others.
func filesAt(p *JobPlan, step int64) []string {
	files := []string{state.ModelFile, state.TrainerFile}
	if p.EnvStates {
		files = append(files, state.EnvFile)
	}
	if !p.SyncsAt(step) {
		files = append(files, state.RolloutFile)
	}
	return files
}

// write writes a checkpoint with these files. Only rank 0 calls it.
func (s *CheckpointSaver) write(r *Loop, files ...checkpoint.File) error {
	if err := r.with.Log.sync(); err != nil {
		return err
	}
	info := checkpoint.Info{Step: r.step, Ranks: s.ranks, Config: s.YAML}
	if !r.salvaging { // else the evaluation of this step has failed
		info.Score = r.with.Log.score(r.step)
	}
	_, err := s.Store.Save(info, files...)
	return err
}

// A start lists the files of a start state.
type start struct {
	Step    int64
	Sources []state.StateFile // empty if nothing is loaded
}

// Restore distributes the start state of the run to all ranks. Only rank 0 passes the state. Without a state, Restore
// does nothing.
func (s *CheckpointSaver) Restore(ctx context.Context, r *Loop, from StartState) error {
	files, err := from.open()
	for _, f := range files {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	begin := start{Step: from.Step}
	for i, f := range files {
		name := state.ModelFile
		if from.weights == "" {
			name = from.files[i]
		}
		begin.Sources = append(begin.Sources, state.StateFile{File: name, Fields: f.Fields,
			Reader: f.SafetensorsReader})
	}
	about, err := json.Marshal(begin)
	if err == nil {
		about, err = Broadcast(ctx, s.group, about, 0)
	}
	if err == nil && s.group.Rank() > 0 {
		err = json.Unmarshal(about, &begin)
	}
	if err != nil || len(begin.Sources) == 0 {
		return err
	}
	r.step = begin.Step
	return state.Distribute(ctx, s.group, begin.Sources, r.parts())
}

// Broadcast sends b from rank root to all ranks, and returns it on every rank.
func Broadcast(ctx context.Context, g *collectives.Group, b []byte, root int) ([]byte, error) {
	size := make([]byte, 8)
	binary.LittleEndian.PutUint64(size, uint64(len(b)))
	if err := g.Broadcast(ctx, size, root); err != nil {
		return nil, err
	}
	if n := binary.LittleEndian.Uint64(size); uint64(len(b)) != n {
		b = make([]byte, n)
	}
	return b, g.Broadcast(ctx, b, root)
}
