package nn_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// allocated gives p memory and fills it with small random numbers.
func allocated[T nn.Float](t testing.TB, p *nn.Params[T]) {
	t.Helper()
	test.OK(t, p.Alloc(tensor.Heap))
	for i := range p.Fields {
		randomize(p.Of(i), uint64(i))
	}
}

// convolved returns a convolution by its definition: y[oy,ox,f] = b[f] + Σ x[oy·stride-pad+ky, ox·stride-pad+kx,
// c]·W[ky,kx,c,f].
func convolved(c *nn.Conv2D[float64], x, weight, bias []float64, size, stride, pad int) []float64 {
	var y []float64
	for oy := range c.Out.H {
		for ox := range c.Out.W {
			for f := range c.Out.C {
				sum := bias[f]
				for ky := range size {
					for kx := range size {
						row, col := oy*stride-pad+ky, ox*stride-pad+kx
						if row < 0 || row >= c.In.H || col < 0 || col >= c.In.W {
							continue
						}
						for k := range c.In.C {
							sum += x[(row*c.In.W+col)*c.In.C+k] * weight[((ky*size+kx)*c.In.C+k)*c.Out.C+f]
						}
					}
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

func TestConv2D(t *testing.T) {
	for _, c := range []struct {
		in                         nn.Image
		filters, size, stride, pad int
		want                       nn.Image
	}{
		{nn.Image{H: 7, W: 5, C: 3}, 4, 3, 1, 1, nn.Image{H: 7, W: 5, C: 4}},
		{nn.Image{H: 8, W: 9, C: 2}, 3, 4, 2, 0, nn.Image{H: 3, W: 3, C: 3}},
		{nn.Image{H: 6, W: 4, C: 1}, 2, 3, 2, 1, nn.Image{H: 3, W: 2, C: 2}},
		{nn.Image{H: 2, W: 2, C: 3}, 5, 5, 1, 2, nn.Image{H: 2, W: 2, C: 5}},
	} {
		t.Run(fmt.Sprint(c.in, c.size, c.stride, c.pad), func(t *testing.T) {
			p := new(nn.Params[float64])
			p.Group("g")
			l := nn.NewConv2D(p, "c", c.in, c.filters, c.size, c.stride, c.pad)
			if l.Out != c.want {
				t.Fatalf("gives images %v, want %v", l.Out, c.want)
			}
			allocated(t, p)
			checkConv(t, p, l, c.size, c.stride, c.pad)
		})
	}
}

// checkConv compares a convolution with its definition, and its gradients with central differences.
func checkConv(t *testing.T, p *nn.Params[float64], l *nn.Conv2D[float64], size, stride, pad int) {
	t.Helper()
	const rows = 3
	w := usedConvWork(t, l)
	x, weight := make([]float64, rows*l.In.Len()), make([]float64, rows*l.Out.Len())
	randomize(x, 100)
	randomize(weight, 101)
	y, dy, dx := make([]float64, len(weight)), make([]float64, len(weight)), make([]float64, len(x))
	loss := func() float64 {
		l.Forward(w, y, x, rows)
		var sum float64
		for i := range y {
			sum += weight[i]*y[i] + 0.5*y[i]*y[i]
		}
		return sum
	}
	loss()
	for i := range rows {
		want := convolved(l, x[i*l.In.Len():(i+1)*l.In.Len()], p.Of(0), p.Of(1), size, stride, pad)
		for k, v := range want {
			if got := y[i*l.Out.Len()+k]; math.Abs(got-v) > 1e-12 {
				t.Fatalf("image %d, element %d: %v, want %v", i, k, got, v)
			}
		}
	}
	for i := range dy {
		dy[i] = weight[i] + y[i]
	}
	randomize(dx, 102) // Backward must overwrite it
	l.Backward(w, dx, x, dy, rows)
	if r := nntest.Params(p, loss); r.Checked != p.Len() || !(r.Worst < 1e-6) {
		t.Errorf("parameters: %+v, want %d checked, worst < 1e-6", r, p.Len())
	}
	if r := nntest.Gradients(x, dx, loss); r.Checked != len(x) || !(r.Worst < 1e-6) {
		t.Errorf("input: %+v, want %d checked, worst < 1e-6", r, len(x))
	}
}

// usedConvWork returns a work that has windows of another convolution.
func usedConvWork(t *testing.T, l *nn.Conv2D[float64]) *nn.ConvWork[float64] {
	t.Helper()
	p := new(nn.Params[float64])
	p.Group("g")
	other := nn.NewConv2D(p, "d", nn.Image{H: 9, W: 9, C: 36}, 1, 1, 1, 0)
	allocated(t, p)
	w, x := nn.NewConvWork(l, other), make([]float64, other.In.Len())
	randomize(x, 103)
	other.Forward(w, make([]float64, other.Out.Len()), x, 1)
	return w
}

func TestConv2DWantsAWindow(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a window of 8×8 fits into an image of 7×9")
		}
	}()
	p := new(nn.Params[float32])
	p.Group("g")
	nn.NewConv2D(p, "c", nn.Image{H: 7, W: 9, C: 3}, 1, 8, 4, 0)
}

// TestEmbedding compares features and gradient with those of a Linear on the one-hot code.
func TestEmbedding(t *testing.T) {
	bounds := nn.Choices{Low: []int{0, -1, 5}, High: []int{2, 0, 7}}
	choices := []int32{2, -1, 6 /**/, 0, 0, 6 /**/, 2, 0, 6}
	const rows, out, codes = 3, 4, 8
	p := new(nn.Params[float64])
	p.Group("g")
	e := test.Must(nn.NewNet(p, "e", nn.Embed("c", out), []nn.Source{{Name: "c", Choices: bounds}}))(t)
	l := nn.NewLinear(p, "l", codes, out)
	allocated(t, p)
	clear(l.Bias())
	copy(p.Of(1), p.Of(0))
	x := make([]float64, rows*codes)
	for i, c := range choices {
		x[i/3*codes+[]int{0, 3, 5}[i%3]+int(c)-bounds.Low[i%3]] = 1
	}
	want, dy := make([]float64, rows*out), make([]float64, rows*out)
	randomize(dy, 100)
	w := e.NewWork(rows)
	got := e.Forward(w, nn.Batch[float64]{Rows: rows, Choices: choices})
	l.Forward(want, x, rows)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Errorf("feature %d: %v, want %v", i, got[i], want[i])
		}
	}
	copy(e.OutGrad(w), dy)
	e.Backward(w, nil, nil)
	l.Backward(nil, x, dy, rows, false, nil)
	for i := range p.Of(0) {
		if math.Abs(p.GradOf(0)[i]-p.GradOf(1)[i]) > 1e-15 {
			t.Errorf("gradient %d: %v, want %v", i, p.GradOf(0)[i], p.GradOf(1)[i])
		}
	}
}

// convNets are networks for images of the least size, with the images and words that they read.
func convNets[T nn.Float](t *testing.T, run func(t *testing.T, p *nn.Params[T], n *nn.Net[T],
	see func(rows int) nn.Batch[T])) {
	words := nn.Choices{Low: []int{0, 3}, High: []int{2, 4}}
	for _, c := range []struct {
		name   string
		layers func(image, words string) nn.Layer
		frame  nn.Image
		frames int
		words  nn.Choices
	}{
		{"nature", nn.NatureCNN, nn.Image{H: nn.NatureSize, W: nn.NatureSize + 1, C: 1}, 1, nn.Choices{}},
		{"nature, two frames and words", nn.NatureCNN, nn.Image{H: nn.NatureSize, W: nn.NatureSize, C: 3}, 2, words},
		{"keypoints and words", nn.KeypointCNN, nn.Image{H: 20, W: 15, C: 3}, 1, words},
		{"impala and words", nn.ImpalaCNN, nn.Image{H: 9, W: 7, C: 3}, 1, words},
		{"impala, three frames", nn.ImpalaCNN, nn.Image{H: 5, W: 6, C: 1}, 3, nn.Choices{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, n := convNet[T](t, c.layers, c.frame, c.frames, c.words)
			for i, f := range p.Fields {
				if len(f.Shape) == 1 { // with biases of 0, whole features would be at the bend of the ReLU
					randomize(p.Of(i), uint64(i))
				}
			}
			run(t, p, n, func(rows int) nn.Batch[T] {
				s := philox.New(1, philox.Init, 77, 0)
				b := make([]uint8, rows*c.frames*c.frame.Len())
				for i := range b {
					b[i] = uint8(s.IntN(256))
				}
				var said []int32
				for range rows * len(c.words.Low) / 2 {
					said = append(said, int32(s.IntN(3)), 3+int32(s.IntN(2)))
				}
				return nn.Batch[T]{Rows: rows, Images: [][]uint8{b}, Choices: said}
			})
		})
	}
}

func convNet[T nn.Float](t testing.TB, layers func(image, words string) nn.Layer, frame nn.Image, frames int,
	words nn.Choices) (*nn.Params[T], *nn.Net[T]) {
	t.Helper()
	sources, name := []nn.Source{{Name: "image", Image: frame, Frames: frames, Range: [2]float64{0, 1}}}, ""
	if len(words.Low) > 0 {
		name = "words"
		sources = append(sources, nn.Source{Name: name, Choices: words})
	}
	p := new(nn.Params[T])
	p.Group("g")
	n, err := nn.NewNet(p, "cnn", layers("image", name), sources)
	if err != nil || p.Alloc(tensor.Heap) != nil {
		t.Fatal(err)
	}
	n.Init(1)
	return p, n
}

// TestConvNetGradients compares derivatives of a loss Σ c·y + ½y² by some elements of each parameter with central
// differences.
func TestConvNetGradients(t *testing.T) {
	convNets(t, func(t *testing.T, p *nn.Params[float64], n *nn.Net[float64], see func(int) nn.Batch[float64]) {
		const rows, each = 2, 12
		b := see(rows)
		weight := make([]float64, rows*n.Out)
		randomize(weight, 100)
		w := n.NewWork(rows + 1)
		loss := func() float64 {
			var sum float64
			for i, y := range n.Forward(w, b) {
				sum += weight[i]*y + 0.5*y*y
			}
			return sum
		}
		for range 2 { // the second pass finds the buffers of the first
			clear(p.Grad)
			end := len(p.Grad)
			for i, y := range n.Forward(w, b) {
				n.OutGrad(w)[i] = weight[i] + y
			}
			n.Backward(w, nil, func(lo, hi int) {
				if hi != end {
					t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
				}
				end = lo
			})
			if end != 0 {
				t.Errorf("ready ranges end at %d, want 0", end)
			}
		}
		s := philox.New(1, philox.Init, 78, 0)
		checked := 0
		for i, f := range p.Fields {
			for range each {
				k := s.IntN(f.Len())
				r := nntest.Gradients(p.Of(i)[k:k+1], p.GradOf(i)[k:k+1], loss)
				checked += r.Checked
				if !(r.Worst < 1e-6) {
					t.Errorf("%s, element %d: %+v, want < 1e-6", f.Name, k, r)
				}
			}
		}
		test.Equal(t, checked, each*len(p.Fields), "derivatives checked")
	})
}

// TestConvNetRows: the features of an image have the same bits in any batch. The gradient of a batch is the sum of the
// gradients of its images, whatever number of images is laid out at a time.
func TestConvNetRows(t *testing.T) {
	convNets(t, func(t *testing.T, p *nn.Params[float32], n *nn.Net[float32], see func(int) nn.Batch[float32]) {
		const rows = 67
		b := see(rows)
		size, places := len(b.Images[0])/rows, len(b.Choices)/rows
		all, one := n.NewWork(rows), n.NewWork(1)
		y := n.Forward(all, b)
		randomize(n.OutGrad(all), 100)
		dy := slices.Clone(n.OutGrad(all))
		n.Backward(all, nil, nil)
		whole := slices.Clone(p.Grad)
		clear(p.Grad)
		for i := range rows {
			alone := nn.Batch[float32]{Rows: 1, Images: [][]uint8{b.Images[0][i*size : (i+1)*size]},
				Choices: b.Choices[i*places : (i+1)*places]}
			if got := n.Forward(one, alone); !slices.Equal(got, y[i*n.Out:(i+1)*n.Out]) {
				t.Fatalf("image %d: other features alone than in a batch of %d", i, rows)
			}
			copy(n.OutGrad(one), dy[i*n.Out:])
			n.Backward(one, nil, nil)
		}
		for _, f := range p.Fields {
			got, want := whole[f.Off:f.Off+f.Len()], p.Grad[f.Off:f.Off+f.Len()]
			var square float64
			for _, v := range want {
				square += float64(v) * float64(v)
			}
			scale := math.Sqrt(square / float64(len(want)))
			for k := range want {
				if math.Abs(float64(got[k]-want[k])) > 1e-4*scale {
					t.Fatalf("%s, element %d: gradient %v of the batch, %v of its images together", f.Name, k, got[k],
						want[k])
				}
			}
		}
	})
}

func TestConvNetDoesNotAllocate(t *testing.T) {
	convNets(t, func(t *testing.T, _ *nn.Params[float32], n *nn.Net[float32], see func(int) nn.Batch[float32]) {
		const rows = 5
		b, w := see(rows), n.NewWork(rows)
		test.NoAllocs(t, 3, func() {
			n.Forward(w, b)
			n.Backward(w, nil, nil)
		})
	})
}

// BenchmarkConvNet: images of 64×64 in colour through the networks, on one core.
func BenchmarkConvNet(b *testing.B) {
	const rows = 64
	for _, c := range []struct {
		name   string
		layers func(image, words string) nn.Layer
	}{{"nature", nn.NatureCNN}, {"impala", nn.ImpalaCNN}, {"keypoints", nn.KeypointCNN}} {
		frame := nn.Image{H: 64, W: 64, C: 3}
		_, n := convNet[float32](b, c.layers, frame, 1, nn.Choices{})
		w, pixels := n.NewWork(rows), make([]uint8, rows*frame.Len())
		for i := range pixels {
			pixels[i] = uint8(i * 7)
		}
		batch := nn.Batch[float32]{Rows: rows, Images: [][]uint8{pixels}}
		b.Run(c.name+"/forward", func(b *testing.B) {
			for b.Loop() {
				n.Forward(w, batch)
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
		b.Run(c.name+"/both", func(b *testing.B) {
			for b.Loop() {
				y := n.Forward(w, batch)
				copy(n.OutGrad(w), y)
				n.Backward(w, nil, nil)
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}
