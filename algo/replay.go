package algo

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A Replay holds the newest transitions of one replica's environments. It has a ring of steps for each environment.
// Rollouts fill the rings, and batches are drawn at random. Images have rings of their own; see frames.
type Replay struct {
	envs, capacity int
	size           int // number of the newest steps of each environment that can be drawn
	stride         int // number of steps from a transition to the next one without common steps
	columns        []replayColumn
	frames         []*frames
	reward         tensor.Tensor // F32 [envs, capacity]
	terminated     tensor.Tensor // U8
	truncated      tensor.Tensor
	status         tensor.Tensor // the zero Tensor if simulators cannot fail
	cursor         tensor.Tensor // I64 [3]: steps in each ring, place of the next step, steps ever added
	hindsight      *hindsight    // nil if all transitions keep their goals
}

// A replayColumn is one tensor of rollouts, and of transitions.
type replayColumn struct {
	tensor.Field               // of one transition
	size         int           // bytes of one transition
	next         bool          // transitions take the tensor from their last step, not from their first step
	data         tensor.Tensor // the ring of all transitions, [envs, capacity, ...], unless there are frames
	frames       *frames       // if not nil, the observation is a stack of these
	pictures     *Pictures     // if not nil, data has the indices of these images
}

const (
	ringSize = iota
	ringNext
	ringTotal
	cursorLen
)

// replayFields returns the tensors of a Replay; see NewReplay.
func replayFields(rollout []tensor.Field, stacks Stacks, envs, capacity int) (fields []tensor.Field) {
	for _, f := range rollout {
		name, stack := stacks.of(f.Name)
		switch {
		case stack == 0:
			fields = append(fields, tensor.Field{Name: f.Name, DType: f.DType,
				Shape: append([]int{envs, capacity}, f.Shape[2:]...)})
		case !isNext(f.Name):
			fields = append(fields, frameFields(f, name, stack, envs, capacity)...)
		}
	}
	return fields
}

// isNext reports whether a tensor of rollouts is an observation after the step.
func isNext(name string) bool { return strings.HasPrefix(name, NextObservations+".") }

// ReplayBytes returns the size in bytes of the memory of a Replay. The arguments are those of NewReplay. If no machine
// has as much memory, it returns the largest int.
func ReplayBytes(rollout []tensor.Field, stacks Stacks, envs, capacity int) int {
	const most = 1 << 56
	for _, f := range rollout {
		f.Shape = f.Shape[2:]
		if float64(envs)*float64(capacity)*float64(f.Bytes()) > most {
			return math.MaxInt
		}
	}
	return tensor.NewLayout(replayFields(rollout, stacks, envs, capacity)...).Size()
}

// NewReplay returns a Replay with room for capacity steps of each environment. Rollouts have the given fields,
// [T,N,...]. The observations in stacks are stored as frames. If episodes are very short, fewer steps fit; see frames.
func NewReplay(rollout []tensor.Field, stacks Stacks, envs, capacity int, alloc tensor.Allocator) (*Replay, error) {
	all, err := newRings(rollout, stacks, envs, capacity, alloc)
	if err != nil {
		return nil, err
	}
	return replayIn(all, tensor.New(tensor.I64, cursorLen), rollout, stacks)
}

// newRings returns the memory of a Replay; see NewReplay.
func newRings(rollout []tensor.Field, stacks Stacks, envs, capacity int, alloc tensor.Allocator) (tensor.Dict, error) {
	layout := tensor.NewLayout(replayFields(rollout, stacks, envs, capacity)...)
	mem, err := alloc(layout.Size())
	if err != nil {
		return tensor.Dict{}, fmt.Errorf("memory of the replay buffer: %w", err)
	}
	return layout.Bind(mem), nil
}

// replayIn returns a Replay in memory from newRings, with the given cursor; see NewReplay.
func replayIn(all tensor.Dict, cursor tensor.Tensor, rollout []tensor.Field, stacks Stacks) (*Replay, error) {
	r := &Replay{stride: 1, cursor: cursor}
	for name, t := range map[string]*tensor.Tensor{FieldReward: &r.reward, FieldTerminated: &r.terminated,
		FieldTruncated: &r.truncated} {
		var ok bool
		if *t, ok = all.Get(name); !ok {
			return nil, fmt.Errorf("rollouts without %s", name)
		}
	}
	r.envs, r.capacity = r.reward.Dim(0), r.reward.Dim(1)
	r.status, _ = all.Get(FieldStatus)
	for _, f := range rollout {
		f.Shape = f.Shape[2:]
		c := replayColumn{Field: f, size: f.Bytes(), next: isNext(f.Name)}
		if name, stack := stacks.of(f.Name); stack == 0 {
			c.data = all.Must(f.Name)
		} else if c.frames = r.framesOf(name); c.frames == nil {
			c.frames = newFrames(name, stack, all)
			r.frames = append(r.frames, c.frames)
		}
		r.columns = append(r.columns, c)
	}
	return r, nil
}

// framesOf returns the frames of an observation, or nil if r has none for it yet.
func (r *Replay) framesOf(name string) *frames {
	if i := slices.IndexFunc(r.frames, func(f *frames) bool { return f.name == name }); i >= 0 {
		return r.frames[i]
	}
	return nil
}

// column returns the ring of the column with the given name, [envs, capacity, ...].
func (r *Replay) column(name string) (t tensor.Tensor, ok bool) {
	for _, c := range r.columns {
		if c.Name == name {
			return c.data, true
		}
	}
	return t, false
}

// Size returns the number of steps of each environment that can be drawn. These are the newest steps.
func (r *Replay) Size() int { return r.size }

// Total returns the number of steps of each environment that were ever added.
func (r *Replay) Total() int64 { return r.cursor.I64()[ringTotal] }

// Add copies the steps of a rollout, [T,N,...], into r. In a full ring, the new steps replace the oldest steps.
func (r *Replay) Add(rollout tensor.Dict) error {
	c := r.cursor.I64()
	steps := 0
	for _, col := range r.columns {
		src, ok := rollout.Get(col.Name)
		if !ok {
			return fmt.Errorf("no %s", col.Name)
		}
		steps = src.Dim(0)
		if src.Dim(1) != r.envs || len(src.Bytes()) != steps*r.envs*col.size || steps > r.capacity {
			return fmt.Errorf("%s is %v: expected steps of %d environments, at most %d", col.Name, src, r.envs,
				r.capacity)
		}
		if col.frames != nil {
			continue
		}
		from, to := src.Bytes(), col.data.Bytes()
		for t := range steps {
			at := (int(c[ringNext]) + t) % r.capacity
			for n := range r.envs {
				copy(to[(n*r.capacity+at)*col.size:][:col.size], from[(t*r.envs+n)*col.size:])
			}
		}
	}
	for _, f := range r.frames {
		obs, next := rollout.Must(f.obs), rollout.Must(f.next)
		for t := range steps {
			obs, next := obs.At(t), next.At(t)
			for n := range r.envs {
				f.add(n, int(c[ringNext])+t, c[ringSize] > 0 || t > 0, obs.At(n).Bytes(), next.At(n).Bytes())
			}
		}
	}
	r.abort(int(c[ringNext]), steps, int(min(c[ringSize], int64(r.capacity-steps))))
	c[ringSize] = min(c[ringSize]+int64(steps), int64(r.capacity))
	c[ringNext] = (c[ringNext] + int64(steps)) % int64(r.capacity)
	c[ringTotal] += int64(steps)
	r.findSize()
	return nil
}

// findSize sets r.size. Call it after steps were added or loaded.
func (r *Replay) findSize() {
	c := r.cursor.I64()
	r.size = int(c[ringSize])
	for _, f := range r.frames {
		r.size = f.held(r.size, int(c[ringNext]))
	}
}

// The values of env.Step.Status that this package uses.
const (
	normal  = 0
	aborted = 1
)

// abort marks all steps of aborted episodes as aborted and truncated. It looks for aborted episodes in the newest
// steps. start is the place of the first of these steps, steps is their number, and numOlder is the number of steps
// before them.
func (r *Replay) abort(start, steps, numOlder int) {
	if r.status.IsZero() {
		return
	}
	terminated, truncated, status := r.terminated.U8(), r.truncated.U8(), r.status.U8()
	for n := range r.envs {
		place := func(t int) int { return n*r.capacity + (start+t+r.capacity)%r.capacity }
		for t := range steps {
			if status[place(t)] == normal {
				continue
			}
			for s := t - 1; s >= -numOlder && terminated[place(s)]|truncated[place(s)] == 0; s-- {
				status[place(s)], truncated[place(s)] = aborted, 1
			}
		}
	}
}

// push copies step t of environment n of a rollout, [T,N,...], into r, which must be the Replay of one environment. The
// caller must call findSize afterwards.
func (r *Replay) push(rollout tensor.Dict, t, n int) {
	c := r.cursor.I64()
	at := int(c[ringNext])
	for _, col := range r.columns {
		if col.frames == nil {
			src := rollout.Must(col.Name)
			copy(col.data.Bytes()[at*col.size:][:col.size], src.Bytes()[(t*src.Dim(1)+n)*col.size:])
		}
	}
	for _, f := range r.frames {
		f.add(0, at, c[ringSize] > 0, rollout.Must(f.obs).At(t).At(n).Bytes(), rollout.Must(f.next).At(t).At(n).Bytes())
	}
	c[ringSize] = min(c[ringSize]+1, int64(r.capacity))
	c[ringNext] = (c[ringNext] + 1) % int64(r.capacity)
	c[ringTotal]++
}

// interrupt truncates each episode that goes on after the newest step.
func (r *Replay) interrupt() {
	c := r.cursor.I64()
	for n := range r.envs * int(min(c[ringSize], 1)) {
		at := n*r.capacity + (int(c[ringNext])-1+r.capacity)%r.capacity
		if r.terminated.U8()[at] == 0 {
			r.truncated.U8()[at] = 1
		}
	}
}

// place returns the index of transition k in the rings. Transitions are numbered as in Draw.
func (r *Replay) place(k int) int {
	size := r.Size()
	return k/size*r.capacity + (int(r.cursor.I64()[ringNext])-size+k%size+r.capacity)%r.capacity
}

// redraws is the maximum number of times that Draw draws again because a transition belongs to an aborted episode. 100
// is more than enough if there are other transitions.
const redraws = 100

// Draw fills rows with the numbers of random transitions, drawn uniformly and with replacement. Transition k is step
// k%Size of environment k/Size; step 0 is the oldest. Draw avoids transitions of aborted episodes.
func (r *Replay) Draw(rows []int32, s *philox.Stream) {
	n, status := r.envs*r.Size(), r.status.U8()
	for i := range rows {
		rows[i] = int32(s.IntN(n))
		if status == nil {
			continue
		}
		for range redraws {
			if status[r.place(int(rows[i]))] == normal {
				break
			}
			rows[i] = int32(s.IntN(n))
		}
	}
}

// Transitions are a batch drawn from a Replay. All batches use the same memory.
type Transitions struct {
	// The observations by name, without the prefix, each [n, ...]: Obs before the first step, Next after the last step.
	Obs, Next tensor.Dict
	Action    tensor.Tensor // [n,C,A]
	Reward    []float32     // Σ_{i<k} γⁱ r_i over k steps: n_step, or fewer at the end of the episode or of the buffer
	Discount  []float32     // γᵏ; 0 if the target does not bootstrap from Next
	columns   []tensor.Tensor
	last      []int   // place of the last step of each transition
	goals     []int32 // with hindsight: the goal of each transition; see hindsight.draw
}

// NewBatch returns memory for the given number of transitions.
func (r *Replay) NewBatch(rows int) *Transitions {
	b := &Transitions{Reward: make([]float32, rows), Discount: make([]float32, rows), last: make([]int, rows)}
	if r.hindsight != nil {
		b.goals = make([]int32, rows)
	}
	for _, c := range r.columns {
		t := tensor.New(c.DType, append([]int{rows}, c.Shape...)...)
		if c.pictures != nil {
			t = tensor.New(tensor.U8, append([]int{rows}, c.pictures.shape...)...)
		}
		if name, ok := strings.CutPrefix(c.Name, Observations+"."); ok {
			b.Obs.Set(name, t)
		} else if name, ok := strings.CutPrefix(c.Name, NextObservations+"."); ok {
			b.Next.Set(name, t)
		} else if c.Name == FieldAction {
			b.Action = t
		} else {
			t = tensor.Tensor{} // Gather reads this column in its ring, without a copy
		}
		b.columns = append(b.columns, t)
	}
	return b
}

// slice returns views of transitions lo to hi of b.
func (b *Transitions) slice(lo, hi int) *Transitions {
	s := &Transitions{
		Obs: b.Obs.Slice(lo, hi), Next: b.Next.Slice(lo, hi), Action: b.Action.Slice(lo, hi), Reward: b.Reward[lo:hi],
		Discount: b.Discount[lo:hi], last: b.last[lo:hi],
	}
	if b.goals != nil {
		s.goals = b.goals[lo:hi]
	}
	for _, c := range b.columns {
		if !c.IsZero() {
			c = c.Slice(lo, hi)
		}
		s.columns = append(s.columns, c)
	}
	return s
}

// Gather copies transitions into b. rows has their numbers, from Draw. The reward of a transition is the discounted sum
// over at most nStep steps. If bootstrapAlways is set, the discount is γᵏ also after terminated episodes. If an image
// cannot be decoded, Gather returns an error.
func (r *Replay) Gather(b *Transitions, rows []int32, nStep int, gamma float32, bootstrapAlways bool) error {
	return r.gather(b, 0, rows, nStep, gamma, bootstrapAlways)
}

// gather is Gather, but it writes to the rows of b from row first on.
func (r *Replay) gather(b *Transitions, first int, rows []int32, nStep int, gamma float32, bootstrapAlways bool) error {
	size := r.Size()
	reward, terminated, truncated := r.reward.F32(), r.terminated.U8(), r.truncated.U8()
	for i, k := range rows {
		i, age := first+i, int(k)%size
		last, sum, discount := r.place(int(k)), float32(0), float32(1)
		for n, j := 0, age; n < nStep && j < size; n, j = n+1, j+r.stride {
			last = r.place(int(k) + j - age)
			sum += discount * reward[last]
			discount *= gamma
			if terminated[last]|truncated[last] != 0 {
				break
			}
		}
		if terminated[last] != 0 && !bootstrapAlways {
			discount = 0
		}
		b.Reward[i], b.Discount[i], b.last[i] = sum, discount, last
		if r.hindsight != nil {
			r.hindsight.relabel(b, i, int(k), nStep, gamma, bootstrapAlways)
		}
	}
	for c, col := range r.columns {
		if b.columns[c].IsZero() {
			continue
		}
		dst := b.columns[c].Bytes()
		size := len(dst) / b.columns[c].Dim(0)
		for i, k := range rows {
			i := first + i
			at, dst := b.last[i], dst[i*size:][:size]
			if !col.next {
				at = r.place(int(k))
			}
			switch {
			case col.frames != nil:
				col.frames.gather(dst, at, col.next)
			case col.pictures == nil:
				copy(dst, col.data.Bytes()[at*size:])
			default:
				if err := col.pictures.Decode(dst, int(col.data.I32()[at])); err != nil {
					return fmt.Errorf("%s of transition %d: %w", col.Name, k, err)
				}
			}
		}
	}
	if r.hindsight != nil {
		r.hindsight.show(b)
	}
	return nil
}

// savedAborted is the value of "truncated" in saved states for a step whose status is not normal. So saved states need
// no tensor of statuses, and all have the same tensors.
const savedAborted = 2

// replayPrefix is the prefix of the names of rings in saved states.
const replayPrefix = "env.replay."

// save adds views of the cursor and of the rings to d.
func (r *Replay) save(d *tensor.Dict) {
	d.Set("replay.cursor", r.cursor)
	for _, c := range r.columns {
		if c.frames != nil {
			d.Set(replayPrefix+framesPrefix+c.frames.name, c.frames.data)
			d.Set(replayPrefix+stacksPrefix+c.frames.name, c.frames.stacks)
			continue
		}
		if c.Name == FieldStatus {
			continue
		}
		t := c.data
		if c.Name == FieldTruncated && !r.status.IsZero() {
			t = t.Clone()
			for i, status := range r.status.U8() {
				if status != normal {
					t.U8()[i] = savedAborted
				}
			}
		}
		d.Set(replayPrefix+c.Name, t)
	}
}

// used returns, by name, the number of places in use of each ring that save has added to d. A ring of frames uses at
// most one place for each step that was ever added, plus extra places.
func (r *Replay) used(d tensor.Dict, extra int) map[string]int {
	used := map[string]int{}
	for i := range d.Len() {
		name, t := d.Entry(i)
		if ring, ok := strings.CutPrefix(name, replayPrefix); ok {
			used[name] = int(r.cursor.I64()[ringSize])
			if strings.HasPrefix(ring, framesPrefix) {
				used[name] = int(min(r.Total()+int64(extra), int64(t.Dim(1))))
			}
		}
	}
	return used
}

// extra returns how many more frames than steps were ever added: the maximum over the rings of frames.
func (r *Replay) extra() (n int) {
	for _, f := range r.frames {
		n = max(n, f.used(int(r.cursor.I64()[ringNext]))-int(min(r.Total(), int64(f.room))))
	}
	return n
}

// packRings replaces each ring in d, [envs, capacity, ...], by a copy of its places in use. The map used has their
// number, by name.
func packRings(d *tensor.Dict, used map[string]int) {
	for i := range d.Len() {
		name, t := d.Entry(i)
		steps, ok := used[name]
		if !ok || t.Dim(1) == steps {
			continue
		}
		envs, ring := t.Dim(0), len(t.Bytes())/t.Dim(0)
		used := ring / t.Dim(1) * steps
		packed := tensor.New(t.DType(), append([]int{envs, steps}, t.Shape()[2:]...)...)
		for n := range envs {
			copy(packed.Bytes()[n*used:(n+1)*used], t.Bytes()[n*ring:])
		}
		d.Set(name, packed)
	}
}

// load restores the state that save added to d. Rings may be packed: see packRings.
func (r *Replay) load(d tensor.Dict) error {
	cursor, ok := d.Get("replay.cursor")
	if !ok || !cursor.SameShape(r.cursor) {
		return fmt.Errorf("replay.cursor is %v, expected %v", cursor, r.cursor)
	}
	size := int(cursor.I64()[ringSize])
	if size < 0 || size > r.capacity || cursor.I64()[ringNext] < 0 || cursor.I64()[ringNext] >= int64(r.capacity) {
		return fmt.Errorf("replay.cursor: %v: expected at most %d steps", cursor.I64(), r.capacity)
	}
	for _, c := range r.columns {
		if c.Name == FieldStatus || c.frames != nil {
			continue
		}
		if err := loadRings(d, c.Name, c.data, size); err != nil {
			return err
		}
	}
	for _, f := range r.frames {
		if err := f.load(d, size, int(cursor.I64()[ringNext])); err != nil {
			return err
		}
	}
	r.cursor.CopyFrom(cursor)
	if !r.status.IsZero() {
		truncated, status := r.truncated.U8(), r.status.U8()
		for i, x := range truncated {
			if status[i] = normal; x == savedAborted {
				truncated[i], status[i] = 1, aborted
			}
		}
	}
	r.findSize()
	return nil
}

// loadRings copies the rings called name in d to rings, [envs, capacity, ...]. steps is the number of steps to copy.
// The rings in d may be packed, but must have at least this number of steps.
func loadRings(d tensor.Dict, name string, rings tensor.Tensor, steps int) error {
	t, ok := d.Get(replayPrefix + name)
	envs, size := rings.Dim(0), len(rings.Bytes())/(rings.Dim(0)*rings.Dim(1))
	if !ok || t.DType() != rings.DType() || t.Rank() < 2 || t.Dim(1) < steps || t.Dim(1) > rings.Dim(1) ||
		len(t.Bytes()) != envs*t.Dim(1)*size {
		return fmt.Errorf("%s%s is %v, expected %v with %d steps", replayPrefix, name, t, rings, steps)
	}
	ring := t.Dim(1) * size
	if steps == 0 || &t.Bytes()[0] == &rings.Bytes()[0] { // d has the rings themselves, which the caller has filled
		return nil
	}
	for n := range envs {
		copy(rings.Bytes()[n*rings.Dim(1)*size:], t.Bytes()[n*ring:][:steps*size])
	}
	return nil
}
