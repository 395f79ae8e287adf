package state

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A farm has some of n environments, with a state and a ring of steps for each.
type farm struct {
	rows  nn.Slice
	state tensor.Dict   // tensors of every type
	ring  tensor.Tensor // F32 [envs, capacity, 2]
	steps int           // steps in each ring
	taken int64         // a counter that only moves carry
}

const capacity = 5

func newFarm(lo, hi, n, steps int) *farm {
	rows := nn.Slice{From: lo, To: hi, Whole: n}
	return &farm{rows: rows, ring: tensor.New(tensor.F32, hi-lo, capacity, 2), steps: steps}
}

// parts lists the state of f. Environments that cannot save their state have only their seeds.
func (f *farm) parts(seedsOnly bool) []Part {
	return []Part{Tensors{File: EnvFile, Except: "ring", Slice: f.rows, Save: func() (d tensor.Dict, err error) {
		for i := range f.state.Len() {
			if name, x := f.state.Entry(i); !seedsOnly || name == "I64" {
				d.Set(name, x)
			}
		}
		return d, nil
	}, Load: func(d tensor.Dict) error {
		f.state = d
		return nil
	}}.Part(), {File: EnvFile, Make: func() ([]Part, error) {
		return []Part{RingPart(EnvFile, "ring", f.ring, f.steps, f.rows)}, nil
	}, Fill: func(given Given) ([]Part, func() error) {
		ring, _ := given.Find(EnvFile, "ring")
		f.steps = ring.Shape[1]
		return []Part{RingPart(EnvFile, "ring", f.ring, f.steps, f.rows)}, nil
	}}, Number(Moves, "taken", f.taken, func(n int64) { f.taken = n })}
}

// grown returns a farm of n environments with random states.
func grownFarm(n, steps int) *farm {
	f, r := newFarm(0, n, n, steps), rand.New(rand.NewPCG(1, 7))
	for i, dtype := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
		f.state.Set(dtype.String(), tensor.New(dtype, append([]int{n}, [][]int{{}, {3}, {2, 2}, {1}, {5}}[i]...)...))
	}
	f.ring, f.taken = tensor.New(tensor.F32, n, capacity, 2), 7
	for _, x := range append(slices.Collect(values(f.state)), f.ring) {
		for k := range x.Bytes() {
			x.Bytes()[k] = byte(r.Uint32())
		}
	}
	return f
}

func values(d tensor.Dict) func(func(tensor.Tensor) bool) {
	return func(yield func(tensor.Tensor) bool) {
		for i := range d.Len() {
			if _, x := d.Entry(i); !yield(x) {
				return
			}
		}
	}
}

// same compares f with the environments of whole that it has.
func (f *farm) same(whole *farm) error {
	if err := rolestest.SameDict(f.state, whole.state.Slice(f.rows.From, f.rows.To)); err != nil {
		return err
	}
	if f.steps != whole.steps {
		return fmt.Errorf("%d steps, want %d", f.steps, whole.steps)
	}
	for n := range f.rows.To - f.rows.From {
		got, want := f.ring.At(n).Slice(0, f.steps), whole.ring.At(f.rows.From+n).Slice(0, f.steps)
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			return fmt.Errorf("other steps of environment %d", f.rows.From+n)
		}
	}
	return nil
}

// TestRowsOfAnySplit: states of environments and their rings have the same file for any division among ranks. Ranks
// that divide the environments in another way can load it.
func TestRowsOfAnySplit(t *testing.T) {
	const n = 9
	for _, steps := range []int{0, 3, capacity} {
		whole := grownFarm(n, steps)
		var want []byte
		for split := range 10 {
			r := rand.New(rand.NewPCG(uint64(split), 3))
			cuts := [2][]int{{0, n}, {0, n}} // of the farms that save, and of those that load
			for i := range cuts {
				for range r.IntN(worldSize) {
					cuts[i] = append(cuts[i], r.IntN(n))
				}
				slices.Sort(cuts[i])
				cuts[i] = slices.Compact(cuts[i])
			}
			err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
				c spmd.Comm) error {
				var saved, loaded []Part
				var farms []*farm
				if at := (rank + split) % worldSize; at+1 < len(cuts[0]) {
					lo, hi := cuts[0][at], cuts[0][at+1]
					f := newFarm(lo, hi, n, steps)
					f.state, f.ring = whole.state.Slice(lo, hi), whole.ring.Slice(lo, hi)
					saved = f.parts(false)
				}
				if rank+1 < len(cuts[1]) {
					farms = []*farm{newFarm(cuts[1][rank], cuts[1][rank+1], n, -1)}
					loaded = farms[0].parts(false)
				}
				var b bytes.Buffer
				err := collect(ctx, g, c, saved, 40, func(c *Collection) error { return c.Write(&b, EnvFile) })
				if err != nil {
					return err
				}
				file, err := g.Gather(ctx, b.Bytes(), 0)
				if err != nil {
					return err
				}
				if rank == 0 && want == nil {
					want = slices.Clone(file[0])
				}
				if rank == 0 && !bytes.Equal(file[0], want) {
					return fmt.Errorf("other bytes: %d, want %d", len(file[0]), len(want))
				}
				if err := g.Barrier(ctx); err != nil {
					return err
				}
				reader, err := tensor.NewSafetensorsReader(bytes.NewReader(want), int64(len(want)))
				if err == nil {
					err = distribute(ctx, g, []StateFile{{EnvFile, reader.Fields, reader}}, loaded, 40)
				}
				for _, f := range farms {
					if err == nil {
						err = f.same(whole)
					}
				}
				return err
			})
			test.OK(t, err, "%d steps, from %v to %v", steps, cuts[0], cuts[1])
		}
	}
}

// TestPartial: a tensor that only some environments have is in no file.
func TestPartial(t *testing.T) {
	whole := grownFarm(4, 1)
	var b bytes.Buffer
	err := rolestest.OnRanks(t, 2, func(ctx context.Context, rank int, g *collectives.Group, c spmd.Comm) error {
		f := newFarm(2*rank, 2*rank+2, 4, 1)
		f.state = whole.state.Slice(2*rank, 2*rank+2)
		return Collect(ctx, g, c, f.parts(rank == 0), func(c *Collection) error { return c.Write(&b, EnvFile) })
	})
	test.OK(t, err)
	d, _, err := tensor.ReadSafetensors(b.Bytes())
	if _, ok := d.Get("I64"); err != nil || !ok || d.Len() != 2 { // and the ring
		t.Errorf("%v, %v", d, err)
	}
}

// TestRingsAreNotCopied: a replay buffer may fill most of the memory. Its parts are its own memory.
func TestRingsAreNotCopied(t *testing.T) {
	for _, steps := range []int{3, capacity} {
		f := grownFarm(4, steps)
		p := RingPart(EnvFile, "ring", f.ring, steps, f.rows)
		if &p.Memory[0] != &f.ring.Bytes()[0] || p.size() != 4*steps*8 {
			t.Errorf("%d steps: %d bytes", steps, p.size())
		}
	}
}

// A packed successor gets the state that its predecessor has on another rank, or on the same one, whatever the sizes
// of the runs in memory. A Pack has no bytes beside the state.
func TestMove(t *testing.T) {
	const piece = 9_999 // cuts elements
	for d, scale := range map[division]int{{1, 0, 1, 0, 0}: 1, {2, 1, 2, 1, 0}: 50, {1, 0, 1, 0, 5}: 1} {
		whole, files := filled(t, scale)
		var sent meter
		err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
			c spmd.Comm) error {
			before := newState(t, d, rank, scale)
			if err := Distribute(ctx, g, sources(t, files, rank, plain), before.parts()); err != nil {
				return err
			}
			farms := grownFarm(9, 3)
			pack, err := NewPack(append(before.parts(), farms.parts(false)...))
			if err != nil {
				return err
			}
			from := (rank + worldSize - 1) % worldSize
			var got Pack
			for sender := range worldSize {
				if sender == rank {
					err = pack.send(ctx, &metered{c, &sent, 0}, (rank+1)%worldSize, piece)
				}
				if sender == from && err == nil {
					got, err = receive(ctx, c, from, piece)
				}
				if err != nil {
					return err
				}
			}
			after, farmAfter := newState(t, d, from, scale), newFarm(0, 9, 9, -1)
			for _, k := range []Pack{got, got.Clone()} {
				if err := k.Take(append(after.parts(), farmAfter.parts(false)...)); err != nil {
					return err
				}
				if err := after.same(whole); err != nil {
					return err
				}
				if err := farmAfter.same(farms); err != nil || farmAfter.taken != farms.taken {
					return fmt.Errorf("taken %d: %w", farmAfter.taken, err)
				}
				farmAfter.taken = 0
				clear(farmAfter.ring.F32())
			}
			if err := got[1:].Take(after.parts()); after != nil && err == nil {
				t.Error("a pack without the first part was taken")
			}
			return nil
		})
		test.OK(t, err, "%v", d)
		if n := sent.largest.Load(); n > 2*piece || scale > 1 && n < piece {
			t.Errorf("%v: the largest message has %d bytes, want %d", d, n, piece)
		}
	}
	f := grownFarm(9, 3)
	pack, err := NewPack(f.parts(false))
	if want := 9*(4+24+16+8+5) + 9*3*8 + 8; err != nil || pack.Bytes() != want {
		t.Errorf("%d bytes, %v, want %d", pack.Bytes(), err, want)
	}
}
