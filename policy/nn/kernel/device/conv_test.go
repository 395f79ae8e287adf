package device

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A vision is a network that reads images, and numbers beside them if it has any.
type vision struct {
	image           nn.Image
	frames, numbers int
	layers          []nn.Layer
}

// visions have windows that overlap, leave pixels out, and reach over the edges. Some products are narrow.
func visions() map[string]vision {
	image, relu := nn.Input("image"), nn.Activate(nn.ReLU)
	return map[string]vision{
		"stride 2": {nn.Image{H: 9, W: 8, C: 3}, 1, 0,
			[]nn.Layer{image, nn.Conv(5, 4, 2, 0), relu, nn.Conv(20, 3, 1, 0), relu, nn.Dense(7)}},
		"frame": {nn.Image{H: 7, W: 5, C: 2}, 2, 0, []nn.Layer{image, nn.Conv(6, 3, 1, 1), nn.Conv(3, 3, 2, 1), relu}},
		"few filters": {nn.Image{H: 6, W: 6, C: 4}, 1, 0,
			[]nn.Layer{image, nn.Conv(2, 3, 1, 2), nn.Conv(33, 1, 1, 0), nn.Conv(1, 5, 3, 2)}},
		"gaps": {nn.Image{H: 11, W: 10, C: 1}, 1, 0,
			[]nn.Layer{image, nn.Conv(17, 2, 3, 0), relu, nn.Conv(4, 2, 3, 1)}},
		"beside numbers": {nn.Image{H: 5, W: 5, C: 3}, 1, 4, []nn.Layer{
			nn.Concat(nn.Sequence(image, nn.Conv(3, 3, 1, 0)), nn.Input("numbers")),
			nn.Dense(9), nn.Activate(nn.Tanh), nn.Concat(nn.Dense(3), nn.Dense(2))}},
	}
}

// compare makes two passes of v on the CPU and on the device. It checks that outputs, and gradients of weights and of
// images between layers, have the same bits.
func (m *machine) compare(t testing.TB, v vision) {
	const rows = 3
	sources := []nn.Source{{Name: "image", Image: v.image, Frames: v.frames, Range: [2]float64{-1, 1}}}
	if v.numbers > 0 {
		sources = append(sources, nn.Source{Name: "numbers", Width: v.numbers})
	}
	b := nn.Batch[float32]{Rows: rows, Images: [][]uint8{make([]uint8, rows*v.frames*v.image.Len())}}
	for i := range b.Images[0] {
		b.Images[0][i] = uint8(m.random.Uint32())
	}
	x, seed := m.numbers(rows*v.numbers, 0), m.random.Uint64()
	var dy []float32
	run := func(p *nn.Params[float32]) (y, grad []float32) {
		p.Group("all")
		net := test.Must(nn.NewNet(p, "", nn.Sequence(v.layers...), sources))(t)
		test.OK(t, p.Alloc(tensor.Heap))
		net.Init(seed)
		p.Upload(p.Data)
		w := net.NewWork(rows + 1)
		for range 2 { // the second pass finds memory of the first
			b.Numbers = p.Import(p.Mirror(len(x)), x)
			y = net.Forward(w, b)
			if dy == nil {
				dy = m.numbers(len(y), 0)
			}
			net.SetOutGrad(w, dy)
			net.Backward(w, nil, nil)
		}
		return p.Export(p.Mirror(len(y)), y), p.Grad
	}
	y, grad := run(new(nn.Params[float32]))
	p := new(nn.Params[float32])
	p.UseDevice(m.device)
	gotY, gotGrad := run(p)
	m.same(gotY, y, "outputs")
	m.same(gotGrad, grad, "gradients")
	if slices.Max(y) == slices.Min(y) {
		t.Errorf("all outputs are %v", y[0])
	}
}

// Networks with convolutions have the bits of package kernel.
func TestConvolutions(t *testing.T) {
	t.Parallel()
	for name, v := range visions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newMachine(t, nil).compare(t, v)
		})
	}
}
