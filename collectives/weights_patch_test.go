package collectives

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// patchLayout returns a layout with every type and with tensors of different sizes.
func patchLayout() *tensor.Layout {
	return tensor.NewLayout(
		tensor.Field{Name: "scalar", DType: tensor.F32},
		tensor.Field{Name: "vector", DType: tensor.F32, Shape: []int{1000}},
		tensor.Field{Name: "wide", DType: tensor.F32, Shape: []int{3, 700}},
		tensor.Field{Name: "tall", DType: tensor.F32, Shape: []int{700, 3}},
		tensor.Field{Name: "four", DType: tensor.F32, Shape: []int{5, 4, 3, 7}},
		tensor.Field{Name: "empty", DType: tensor.F32, Shape: []int{0, 4}},
		tensor.Field{Name: "statistics", DType: tensor.F64, Shape: []int{90}},
		tensor.Field{Name: "bytes", DType: tensor.U8, Shape: []int{300}},
		tensor.Field{Name: "counts", DType: tensor.I64, Shape: []int{40}},
		tensor.Field{Name: "half", DType: tensor.BF16, Shape: []int{400}},
	)
}

// A pipe connects the two ends of a channel without a broadcast.
type pipe struct {
	sender, receiver channel
	src, dst         []byte // the states
	kinds            []byte
	sent             int // bytes of the last publication, without its head
}

func newPipe(t *testing.T, l *tensor.Layout, wire tensor.DType, patch PatchSpec, frozen []bool, state []byte) *pipe {
	t.Helper()
	spec := WeightsSpec{Layout: l, Wire: wire, Patch: &patch, Slots: 1, Frozen: frozen, State: state}
	p := &pipe{src: state, dst: tensor.New(tensor.U8, l.Size()).Bytes()}
	for _, c := range []*channel{&p.sender, &p.receiver} {
		*c = channel{spec: &spec, slots: 1}
		c.setFields()
	}
	var err error
	if p.sender.patch, err = newPatcher(tensor.Heap, &p.sender); err != nil {
		t.Fatal(err)
	}
	p.receiver.patch = &patcher{delta: patch.Delta}
	spec.copyState(p.dst, true)
	p.kinds = make([]byte, len(p.sender.fields))
	return p
}

// send updates dst to src.
func (p *pipe) send(t *testing.T) {
	t.Helper()
	patch := p.sender.patch.diff(p.kinds, 0, p.src)
	p.sent = len(patch)
	test.OK(t, p.receiver.patch.apply(p.receiver.fields, p.kinds, patch, p.dst))
	for i, f := range p.receiver.fields {
		if p.kinds[i] == sentWhole {
			p.sent += f.bytes
			f.fromWire(p.dst, p.sender.patch.images[0])
		}
	}
}

// mustEqual compares the states. F32 tensors may be rounded to the type of the wire.
func (p *pipe) mustEqual(t *testing.T, what string) {
	t.Helper()
	want := tensor.New(tensor.U8, len(p.src)).Bytes()
	p.sender.spec.copyState(want, true)
	l := p.sender.spec.Layout
	for i, f := range l.Fields() {
		lo := l.Offset(i)
		if !bytes.Equal(p.dst[lo:lo+f.Bytes()], want[lo:lo+f.Bytes()]) {
			t.Fatalf("%s: %s is not what was sent", what, f.Name)
		}
	}
}

// change writes new bits to a fraction of the elements of every tensor. Some of the bits are NaNs with payloads and
// negative zeros.
func change(r *rand.Rand, l *tensor.Layout, state []byte, share float64) (changed int) {
	for i, f := range l.Fields() {
		e, b := f.DType.Size(), state[l.Offset(i):][:f.Bytes()]
		for k := 0; k < len(b); k += e {
			if r.Float64() >= share {
				continue
			}
			changed++
			for j := range e {
				b[k+j] = byte(r.Uint32())
			}
			if f.DType == tensor.F32 && r.IntN(4) == 0 {
				bits := []uint32{0x80000000, 0, 0x7fc00001, 0xffc12345, 0x7f800000}[r.IntN(5)]
				view[uint32](b[k : k+4])[0] = bits
			}
		}
	}
	return changed
}

func TestPatchBringsReceiversUpToDate(t *testing.T) {
	for _, wire := range []tensor.DType{tensor.F32, tensor.BF16} {
		for _, delta := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v delta %v", wire, delta), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				l := patchLayout()
				state := tensor.New(tensor.U8, l.Size()).Bytes()
				change(r, l, state, 1)
				p := newPipe(t, l, wire, PatchSpec{Delta: delta}, nil, state)
				p.send(t)
				p.mustEqual(t, "first")
				for i, k := range p.kinds {
					if k != sentWhole {
						t.Errorf("the first %s does not travel whole", p.sender.fields[i].name)
					}
				}
				all := p.sent
				seen := map[byte]bool{}
				for _, share := range []float64{0, 0.001, 0.01, 0.1, 0.3, 0.6, 0.9, 1, 0, 0.002} {
					n := change(r, l, state, share)
					p.send(t)
					p.mustEqual(t, fmt.Sprintf("%d changed", n))
					if p.sent > all {
						t.Errorf("%d changed: %d bytes, the whole takes %d", n, p.sent, all)
					}
					if share < 0.02 && p.sent > n*(8+4)+patchHead*len(p.kinds)+16 {
						t.Errorf("%d changed: %d bytes", n, p.sent)
					}
					if n == 0 && p.sent != 0 {
						t.Errorf("nothing changed: %d bytes", p.sent)
					}
					for _, k := range p.kinds {
						seen[k] = true
					}
				}
				if len(seen) != 3 {
					t.Errorf("only %v of the three ways to travel were tried", seen)
				}
			})
		}
	}
}

// A distance below 256 takes one byte, wherever the first change is; an index takes four.
func TestDeltaIsSmaller(t *testing.T) {
	l := tensor.NewLayout(tensor.Field{Name: "w", DType: tensor.F32, Shape: []int{4, 5000}})
	for _, c := range []struct {
		delta    bool
		step     int
		perPlace int
	}{{false, 7, 4}, {true, 7, 1}, {true, 255, 1}, {true, 256, 4}} {
		state := tensor.New(tensor.U8, l.Size()).Bytes()
		p := newPipe(t, l, tensor.F32, PatchSpec{Delta: c.delta}, nil, state)
		p.send(t)
		for i := range 30 {
			view[float32](state)[10000+c.step*i] = 1
		}
		p.send(t)
		p.mustEqual(t, "neighbours")
		if want := patchHead + 30*(c.perPlace+4); p.sent != want {
			t.Errorf("delta %v, every %dth of 30: %d bytes, want %d", c.delta, c.step, p.sent, want)
		}
	}
}

func TestFrozenAndHeldTensors(t *testing.T) {
	l := tensor.NewLayout(tensor.Field{Name: "frozen", DType: tensor.F32, Shape: []int{64}},
		tensor.Field{Name: "held", DType: tensor.F32, Shape: []int{64}},
		tensor.Field{Name: "free", DType: tensor.F32, Shape: []int{64}})
	state := tensor.New(tensor.U8, l.Size()).Bytes()
	p := newPipe(t, l, tensor.F32, PatchSpec{Held: []bool{false, true, false}}, []bool{true, false, false}, state)
	x := view[float32](state)
	x[64] = 5
	p.send(t)
	p.mustEqual(t, "first")
	if want := []byte{sentWhole, sentSparse, sentWhole}; !bytes.Equal(p.kinds, want) {
		t.Errorf("the first time tensors travel as %v, want %v", p.kinds, want)
	}
	x[0], x[65] = 9, 6
	p.send(t)
	if want := []byte{notSent, sentSparse, notSent}; !bytes.Equal(p.kinds, want) {
		t.Errorf("then they travel as %v, want %v", p.kinds, want)
	}
	if got := view[float32](p.dst); got[0] != 0 || got[65] != 6 {
		t.Errorf("frozen %v, held %v", got[0], got[65])
	}
}

func TestDamagedPatchIsAnError(t *testing.T) {
	l := tensor.NewLayout(tensor.Field{Name: "w", DType: tensor.F32, Shape: []int{40, 30}})
	for _, delta := range []bool{false, true} {
		state := tensor.New(tensor.U8, l.Size()).Bytes()
		p := newPipe(t, l, tensor.F32, PatchSpec{Delta: delta}, nil, state)
		p.send(t)
		for _, k := range []int{0, 29, 30, 777, 1199} {
			view[float32](state)[k] = float32(math.Pi)
		}
		good := bytes.Clone(p.sender.patch.diff(p.kinds, 0, state))
		if p.kinds[0] != sentSparse {
			t.Fatal("it does not travel sparse")
		}
		apply := func(patch []byte) error { return p.receiver.patch.apply(p.receiver.fields, p.kinds, patch, p.dst) }
		test.OK(t, apply(good))
		for n := range good {
			test.Fails(t, apply(good[:n]), `"w"`, "cut to %d bytes", n)
		}
		if err := apply(append(bytes.Clone(good), 0)); err == nil {
			t.Error("a byte too many is no error")
		}
		r := rand.New(rand.NewPCG(3, 4))
		refused := 0
		for range 5000 { // no patch may write outside of the tensor
			bad := bytes.Clone(good)
			bad[r.IntN(patchHead+2*5)] = byte(r.Uint32())
			if apply(bad) != nil {
				refused++
			}
		}
		if refused < 1000 {
			t.Errorf("%d of 5000 damaged patches were refused", refused)
		}
	}
}

func TestPatchDoesNotAllocate(t *testing.T) {
	l := patchLayout()
	state := tensor.New(tensor.U8, l.Size()).Bytes()
	p := newPipe(t, l, tensor.BF16, PatchSpec{Delta: true}, nil, state)
	p.send(t)
	r := rand.New(rand.NewPCG(5, 6))
	test.NoAllocs(t, 20, func() { change(r, l, state, 0.05); p.send(t) })
}
