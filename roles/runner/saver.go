package runner

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/tensor"
)

// The files of a checkpoint. State of single environments is in the order of their global indices,
// so that a run can resume on any number of ranks.
const (
	ModelFile   = "model.safetensors"   // parameters and buffers of the policy
	trainerFile = "trainer.safetensors" // what the algorithm keeps beside them: optimiser, counters, statistics
	// weights that the next rollout uses, where they are older than the model; else there is no
	// such file
	rolloutFile = "rollout.safetensors"
	// states of environments, last observations, sums of running episodes; all [N, ...]
	envFile = "env.safetensors"
)

// A Saver gathers the state of a run on rank 0, which writes checkpoints. It also distributes a
// checkpoint to all ranks. All its methods are collective over the world.
type Saver struct {
	group  *collectives.Group
	Store  *checkpoint.Store // on rank 0
	ranks  int
	YAML   []byte // the configuration in force
	saved  int64  // newest step saved; -1: none
	warn   func(string)
	warned bool // that environments cannot save
}

// NewSaver returns a saver of runs of the configuration yaml. Rank 0 opens the store for its
// checkpoints. warn takes warnings.
func NewSaver(group *collectives.Group, yaml []byte, warn func(string)) *Saver {
	return &Saver{group: group, ranks: group.Size(), saved: -1, YAML: yaml, warn: warn}
}

// save writes a checkpoint of the present step, when nothing is in flight.
func (s *Saver) save(ctx context.Context, r *loop) error {
	if s.saved == r.step {
		return nil
	}
	s.saved = r.step
	mine, err := r.shares()
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	var theirs []byte
	if s.Store == nil {
		theirs = encodeShares(nil, mine)
	}
	all, err := s.group.Gather(ctx, theirs, 0)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	if s.Store == nil {
		return nil
	}
	if err := r.with.Log.sync(); err != nil {
		return err
	}
	// rank 0 writes its own part without a copy: it does not change before the next step of all ranks
	st, err := join(mine, all, r.job.Train.Envs)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	files := []checkpoint.File{safetensors(ModelFile, st.Model), safetensors(trainerFile, st.Trainer)}
	if r.job.Tuning == nil {
		files = append(files, safetensors(envFile, st.Envs))
	}
	if !r.job.SyncsAt(r.step) {
		files = append(files, safetensors(rolloutFile, st.Rollout))
	}
	info := checkpoint.Info{Step: r.step, Ranks: s.ranks, Config: s.YAML, Score: r.with.Log.score(r.step)}
	_, err = s.Store.Save(info, files...)
	return err
}

// Restore distributes the state that rank 0 has read to all ranks. Without such state it does
// nothing.
func (s *Saver) Restore(ctx context.Context, r *loop, from StartState) error {
	var blob []byte
	if from.From != "" {
		r.step = from.Step
		if s.ranks == 1 {
			return r.load(from.state)
		}
		blob = binary.LittleEndian.AppendUint64(nil, uint64(from.Step))
		blob = encodeShares(blob, []worker.Share{{Dict: from.state.Model}, {Dict: from.state.Trainer},
			{Dict: from.state.Rollout}, {Dict: from.state.Envs}})
	}
	blob, err := Broadcast(ctx, s.group, blob, 0)
	if err != nil || len(blob) == 0 {
		return err
	}
	if from.From != "" {
		return r.load(from.state)
	}
	r.step = int64(binary.LittleEndian.Uint64(blob))
	shares, err := decodeShares(blob[8:])
	if err != nil {
		return err
	}
	return r.load(worker.State{Model: shares[0].Dict, Trainer: shares[1].Dict, Rollout: shares[2].Dict,
		Envs: shares[3].Dict})
}

// ReadTensors returns the tensors in a file of a checkpoint.
func ReadTensors(from *checkpoint.Checkpoint, file string) (tensor.Dict, error) {
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

// safetensors returns d as a file of a checkpoint.
func safetensors(name string, d tensor.Dict) checkpoint.File {
	return checkpoint.File{Name: name, Write: func(w io.Writer) error { return tensor.WriteSafetensors(w, d, nil) }}
}

// Broadcast returns root's b on every rank.
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

// shares returns this rank's part of the state, without a copy.
func (r *EmbodiedRunner) shares() (all []worker.Share, err error) {
	for _, w := range r.Actor.Here() {
		shares, err := w.Save()
		if err != nil {
			return nil, err
		}
		all = append(all, shares...)
	}
	for _, w := range r.Rollout.Here() {
		all = append(all, w.Save(!r.job.SyncsAt(r.step))...)
	}
	for _, w := range r.Env.Here() {
		shares, whole, err := w.Save()
		if err != nil {
			return nil, err
		}
		once := r.atEnd() && r.job.Config.Runner.SaveInterval <= 0 // nobody asked to resume it
		if !whole && !r.with.Saver.warned && !once {
			r.with.Saver.warned = true
			r.with.Saver.warn(fmt.Sprintf("%s cannot save its state: a resumed run will begin new episodes, and not "+
				"be bit-identical", r.job.Spec.Name))
		}
		all = append(all, shares...)
	}
	return all, nil
}

// load takes this rank's part of st, which may be weights alone.
func (r *EmbodiedRunner) load(st worker.State) error {
	for _, w := range r.Actor.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	if r.Inference != nil {
		for _, w := range r.Inference.Here() {
			w.Load(st)
		}
	}
	for _, w := range r.Env.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	if st.Rollout.Len() > 0 { // else the next rollout begins with the model
		r.synced = r.step - r.step%r.job.SyncInterval
	}
	for _, w := range r.Rollout.Here() {
		if err := w.Load(st, r.synced); err != nil {
			return err
		}
	}
	return nil
}
