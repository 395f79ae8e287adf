package lm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/tensor"
)

// A trial is a model in training, on the CPU or on a device.
type trial struct {
	m       *Model
	w       *Work
	machine *devicetest.Interpreter // nil on the CPU
}

func newTrial(t *testing.T, on bool, c Config, o Options, tokens, recomputed int) *trial {
	t.Helper()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	x, p := &trial{}, new(nn.Params[float32])
	if on {
		x.machine = new(devicetest.Interpreter)
		p.UseDevice(test.Must(device.New(x.machine))(t))
	}
	x.m = test.Must(New(p, c, o))(t)
	test.OK(t, x.m.Alloc(tensor.Heap))
	x.m.Init(1)
	for _, a := range x.m.adapters { // so that gradients of A are not 0
		for i := range a.b() {
			a.b()[i] = float32(i%7-3) / 9
		}
	}
	p.Upload(p.Data)
	if x.w = x.m.NewRecomputing(tokens, recomputed); on {
		test.OK(t, x.m.MeasureOnDevice(x.w))
	}
	return x
}

// step trains on one micro-batch, whose loss is the sum of the log-probabilities and some of the entropies.
func (x *trial) step(t *testing.T, b Batch, temperature float32) (logp, entropy []float32, squares float64) {
	t.Helper()
	m, targets := x.m, b.NextTokens(nil)
	logp, entropy = make([]float32, len(targets)), make([]float32, len(targets))
	test.OK(t, m.Forward(x.w, b))
	m.LogProbs(x.w, logp, entropy, targets, temperature)
	dlogp, dentropy := make([]float32, len(targets)), make([]float32, len(targets))
	for i := range targets {
		dlogp[i], dentropy[i] = float32(i%5)-1.5, float32(i%3)/4
	}
	m.Backward(x.w, dlogp, dentropy, targets, temperature, 0)
	m.FinishGradients(x.w)
	squares = test.Must(m.GradSquares(x.w))(t)
	m.Params.Download(m.Params.Grad)
	return logp, entropy, squares
}

// infer returns the log-probabilities of b.
func (x *trial) infer(t *testing.T, b Batch) (logp []float32) {
	t.Helper()
	f := &one{micro: Micro{Batch: b, Targets: b.NextTokens(nil)}}
	test.OK(t, x.m.Infer(x.w, 1, Head{Temperature: 0.7}, f))
	return f.got.LogProb
}

// dense returns a small model of Qwen, whose sums have two blocks. Its sizes are odd for the tiles of a device.
func dense(f Family) Config {
	c := Config{Family: f, Vocab: 37, Hidden: 20, Layers: 2, Heads: 6, KVHeads: 2, HeadDim: 12, Intermediate: 18,
		Eps: 1e-5, Rope: Rope{Theta: 1e4, Type: RopeDefault}, InitRange: 0.2, Tied: true}
	if c.QKNorm = f == Qwen3; !c.QKNorm {
		c.QKVBias = true
	}
	return c
}

// packed returns sequences of some lengths, with tokens that repeat.
func packed(vocabulary int, lengths ...int) Batch {
	b := Batch{Starts: []int32{0}}
	for s, n := range lengths {
		for i := range n {
			b.IDs = append(b.IDs, int32((i*i+5*i*s+3*s)%vocabulary))
		}
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
	return b
}

// A device has the bits of the CPU: log-probabilities, entropies, gradients and their squares.
func TestDevice(t *testing.T) {
	t.Parallel()
	untied := dense(Qwen2)
	untied.Layers, untied.Tied, untied.OutBias, untied.MLPBias = 1, false, true, true
	narrow := dense(Qwen3) // one block in all sums
	narrow.Layers = 1
	narrow.Heads, narrow.KVHeads, narrow.HeadDim, narrow.Hidden, narrow.Intermediate = 3, 3, 8, 24, 17
	for name, c := range map[string]struct {
		config      Config
		options     Options
		temperature float32
		recomputed  int
	}{
		"qwen3":  {dense(Qwen3), Options{}, 0.7, 1},
		"untied": {untied, Options{}, 1, 0},
		"narrow": {narrow, Options{}, 1, 0},
		"lora":   {dense(Qwen2), Options{LoRA: &LoRA{Rank: 3, Alpha: 6, Targets: Targets}}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := newTrial(t, false, c.config, c.options, 60, c.recomputed)
			dev := newTrial(t, true, c.config, c.options, 60, c.recomputed)
			for i, b := range []Batch{packed(37, 35, 1, 9), packed(37, 5, 2)} { // the second has other lengths
				logp, entropy, squares := host.step(t, b, c.temperature)
				got, gotEntropy, gotSquares := dev.step(t, b, c.temperature)
				same(t, got, logp, "log-probabilities of batch %d", i)
				same(t, gotEntropy, entropy, "entropies of batch %d", i)
				for f, field := range host.m.Params.Fields {
					same(t, dev.m.Params.GradOf(f), host.m.Params.GradOf(f), "gradient of %s, batch %d", field.Name, i)
				}
				test.Equal(t, math.Float64bits(gotSquares), math.Float64bits(squares), "squares of batch %d", i)
			}
			b := packed(37, 5, 2)
			targets := b.NextTokens(nil)
			want, got := make([]float32, len(targets)), make([]float32, len(targets))
			host.m.likeliest(host.w, want, targets)
			dev.m.likeliest(dev.w, got, targets)
			test.EqualSlices(t, got, want)
			host.w, dev.w = host.m.NewInference(40), dev.m.NewInference(40)
			scale := func(x []float32) {
				for i := range x {
					x[i] *= 0.9
				}
			}
			for i, change := range []func(*Model){
				func(m *Model) {
					for _, w := range m.Tensors() {
						scale(w.Data)
					}
					m.Params.Upload(m.Params.Data)
				},
				func(m *Model) { scale(tensor.Of(m.Frozen(), tensor.F32, len(m.Frozen())/4).F32()) },
				nil,
			} {
				same(t, dev.infer(t, b), host.infer(t, b), "log-probabilities of inference %d", i)
				if change != nil {
					change(host.m)
					change(dev.m)
				}
			}
		})
	}
}

// A value head on a device has the bits of the CPU: values, and the gradients of all weights.
func TestDeviceValues(t *testing.T) {
	t.Parallel()
	c := dense(Qwen2)
	c.Layers = 1
	host, dev := newTrial(t, false, c, Options{Values: true}, 60, 0), newTrial(t, true, c, Options{Values: true}, 60, 0)
	for _, x := range []*trial{host, dev} {
		for i := range x.m.value.w.data() {
			x.m.value.w.data()[i] = float32(i%7-3) / 9
		}
		x.m.value.b.data()[0] = 0.3
		x.m.Params.Upload(x.m.Params.Data)
	}
	b := packed(37, 35, 1, 9)
	head := Head{Values: true}
	step := func(x *trial) []float32 {
		f := &one{micro: Micro{Batch: b, Targets: b.NextTokens(nil)}}
		test.OK(t, x.m.Infer(x.w, 1, head, f))
		inferred := slices.Clone(f.got.Value)
		test.OK(t, x.m.Train(x.w, 1, head, f, nil))
		test.EqualSlices(t, f.got.Value, inferred)
		x.m.FinishGradients(x.w)
		x.m.Params.Download(x.m.Params.Grad)
		return inferred
	}
	for i := range 2 { // gradients add up
		same(t, step(dev), step(host), "values of pass %d", i)
		for f, field := range host.m.Params.Fields {
			same(t, dev.m.Params.GradOf(f), host.m.Params.GradOf(f), "gradient of %s, pass %d", field.Name, i)
		}
	}
}

// Attention has the bits of the CPU in packed sequences of all kinds, also of numbers that are not finite.
func TestDeviceAttention(t *testing.T) {
	t.Parallel()
	c := dense(Qwen2)
	const n = 120
	host, dev := newTrial(t, false, c, Options{}, n, 0), newTrial(t, true, c, Options{}, n, 0)
	random := rand.New(rand.NewPCG(1, 2))
	inf := float32(math.Inf(1))
	special := []float32{0, inf, -inf, float32(math.NaN()), math.MaxFloat32, 0x1p-149, -0x1p-140, 1e20, 200}
	for _, share := range []float64{0, 0.002, 0.2} {
		fill := func(n int) (x, there []float32) {
			x, there = make([]float32, n), dev.m.Params.Shared(n)
			for i := range x {
				if x[i] = float32(random.NormFloat64()); random.Float64() < share {
					x[i] = special[random.IntN(len(special))]
				}
			}
			copy(there, x)
			dev.m.Params.Upload(there)
			return x, there
		}
		queries, keys, rows := n*c.Heads*c.HeadDim, n*c.KVHeads*c.HeadDim, n*c.Heads
		a := Attention{n: n, sizes: &host.m.local}
		b := a
		for _, of := range []struct {
			n    int
			x, y *[]float32
		}{{queries, &a.q, &b.q}, {queries, &a.o, &b.o}, {queries, &a.dq, &b.dq}, {queries, &a.dout, &b.dout},
			{keys, &a.key, &b.key}, {keys, &a.value, &b.value}, {keys, &a.dkey, &b.dkey}, {keys, &a.dvalue, &b.dvalue},
			{rows, &a.lse, &b.lse}} {
			*of.x, *of.y = fill(of.n)
		}
		host.w.pass.spans = []span{{row: 0, n: 67}, {row: 67, n: 1}, {row: 68, n: 40, prefix: 35}, {row: 108, n: 12,
			prefix: 3, parallel: true}}
		host.w.takePages(67)
		a.spans, a.cache, b.spans = host.w.spans, host.w.cache, host.w.spans
		host.w.ops.Attend(&a)
		dev.w.ops.Attend(&b)
		host.w.ops.AttendGrad(&a)
		dev.w.ops.AttendGrad(&b)
		for name, of := range map[string][2][]float32{"output": {b.o, a.o}, "lse": {b.lse, a.lse}, "dq": {b.dq, a.dq},
			"dkey": {b.dkey, a.dkey}, "dvalue": {b.dvalue, a.dvalue}} {
			dev.m.Params.Download(of[0])
			same(t, of[0], of[1], "share %v: %s", share, name)
		}
	}
}

func same(t *testing.T, got, want []float32, about string, args ...any) {
	t.Helper()
	test.Equal(t, len(got), len(want), about, args)
	for i, w := range want {
		if g := got[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Errorf(about+": element %d of %d is %x, want %x", append(args, i, len(want), got[i], w)...)
			return
		}
	}
}

// The number of launches does not depend on the batch. A layer has at most 40, forward and backward.
func TestDeviceLaunches(t *testing.T) {
	t.Parallel()
	for _, f := range []Family{Qwen2, Qwen3} {
		launches := func(layers int, b Batch) int {
			c := dense(f)
			c.Layers = layers
			x := newTrial(t, true, c, Options{}, 40, 0)
			test.OK(t, x.m.Train(x.w, 1, Head{Temperature: 1}, &one{micro: Micro{Batch: b, Targets: b.NextTokens(nil)}},
				nil))
			return x.machine.Launches
		}
		few, many := packed(37, 2), packed(37, 3, 1, 20)
		one, two := launches(1, few), launches(2, few)
		t.Logf("%s: %d launches for a layer, forward and backward, and %d for all else", f, two-one, 2*one-two)
		test.Equal(t, launches(2, many), two, "%s: launches of a larger batch", f)
		if two-one > 40 {
			t.Errorf("%s: %d launches for a layer, expected at most 40", f, two-one)
		}
	}
}
