package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// weights measures the time from "the source has version v" to "every reader has computed once with v". The computation
// sums the whole state. Like the forward pass of a small batch, it is limited by memory bandwidth. For
// comparison, weights measures two more things, alternating with the first:
//
//   - the same computation and barriers, with a version of only two numbers. The difference is the time that the
//     weights take.
//   - one copy of the state by the source, without barriers.
//
// weights is collective over the world.
func (r *Run) weights(ctx context.Context, p *Suite) error {
	err := r.Columns("barrier, then: the source publishes, readers adopt and compute once, until all have (a "+
		"barrier); in turns with that computation on the word of a version of two numbers, and with one copy of the "+
		"state by the source",
		[]string{"op", "algo", "n", "size"}, []string{"forward_us", "net_us", "copy_us", "net_copies_x"})
	if err != nil {
		return err
	}
	ranks := append([]int{p.Source}, slices.DeleteFunc(slices.Clone(p.Readers), func(rank int) bool {
		return rank == p.Source
	})...)
	t, err := r.newTeam(ranks, "bench weights")
	if err != nil {
		return err
	}
	var memory [2][]byte // the source's state and its copy; all sizes use them
	if r.w.Rank() == p.Source {
		layout := p.spec("", slices.Max(p.Sizes)/4, 0).Layout
		if memory[0], err = r.w.Alloc(layout.Size()); err != nil {
			return err
		}
		memory[1] = make([]byte, layout.Size())
	}
	for _, size := range p.Sizes {
		for _, slots := range p.Slots {
			if r.stopped {
				return nil
			}
			if err := r.version(ctx, t, p, size/4*4, slots, memory); err != nil {
				return fmt.Errorf("weights of %s, %d slots: %w", report.Bytes(int64(size)), slots, err)
			}
		}
	}
	return nil
}

// version measures one size with one number of slots. memory holds the source's state and its copy.
func (r *Run) version(ctx context.Context, t *team, p *Suite, size, slots int, memory [2][]byte) error {
	b := &publisher{t: t, source: r.w.Rank() == p.Source, rounded: p.Wire == tensor.BF16,
		changes: max(1, int(p.Changed*float64(size/4))), published: make(chan error, 1)}
	err := r.measure(ctx, t, true, func() ([]*arm, func(), error) {
		if err := b.open(ctx, r.w, p, size, slots, memory); err != nil {
			return nil, nil, err
		}
		total := &arm{row: report.Measurement{Op: "weights", Algorithm: form(p, slots), Ranks: t.Size(),
			Size: int64(size)},
			loop: rounds(func() (time.Duration, error) { return b.sync(ctx) })}
		if p.Check {
			total.check = b.check
		}
		forward := &arm{hidden: true, loop: rounds(func() (time.Duration, error) { return b.bring(ctx, b.tiny) })}
		plain := &arm{hidden: true, call: func(context.Context, int) error {
			copy(b.copied, b.whole)
			return nil
		}}
		return []*arm{total, forward, plain}, func() {
			row := &total.row
			net := row.Median - forward.row.Median
			row.SetFigure("forward_us", forward.row.Median)
			row.SetFigure("net_us", net)
			row.SetFigure("copy_us", plain.row.Median)
			row.SetFigure("net_copies_x", net/plain.row.Median)
		}, nil
	})
	for _, c := range []*carrier{b.weights, b.tiny} {
		if b.source && c != nil {
			c.Close()
		}
	}
	return err
}

// open makes the two carriers and distributes a first version of the weights. This allocates the memory for later
// versions.
func (b *publisher) open(ctx context.Context, w *spmd.World, p *Suite, size, slots int,
	memory [2][]byte) (err error) {
	spec, tiny := p.spec(fmt.Sprintf("bench %d %d", size, slots), size/4, slots),
		p.spec(fmt.Sprintf("bench %d %d, tiny", size, slots), 2, slots)
	b.at, b.size = spec.Layout.Offset(0), size
	if b.source {
		n := spec.Layout.Size()
		spec.State, b.whole, b.copied = memory[0][:n:n], memory[0][:n], memory[1][:n]
		b.state = b.floats(spec.State)
		fill(b.state, 1)
		if tiny.State, err = w.Alloc(tiny.Layout.Size()); err != nil {
			return err
		}
	}
	if b.weights, err = newCarrier(ctx, w, spec); err != nil {
		return err
	}
	if b.tiny, err = newCarrier(ctx, w, tiny); err != nil {
		return err
	}
	_, err = b.sync(ctx)
	return err
}

// spec returns the spec of weights with n elements.
func (p *Suite) spec(label string, n, slots int) collectives.WeightsSpec {
	spec := collectives.WeightsSpec{
		Label: label, Layout: tensor.NewLayout(tensor.Field{Name: "weight", DType: tensor.F32, Shape: []int{n}}),
		Sources: []int{p.Source}, Readers: p.Readers, Slots: slots, Wire: p.Wire, Bucket: p.Bucket,
		Group: collectives.Options{Fast: true},
	}
	if p.Patch {
		spec.Patch = &collectives.PatchSpec{Bucket: p.Bucket}
	}
	return spec
}

// form returns a name for the way in which the weights are sent, such as "slots=1+bf16".
func form(p *Suite, slots int) string {
	name := fmt.Sprintf("slots=%d", slots)
	if slots == 0 {
		name = "in-place"
	}
	if p.Wire == tensor.BF16 {
		name += "+bf16"
	}
	if p.Patch {
		name += "+patch"
	}
	return name
}

// A publisher takes part in the measurement on one rank. The rank is the source, a reader, or both.
type publisher struct {
	t             *team
	weights       *carrier
	tiny          *carrier // distributes a state of two numbers
	source        bool
	published     chan error // the result of Publish on a source that is also a reader
	state         []float32  // weights of the source
	changes       int        // elements that change from version to version
	whole, copied []byte     // the source's state, and a copy
	at, size      int        // offset and bytes of the weights in a state
	adopted       []float32  // the weights of the last version
	rounded       bool       // readers get weights that are rounded to bf16
	total         float32    // result of the last forward
}

// A carrier distributes versions of one state.
type carrier struct {
	*collectives.Weights
	reader  *collectives.WeightsReader // nil if this rank is only the source
	version int64
}

func newCarrier(ctx context.Context, w *spmd.World, spec collectives.WeightsSpec) (*carrier, error) {
	c := new(carrier)
	var err error
	if c.Weights, err = collectives.NewWeights(ctx, w, spec); err != nil {
		return nil, err
	}
	if i := slices.Index(spec.Readers, w.Rank()); i >= 0 {
		c.reader = c.Reader(i)
	}
	return c, nil
}

// floats returns the weights in a state.
func (b *publisher) floats(state []byte) []float32 {
	return tensor.Of(state[b.at:][:b.size], tensor.F32, b.size/4).F32()
}

// rounds returns an arm.loop whose calls are rounds. round runs one round and returns its time.
func rounds(round func() (time.Duration, error)) func(batch int, ns []float64) error {
	return func(batch int, ns []float64) error {
		for i := range ns {
			ns[i] = 0
			for range batch {
				took, err := round()
				if err != nil {
					return err
				}
				ns[i] += float64(took)
			}
		}
		return nil
	}
}

// sync makes the next version of the weights and brings it to all readers.
func (b *publisher) sync(ctx context.Context) (time.Duration, error) {
	if b.source {
		fill(b.state[:b.changes], float32(b.weights.version+1))
	}
	return b.bring(ctx, b.weights)
}

// bring distributes the next version of c to all readers, which adopt it and compute. The time starts after a barrier
// of all ranks, when the source has the version.
func (b *publisher) bring(ctx context.Context, c *carrier) (time.Duration, error) {
	c.version++
	if err := b.t.barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	switch {
	case b.source && c.reader != nil: // concurrently, because with one slot Publish and Adopt wait for each other
		go func() { b.published <- c.Publish(ctx, c.version) }()
	case b.source:
		if err := c.Publish(ctx, c.version); err != nil {
			return 0, err
		}
	}
	if c.reader != nil {
		state, version, err := c.reader.Adopt(ctx, c.version)
		if err != nil {
			return 0, err
		}
		if version != c.version {
			return 0, fmt.Errorf("a reader adopted version %d: expected %d", version, c.version)
		}
		if c == b.weights {
			b.adopted = b.floats(state)
		}
		b.forward()
		if b.source {
			if err := <-b.published; err != nil {
				return 0, err
			}
		}
	}
	// The time ends when all ranks have computed, because ranks that share cores compute one after the other. The
	// barrier also keeps the source from changing a state that readers still use.
	err := b.t.barrier(ctx)
	return time.Since(start), err
}

// forward computes once with every weight.
func (b *publisher) forward() {
	var sums [8]float32
	x := b.adopted
	for ; len(x) >= 8; x = x[8:] {
		for i, v := range x[:8] {
			sums[i] += v
		}
	}
	b.total = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7]
}

// check calls sync, and returns the number of weights that are wrong on this rank.
func (b *publisher) check(ctx context.Context) (wrong int64, err error) {
	if _, err := b.sync(ctx); err != nil {
		return 0, err
	}
	for i, v := range b.adopted {
		want := float32(1)
		if i < b.changes {
			want = float32(b.weights.version)
		}
		if v != want && !(b.rounded && math.Abs(float64(v-want)) <= 0x1p-8*float64(want)) { // 8 significant bits
			wrong++
		}
	}
	return wrong, b.t.barrier(ctx) // the source must not change a state that readers still compare
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
