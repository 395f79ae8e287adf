package loop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// The files of a checkpoint. States of environments are in the order of their global indices, so a run can resume
// on any number of ranks.
const (
	ModelFile   = job.ModelFile         // parameters and buffers of the policy
	trainerFile = "trainer.safetensors" // the algorithm's other state: optimiser, counters, statistics
	// Weights of the next rollout. The file exists only if these weights are older than the model.
	rolloutFile = "rollout.safetensors"
	// States of environments, last observations, sums of running episodes; all tensors [N, ...].
	envFile = "env.safetensors"
)

// A Saver saves checkpoints. It gathers the state of a run on rank 0, which writes the files. It also distributes a
// checkpoint to all ranks. All ranks must call its methods, in the same order.
type Saver struct {
	group  *collectives.Group
	Store  *checkpoint.Store // on rank 0
	ranks  int
	YAML   []byte // the resolved configuration
	saved  int64  // step of the newest checkpoint; -1 if there is none
	warn   func(string)
	warned bool // the user was warned that environments cannot save their states
}

// NewSaver returns a saver for runs of the configuration yaml. Rank 0 sets its Store. warn shows warnings.
func NewSaver(group *collectives.Group, yaml []byte, warn func(string)) *Saver {
	return &Saver{group: group, ranks: group.Size(), saved: -1, YAML: yaml, warn: warn}
}

// Join makes the saver work with the ranks of a new world.
func (s *Saver) Join(group *collectives.Group) { s.group = group }

// save writes a checkpoint of the present step. No messages may be in flight.
func (s *Saver) save(ctx context.Context, r *Loop) error {
	if s.saved == r.step {
		return nil
	}
	s.saved = r.step
	if r.parts != nil {
		return member.Collect(ctx, s.group, r.pieces, r.parts.Save(), func(c *member.Collection) error {
			return s.write(r, partsOf(c, ModelFile, member.ModelPart), partsOf(c, trainerFile, member.TrainerPart))
		})
	}
	mine, err := r.shares.Shares()
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	var theirs []byte
	if s.Store == nil {
		theirs = EncodeShares(nil, mine)
	}
	all, err := s.group.Gather(ctx, theirs, 0)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	if s.Store == nil {
		return nil
	}
	// Rank 0 does not copy its own shares: they do not change before the next step.
	st, err := JoinShares(mine, all, r.plan.Envs)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	files := []checkpoint.File{safetensors(ModelFile, st.Model), safetensors(trainerFile, st.Trainer)}
	if r.plan.EnvStates {
		files = append(files, safetensors(envFile, st.Envs))
	}
	if !r.job.SyncsAt(r.step) {
		files = append(files, safetensors(rolloutFile, st.Rollout))
	}
	return s.write(r, files...)
}

// write writes a checkpoint with these files. Only rank 0 calls it.
func (s *Saver) write(r *Loop, files ...checkpoint.File) error {
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

// Restore distributes the start state of the run to all ranks. Only rank 0 passes the state. Without a state, Restore
// does nothing.
func (s *Saver) Restore(ctx context.Context, r *Loop, state StartState) error {
	if r.parts != nil {
		return s.restoreParts(ctx, r, state)
	}
	var st member.State
	var blob []byte
	if state.From != "" {
		var err error
		if st, err = state.load(); err != nil {
			return err
		}
		r.step = state.Step
		if s.ranks == 1 {
			return r.shares.Load(st)
		}
		blob = binary.LittleEndian.AppendUint64(nil, uint64(state.Step))
		blob = EncodeShares(blob, []member.Share{{Dict: st.Model}, {Dict: st.Trainer}, {Dict: st.Rollout},
			{Dict: st.Envs}})
	}
	blob, err := Broadcast(ctx, s.group, blob, 0)
	if err != nil || len(blob) == 0 {
		return err
	}
	if state.From != "" {
		return r.shares.Load(st)
	}
	r.step = int64(binary.LittleEndian.Uint64(blob))
	shares, err := decodeShares(blob[8:])
	if err != nil {
		return err
	}
	return r.shares.Load(member.State{Model: shares[0].Dict, Trainer: shares[1].Dict, Rollout: shares[2].Dict,
		Envs: shares[3].Dict})
}

// A start lists the files of a start state. Ranks load these files in parts.
type start struct {
	Step    int64
	Sources []member.Source // empty if nothing is loaded
}

// restoreParts is Restore for a PartsHolder.
func (s *Saver) restoreParts(ctx context.Context, r *Loop, state StartState) error {
	files, err := state.open()
	for _, f := range files {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	begin := start{Step: state.Step}
	for i, f := range files {
		begin.Sources = append(begin.Sources, member.Source{File: [...]string{member.ModelPart, member.TrainerPart}[i],
			Fields: f.Fields, Reader: f.SafetensorsReader})
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
	weights := len(begin.Sources) == 1
	return member.Distribute(ctx, s.group, begin.Sources, r.parts.Load(weights))
}

// readTensors reads the tensors in a file of a checkpoint.
func readTensors(from *checkpoint.Checkpoint, file string) (tensor.Dict, error) {
	b, err := from.Read(file)
	if err != nil {
		return tensor.Dict{}, err
	}
	d, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		err = fmt.Errorf("%s of %s: %w", file, from.Dir, err)
	}
	return d, err
}

// partsOf returns a checkpoint file with tensors of c. file is member.ModelPart or member.TrainerPart.
func partsOf(c *member.Collection, name, file string) checkpoint.File {
	return checkpoint.File{Name: name, Write: func(w io.Writer) error { return c.Write(w, file) }}
}

// safetensors returns a checkpoint file with the tensors of d.
func safetensors(name string, d tensor.Dict) checkpoint.File {
	return checkpoint.File{Name: name, Write: func(w io.Writer) error { return tensor.WriteSafetensors(w, d, nil) }}
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
