package nn

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestParamsLayout(t *testing.T) {
	p := new(Params[float32])
	p.Group("actor")
	a := p.Add("a", 3, 5) // 15 elements, 16 with the gap
	b := p.Add("b", 16)
	p.Group("critic")
	c := p.Add("c", 17)
	p.AddBuffer("count", 1)
	p.AddBuffer("mean", 3)
	test.OK(t, p.Alloc(tensor.Heap))

	if got, want := p.Len(), 15+16+17; got != want {
		t.Errorf("Len: %d, want %d", got, want)
	}
	if len(p.Data) != 64 || len(p.Grad) != 64 {
		t.Errorf("flat buffers of %d and %d, want 64", len(p.Data), len(p.Grad))
	}
	for i, want := range []int{0, 16, 32} {
		if p.Fields[i].Off != want {
			t.Errorf("field %s at %d, want %d", p.Fields[i].Name, p.Fields[i].Off, want)
		}
	}
	wantGroups := []ParamGroup{{"actor", 0, 32, true}, {"critic", 32, 64, true}}
	for i, g := range p.Groups {
		test.Equal(t, g, wantGroups[i], "group")
	}
	p.Of(c)[16] = 7
	p.GradOf(b)[0] = 8
	if p.Data[48] != 7 || p.Grad[16] != 8 || len(p.Of(a)) != 15 {
		t.Error("Of and GradOf are no views at the field's offset")
	}
	if lo, hi := p.Range(b, c); lo != 16 || hi != 64 {
		t.Errorf("Range: [%d,%d), want [16,64)", lo, hi)
	}
	if m := p.Buffers.Must("mean"); m.DType() != tensor.F64 || m.Len() != 3 {
		t.Errorf("buffer mean is %v", m)
	}
}

// After View, parameters and buffers of both sides are the same memory. After a View of the first state again, both
// sides keep their values.
func TestViewSharesParametersAndBuffers(t *testing.T) {
	build := func() *Params[float32] {
		p := new(Params[float32])
		p.Group("g")
		p.Add("w", 3, 5)
		p.AddBuffer("count", 1)
		p.AddBuffer("mean", 9)
		test.OK(t, p.Alloc(tensor.Heap))
		return p
	}
	a, b := build(), build()
	own := b.State()
	a.Of(0)[14], a.Buffers.Must("count").F64()[0], a.Buffers.Must("mean").F64()[8] = 7, 3, 2
	b.View(a.State())
	if b.Of(0)[14] != 7 || b.Buffers.Must("count").F64()[0] != 3 || b.Buffers.Must("mean").F64()[8] != 2 {
		t.Errorf("the view reads %v, %v, %v", b.Of(0), b.Buffers.Must("count").F64(), b.Buffers.Must("mean").F64())
	}
	d := a.Layout().Bind(a.State())
	for i := range d.Len() {
		if name, x := d.Entry(i); name == "w" && x.F32()[14] != 7 || name == "mean" && x.F64()[8] != 2 {
			t.Errorf("the layout has another %s: %v", name, x)
		}
	}
	test.NoAllocs(t, 10, func() { b.View(a.State()) }, "View")
	b.View(own)
	if b.Of(0)[14] != 0 || b.Buffers.Must("mean").F64()[8] != 0 || a.Of(0)[14] != 7 {
		t.Error("taken back, the view is not what it was")
	}
	defer func() {
		if recover() == nil {
			t.Error("a view of another size does not panic")
		}
	}()
	b.View(own[:64])
}

func TestParamsBrokenPromises(t *testing.T) {
	for name, f := range map[string]func(){
		"no group": func() { new(Params[float32]).Add("w", 1) },
		"twice":    func() { p := new(Params[float32]); p.Group("g"); p.Add("w", 1); p.Add("w", 1) },
		"too late": func() {
			p := new(Params[float32])
			p.Group("g")
			p.Add("w", 1)
			p.Alloc(tensor.Heap)
			p.Add("v", 1)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestAllocReportsTheAllocator(t *testing.T) {
	p := new(Params[float32])
	p.Group("g")
	p.Add("w", 1)
	full := errors.New("no room")
	err := p.Alloc(func(int) ([]byte, error) { return nil, full })
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "parameters") {
		t.Errorf("got %v", err)
	}
}
