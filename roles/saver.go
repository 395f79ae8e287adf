package roles

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/policy/nn"
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

// state is all of a run that a checkpoint holds.
type state struct{ model, trainer, rollout, envs tensor.Dict }

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

// A share is one member's part of the state.
type share struct {
	kind   string // "model", "trainer", "rollout", "envs"
	lo, hi int    // for envs: the environments
	dict   tensor.Dict
}

// shares returns what this rank has of the state, where it lies.
func (r *EmbodiedRunner) shares() (all []share, err error) {
	for _, a := range r.actor.Here() {
		trainer, err := a.algo.Save()
		if err != nil {
			return nil, err
		}
		var own tensor.Dict // what the algorithm keeps per environment
		for i := range trainer.Len() {
			if name, t := trainer.Entry(i); strings.HasPrefix(name, "env.") {
				own.Set("trainer."+name, t)
			}
		}
		if n := r.job.train.envs / r.job.actors; own.Len() > 0 {
			all = append(all, share{"envs", a.m.Index() * n, (a.m.Index() + 1) * n, own})
		}
		if a.m.Index() == 0 {
			all = append(all, share{kind: "model", dict: modelDict(a.policy.Params())})
			var rest tensor.Dict
			for i := range trainer.Len() {
				if name, t := trainer.Entry(i); !strings.HasPrefix(name, "env.") {
					rest.Set(name, t)
				}
			}
			if a.arrivals != nil {
				a.arrivals.save(&rest)
			}
			all = append(all, share{kind: "trainer", dict: rest})
		}
	}
	for _, w := range r.rollout.Here() {
		if w.m.Index() == 0 && !r.job.syncsAt(r.step) {
			all = append(all, share{kind: "rollout", dict: modelDict(w.policy.Params())})
		}
		for _, l := range w.lanes {
			if d := l.rec.memory.save(); d.Len() > 0 {
				all = append(all, share{"envs", l.lo, l.hi, d})
			}
		}
	}
	for _, w := range r.env.Here() {
		for i, s := range w.train {
			lo, hi := r.job.train.shardOf(w.m.Index(), i)
			d, err := s.save()
			if errors.Is(err, errors.ErrUnsupported) {
				if !r.saver.warned {
					r.saver.warned = true
					r.saver.warn(fmt.Sprintf("%s cannot save its state: a resumed run will begin new episodes, and "+
						"not be bit-identical", r.job.spec.Name))
				}
				d, err = s.seeder.Save() // which are not those of its beginning again
			}
			if err != nil {
				return nil, err
			}
			all = append(all, share{"envs", lo, hi, d})
		}
	}
	return all, nil
}

// save returns the state of the environments and of their episodes.
func (s *shard) save() (tensor.Dict, error) {
	d, err := env.Save(s.vec)
	if err != nil {
		return d, err
	}
	seeds, err := s.seeder.Save()
	if err != nil {
		return d, err
	}
	sums, err := s.episodes.Save()
	if err != nil {
		return d, err
	}
	merge(&d, seeds)
	merge(&d, sums)
	for i := range s.now.Obs.Len() {
		name, t := s.now.Obs.Entry(i)
		d.Set("observed."+name, t)
	}
	return d, nil
}

// load puts back what save returned; episodes go on. Where the seeds alone were saved new ones
// begin.
func (s *shard) load(d tensor.Dict) error {
	if err := s.seeder.Load(d); err != nil || !hasEpisodes(d) {
		return err
	}
	if err := env.Load(s.vec, d); err != nil {
		return err
	}
	if err := s.episodes.Load(d); err != nil {
		return err
	}
	for i := range s.now.Obs.Len() {
		name, t := s.now.Obs.Entry(i)
		from, ok := d.Get("observed." + name)
		if !ok || !from.SameShape(t) {
			return fmt.Errorf("saved observation %s: %v, want %v", name, from, t)
		}
		t.CopyFrom(from)
	}
	s.running = true
	return nil
}

// hasEpisodes reports whether a state of environments has their episodes, which go on then.
func hasEpisodes(d tensor.Dict) bool {
	_, ok := d.Get("episodes.return")
	return ok
}

// save returns what is remembered; nothing of a policy that remembers nothing.
func (m *memory) save() (d tensor.Dict) {
	if !m.rows.IsZero() {
		d.Set("memory", m.rows)
	}
	return d
}

// load puts back what save returned.
func (m *memory) load(d tensor.Dict) error {
	if m.rows.IsZero() {
		return nil
	}
	from, ok := d.Get("memory")
	if !ok || !from.SameShape(m.rows) {
		return fmt.Errorf("saved memory %v, want %v", from, m.rows)
	}
	m.rows.CopyFrom(from)
	return nil
}

// merge adds the tensors of src to dst.
func merge(dst *tensor.Dict, src tensor.Dict) {
	for i := range src.Len() {
		dst.Set(src.Entry(i))
	}
}

// modelDict returns views of the parameters, one per field, and of the buffers.
func modelDict(p *nn.Params[float32]) tensor.Dict {
	var d tensor.Dict
	for _, f := range p.Fields {
		n := 1
		for _, s := range f.Shape {
			n *= s
		}
		d.Set(f.Name, tensor.FromF32(p.Data[f.Off:f.Off+n], f.Shape...))
	}
	for i := range p.Buffers.Len() {
		d.Set(p.Buffers.Entry(i))
	}
	return d
}

// loadModel copies d into the parameters. Every tensor of the policy must be there, of its shape,
// and none else.
func loadModel(p *nn.Params[float32], d tensor.Dict) error {
	want := modelDict(p)
	for i := range want.Len() {
		name, t := want.Entry(i)
		from, ok := d.Get(name)
		if !ok {
			return fmt.Errorf("model: no %s (%v) in it: it is another policy's", name, t)
		}
		if !from.SameShape(t) {
			return fmt.Errorf("model: %s is %v, this policy's is %v", name, from, t)
		}
	}
	for i := range d.Len() {
		if name, t := d.Entry(i); want.Len() != d.Len() {
			if _, ok := want.Get(name); !ok {
				return fmt.Errorf("model: it has %s (%v), this policy has not", name, t)
			}
		}
	}
	want.CopyFrom(d)
	return nil
}

// encodeShares appends shares to b.
func encodeShares(b []byte, all []share) []byte {
	size := 0
	for _, s := range all {
		size += len(s.kind) + 1<<10
		for i := range s.dict.Len() {
			name, t := s.dict.Entry(i)
			size += len(name) + 1<<7 + len(t.Bytes())
		}
	}
	b = slices.Grow(b, size) // once: what is moved to grow is there twice
	for _, s := range all {
		b = append(b, byte(len(s.kind)))
		b = append(b, s.kind...)
		for _, n := range []int{s.lo, s.hi, 0} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		begin := len(b)
		b = tensor.Encode(b, s.dict)
		binary.LittleEndian.PutUint64(b[begin-8:], uint64(len(b)-begin))
	}
	return b
}

func decodeShares(b []byte) ([]share, error) {
	var all []share
	for len(b) > 0 {
		n := int(b[0])
		s := share{kind: string(b[1 : 1+n])}
		b = b[1+n:]
		s.lo, s.hi = int(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:]))
		size := int(binary.LittleEndian.Uint64(b[16:]))
		var err error
		if s.dict, err = tensor.Decode(b[24 : 24+size]); err != nil {
			return nil, err
		}
		b = b[24+size:]
		all = append(all, s)
	}
	return all, nil
}

// join puts shares and those that other ranks have encoded together: those of environments side by
// side, in the order of their indices, n in all. What only some of them said is left out: a run
// that goes on would take the rest for said, too. The state may be made of the tensors in shares.
func join(shares []share, ranks [][]byte, n int) (state, error) {
	var st state
	for _, b := range ranks {
		theirs, err := decodeShares(b)
		if err != nil {
			return st, err
		}
		shares = append(shares, theirs...)
	}
	var envs []share
	var found tensor.Dict // by name, of all environments
	rows := map[string]int{}
	for _, s := range shares {
		switch s.kind {
		case "model":
			st.model = s.dict
		case "trainer":
			st.trainer = s.dict
		case "rollout":
			st.rollout = s.dict
		default:
			envs = append(envs, s)
		}
	}
	slices.SortStableFunc(envs, func(a, b share) int { return a.lo - b.lo })
	for _, s := range envs {
		for i := range s.dict.Len() {
			name, t := s.dict.Entry(i)
			rows[name] += s.hi - s.lo
			if s.hi-s.lo == n {
				found.Set(name, t)
				continue
			}
			whole, ok := found.Get(name)
			if !ok {
				shape := t.Shape()
				shape[0] = n
				whole = tensor.New(t.DType(), shape...)
				found.Set(name, whole)
			}
			whole.Slice(s.lo, s.hi).CopyFrom(t)
		}
	}
	for i := range found.Len() {
		if name, t := found.Entry(i); rows[name] == n {
			st.envs.Set(name, t)
		}
	}
	return st, nil
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

// load takes this rank's parts of st, which may be weights alone.
func (r *EmbodiedRunner) load(st state) error {
	for _, a := range r.actor.Here() {
		if err := loadModel(a.policy.Params(), st.model); err != nil {
			return err
		}
		if st.trainer.Len() == 0 {
			continue
		}
		trainer := tensor.Dict{}
		merge(&trainer, st.trainer)
		n := r.job.train.envs / r.job.actors
		merge(&trainer, st.envs.Sub("trainer").Slice(a.m.Index()*n, (a.m.Index()+1)*n))
		if err := a.algo.Load(trainer); err != nil {
			return err
		}
	}
	if r.inference != nil {
		for _, w := range r.inference.Here() {
			if t, ok := st.trainer.Get("reference"); ok && w.reference != nil {
				copy(w.reference, t.U8())
				w.known = true
			}
		}
	}
	if taken, ok := st.trainer.Get(takenRollouts); ok && r.job.async() {
		for _, a := range r.actor.Here() {
			a.arrivals.rollouts = taken.I64()[0]
		}
		for _, w := range r.rollout.Here() {
			for _, l := range w.running {
				l.first = uint64(taken.I64()[0])
			}
		}
	}
	for _, w := range r.env.Here() {
		for i, s := range w.train {
			if _, ok := st.envs.Get("seeder.episode"); !ok {
				continue // weights alone
			}
			lo, hi := r.job.train.shardOf(w.m.Index(), i)
			if err := s.load(st.envs.Slice(lo, hi)); err != nil {
				return err
			}
		}
	}
	for _, w := range r.rollout.Here() {
		for _, l := range w.lanes {
			if !hasEpisodes(st.envs) {
				continue // new ones begin with nothing remembered
			}
			if err := l.rec.memory.load(st.envs.Slice(l.lo, l.hi)); err != nil {
				return err
			}
		}
	}
	if st.rollout.Len() == 0 {
		return nil // the next rollout begins with the model
	}
	r.synced = r.step - r.step%r.job.syncInterval
	for _, w := range r.rollout.Here() {
		w.version = r.synced
		if err := loadModel(w.policy.Params(), st.rollout); err != nil {
			return err
		}
	}
	return nil
}
