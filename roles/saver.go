package roles

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/tensor"
)

// The files of a checkpoint. What belongs to single environments stands in the order of their
// global indices, so that any number of ranks can take it up.
const (
	modelFile   = "model.safetensors"   // parameters and buffers of the policy
	trainerFile = "trainer.safetensors" // what the algorithm keeps beside them: optimiser, counters, statistics
	// weights that the next rollout uses, where they are older than the model; else there is no
	// such file
	rolloutFile = "rollout.safetensors"
	// states of environments, what was last observed, sums of running episodes; all [N, ...]
	envFile = "env.safetensors"
)

// A saver gathers the state of a run on rank 0, where it writes checkpoints, and hands it out
// again. All its methods are collective over the world.
type saver struct {
	group  *collectives.Group
	store  *checkpoint.Store // on rank 0
	ranks  int
	yaml   []byte // the configuration in force
	saved  int64  // newest step saved; -1: none
	warn   func(string)
	warned bool // that environments cannot save
}

// newSaver returns a saver of runs of the configuration yaml. Its checkpoints go where rank 0 opens a
// store; warn takes warnings.
func newSaver(group *collectives.Group, yaml []byte, warn func(string)) *saver {
	return &saver{group: group, ranks: group.Size(), saved: -1, yaml: yaml, warn: warn}
}

// save writes a checkpoint of the present step, when nothing is in flight.
func (s *saver) save(ctx context.Context, r *EmbodiedRunner) error {
	if s.saved == r.step {
		return nil
	}
	s.saved = r.step
	mine, err := r.shares()
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	var theirs []byte
	if s.store == nil {
		theirs = encodeShares(nil, mine)
	}
	all, err := s.group.Gather(ctx, theirs, 0)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	if s.store == nil {
		return nil
	}
	// what is rank 0's is written from where it lies: nothing moves it before all ranks' next step
	st, err := join(mine, all, r.job.train.envs)
	if err != nil {
		return fmt.Errorf("checkpoint of step %d: %w", r.step, err)
	}
	files := []checkpoint.File{safetensors(modelFile, st.model), safetensors(trainerFile, st.trainer),
		safetensors(envFile, st.envs)}
	if !r.job.syncsAt(r.step) {
		files = append(files, safetensors(rolloutFile, st.rollout))
	}
	_, err = s.store.Save(checkpoint.Info{Step: r.step, Ranks: s.ranks, Config: s.yaml}, files...)
	return err
}

// restore hands what the run starts from, which rank 0 has read, to all ranks; nothing happens
// where that is nothing.
func (s *saver) restore(ctx context.Context, r *EmbodiedRunner, from beginning) error {
	var blob []byte
	if from.from != "" {
		r.step = from.step
		if s.ranks == 1 {
			return r.load(from.state)
		}
		blob = binary.LittleEndian.AppendUint64(nil, uint64(from.step))
		blob = encodeShares(blob, []share{{dict: from.state.model}, {dict: from.state.trainer},
			{dict: from.state.rollout}, {dict: from.state.envs}})
	}
	blob, err := broadcastBytes(ctx, s.group, blob, 0)
	if err != nil || len(blob) == 0 {
		return err
	}
	if from.from != "" {
		return r.load(from.state)
	}
	r.step = int64(binary.LittleEndian.Uint64(blob))
	shares, err := decodeShares(blob[8:])
	if err != nil {
		return err
	}
	return r.load(state{shares[0].dict, shares[1].dict, shares[2].dict, shares[3].dict})
}

// readFile returns the tensors in a file of a checkpoint.
func readFile(from *checkpoint.Checkpoint, file string) (tensor.Dict, error) {
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

// broadcastBytes returns root's b on every rank.
func broadcastBytes(ctx context.Context, g *collectives.Group, b []byte, root int) ([]byte, error) {
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

// shares returns what this rank has of the state, where it lies.
func (r *EmbodiedRunner) shares() (all []share, err error) {
	for _, w := range r.actor.Here() {
		shares, err := w.save()
		if err != nil {
			return nil, err
		}
		all = append(all, shares...)
	}
	for _, w := range r.rollout.Here() {
		all = append(all, w.save(!r.job.syncsAt(r.step))...)
	}
	for _, w := range r.env.Here() {
		shares, whole, err := w.save()
		if err != nil {
			return nil, err
		}
		if !whole && !r.saver.warned {
			r.saver.warned = true
			r.saver.warn(fmt.Sprintf("%s cannot save its state: a resumed run will begin new episodes, and not be "+
				"bit-identical", r.job.spec.Name))
		}
		all = append(all, shares...)
	}
	return all, nil
}

// load takes this rank's parts of st, which may be weights alone.
func (r *EmbodiedRunner) load(st state) error {
	for _, w := range r.actor.Here() {
		if err := w.load(st); err != nil {
			return err
		}
	}
	if r.inference != nil {
		for _, w := range r.inference.Here() {
			w.load(st)
		}
	}
	for _, w := range r.env.Here() {
		if err := w.load(st); err != nil {
			return err
		}
	}
	if st.rollout.Len() > 0 { // else the next rollout begins with the model
		r.synced = r.step - r.step%r.job.syncInterval
	}
	for _, w := range r.rollout.Here() {
		if err := w.load(st, r.synced); err != nil {
			return err
		}
	}
	return nil
}
