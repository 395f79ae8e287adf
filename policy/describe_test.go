package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestGraphComputesThePolicy: a plain interpreter of the graph, which knows no layer, gives the action and the value of
// the policy.
func TestGraphComputesThePolicy(t *testing.T) {
	seen := []env.Field{vector("state", 4), image("front", 2, 36, 36, 1), words("text", 3), image("top", 9, 8, 3)}
	pixels := []env.Field{image("front", 9, 7, 3), words("text", 3), vector("state", 4)}
	relu := nn.Activate(nn.ReLU)
	conv := nn.Sequence(nn.Input("front"), nn.Conv(3, 3, 2, 1), nn.FiLM(nn.Sentence("text", 4)), relu, nn.Coordinates())
	own := nn.Sequence(nn.Concat(nn.Sequence(conv, nn.Concat(nn.Sequence(nn.MaxPool(), nn.Dense(4)),
		nn.SpatialSoftmax(2), nn.Point("text", 1))), nn.Embed("text", 2), nn.Input("state")), nn.Norm(), nn.Dense(6),
		nn.Residual(nn.Dense(6), relu), nn.LSTM(3), nn.GRU(4))
	masked := env.Field{Name: env.ActionMask, Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{3},
		Low: make([]float32, 3), High: []float32{1, 1, 1}}}
	bounded := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-1, 0},
		High: []float32{2, 5}}
	value := func(c *Config) { c.AddQHead, c.AddValueHead = true, false }
	for _, c := range []struct {
		name   string
		obs    []env.Field
		action env.Space
		own    *nn.Layer
		set    func(*Config)
	}{
		{"categorical", []env.Field{vector("state", 4), words("text", 2), masked}, discrete, nil, func(*Config) {}},
		{"gaussian", []env.Field{vector("state", 4), vector("goal", 3)}, box, nil, func(c *Config) {
			c.NormalizeObservations, c.ObsClip = true, 0.5
		}},
		{"deviations", seen[:1], bounded, nil, func(c *Config) {
			c.IndependentStd, c.ShareTrunk, c.ActionBound, c.NumActionChunks = false, true, "tanh", 2
		}},
		{"sde", seen[:1], box, nil, func(c *Config) { c.UseSDE, c.HiddenSizes = true, nil }},
		{"recurrent", seen[:1], discrete, nil, func(c *Config) { c.ModelType, c.ShareTrunk = rnnPolicy, true }},
		{"own", pixels, box, &own, func(c *Config) { c.NormalizeObservations = true }},
		{"nature", seen[1:3], box, nil, func(c *Config) { c.ModelType, c.Encoder = "cnn_policy", NatureCNN }},
		{"impala", slices.Concat(seen[:1], seen[2:]), discrete, nil, func(c *Config) {
			c.ModelType, c.Encoder = "cnn_policy", ImpalaCNN
		}},
		{"keypoints", pixels[:1], discrete, nil, func(c *Config) {
			value(c)
			c.ModelType, c.Encoder = "cnn_policy", Keypoints
		}},
		{"soft actor", seen[:1], bounded, nil, value},
		{"noisy actor", seen[:1], bounded, nil, func(c *Config) { value(c); c.ExplorationNoise = 0.1 }},
		{"crossq", seen[:1], bounded, nil, func(c *Config) { value(c); c.QHeadType = QHeadCrossQ }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HiddenSizes = []int{7, 5}
			c.set(&cfg)
			spec := env.Spec{Name: "Test-v0", Obs: c.obs, Action: c.action}
			p := test.Must(build(cfg, spec, c.own, 3, tensor.Heap))(t)
			params := p.Params()
			for i := range params.Fields { // weights that matter everywhere
				for k, z := range random(len(params.Of(i)), uint64(i)) {
					params.Of(i)[k] += float32(0.2 * z)
				}
			}
			const rows = 3
			obs := everything(c.obs, rows)
			memory := random(rows*HiddenLen(p), 40)
			if m := HiddenLen(p); m > 0 {
				h := tensor.New(tensor.F32, rows, m)
				for i := range memory {
					h.F32()[i] = float32(memory[i])
				}
				obs.Set(HiddenState, h)
			}
			act := must[Act](t)(p.Forward(p.NewWork(rows), obs, Deterministic, Noise{}))
			fed := tensor.New(act.Action.DType(), act.Action.Shape()...)
			act.Feed(c.action, fed)
			root := p.(Described).Graph()
			for row := range rows {
				m := machine{t: t, params: params, obs: obs, row: row,
					state: memory[row*HiddenLen(p) : (row+1)*HiddenLen(p)]}
				m.run(root, value64{})
				for i, x := range m.action {
					want := 0.
					if fed.DType() == tensor.I32 {
						want = float64(fed.At(row).I32()[i])
					} else {
						want = float64(fed.At(row).F32()[i])
					}
					if !(math.Abs(x-want) < 1e-4*max(1, math.Abs(want))) {
						t.Errorf("row %d: action %v, the policy's is %v", row, m.action, want)
					}
				}
				if len(m.action) != fed.Len()/rows || (m.value == nil) != act.Value.IsZero() {
					t.Errorf("%d numbers of an action, %v", len(m.action), m.value)
				}
				for i, v := range m.value {
					if want := float64(act.Value.At(row).F32()[i]); !(math.Abs(v-want) < 1e-4*max(1, math.Abs(want))) {
						t.Errorf("row %d: value %v, the policy's is %v", row, v, want)
					}
				}
			}
		})
	}
}

// everything returns observations of every kind.
func everything(fields []env.Field, rows int) (obs tensor.Dict) {
	for k, f := range fields {
		x := tensor.New(f.DType, append([]int{rows}, f.Shape...)...)
		for i, z := range random(x.Len(), uint64(50+k)) {
			switch f.DType {
			case tensor.F32:
				x.F32()[i] = float32(z)
			case tensor.I32:
				x.I32()[i] = int32(i % 4)
			default:
				x.U8()[i] = byte(37 * i)
				if f.Name == env.ActionMask {
					x.U8()[i] = byte(i+i/3) % 2
				}
			}
		}
		obs.Set(f.Name, x)
	}
	return obs
}

// A machine interprets a graph for one row.
type machine struct {
	t      *testing.T
	params *nn.Params[float32]
	obs    tensor.Dict
	row    int
	state  []float64

	numbers       []float64
	images        [][]byte
	choices       []int
	mask          []byte
	action, value []float64
}

type value64 struct {
	x     []float64
	shape []int
}

func (m *machine) param(n graph.Node, i int) []float64 {
	var all []float64
	if at := slices.IndexFunc(m.params.Fields,
		func(f nn.ParamTensor) bool { return f.Name == n.Params[i].Name }); at >= 0 {
		for _, v := range m.params.Of(at) {
			all = append(all, float64(v))
		}
		return all
	}
	return m.params.Buffers.Must(n.Params[i].Name).F64()
}

// constant returns a constant, or element k of a list of constants.
func constant(n graph.Node, name string, k int) float64 {
	switch v := n.Const(name).(type) {
	case int:
		return float64(v)
	case float64:
		return v
	case float32:
		return float64(v)
	case []float32:
		return float64(v[k%len(v)])
	case []int:
		return float64(v[k%len(v)])
	}
	panic(name + " of " + string(n.Op))
}

func whole(n graph.Node, name string) int { return int(constant(n, name, 0)) }

func (m *machine) run(n graph.Node, in value64) value64 {
	x, out := in.x, make([]float64, nn.ParamTensor{Shape: n.Out}.Len())
	if len(n.Out) == 1 {
		n.Out = []int{1, 1, n.Out[0]}
	}
	each := func(f func(v float64, i int) float64) {
		for i := range out {
			out[i] = f(x[i], i)
		}
	}
	switch n.Op {
	case graph.Policy, graph.Sequence, graph.Actor, graph.Critic:
		y := in
		for _, part := range n.Parts {
			if part.Op == graph.Critic {
				m.value = m.run(part, y).x
				continue
			}
			before := y
			if y = m.run(part, y); part.Op == graph.Actor {
				m.action, y = y.x, before
			}
		}
		return y
	case graph.Observe:
		for _, part := range n.Parts {
			m.observe(part)
		}
		out = m.numbers
	case graph.Concat:
		out = out[:0]
		for _, part := range n.Parts {
			out = append(out, m.run(part, in).x...)
		}
	case graph.Residual:
		f := m.run(n.Parts[0], in).x
		each(func(v float64, i int) float64 { return v + f[i] })
	case graph.FiLM:
		f, c := m.run(n.Parts[0], value64{}).x, n.Out[2]
		each(func(v float64, i int) float64 { return (1+f[i%c])*v + f[c+i%c] })
	case graph.Input:
		copy(out, m.numbers[whole(n, "first"):])
	case graph.Image:
		frames, bytes := whole(n, "frames"), m.images[whole(n, "index")]
		low, high := constant(n, "low", 0), constant(n, "high", 0)
		c := n.Out[2] / frames
		for i := range out {
			pixel, k := i/n.Out[2], i%n.Out[2]
			out[i] = low + (high-low)*float64(bytes[k/c*len(out)/frames+pixel*c+k%c])/255
		}
	case graph.Dense:
		product(out, x, m.param(n, 0), m.param(n, 1))
	case graph.Tanh, graph.Noise:
		each(func(v float64, _ int) float64 { return math.Tanh(v) })
	case graph.ReLU:
		each(func(v float64, _ int) float64 { return max(v, 0) })
	case graph.LayerNorm:
		g, b, mean, square := m.param(n, 0), m.param(n, 1), 0., 0.
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			square += (v - mean) * (v - mean) / float64(len(x))
		}
		each(func(v float64, i int) float64 {
			return g[i]*(v-mean)/math.Sqrt(square+constant(n, "epsilon", 0)) + b[i]
		})
	case graph.BatchNorm:
		g, b, s := m.param(n, 0), m.param(n, 1), m.param(n, 2)
		each(func(v float64, i int) float64 {
			return g[i]*(v-s[1+i])/math.Sqrt(s[1+len(x)+i]+constant(n, "epsilon", 0)) + b[i]
		})
	case graph.Conv, graph.MaxPool:
		m.slide(n, in, out)
	case graph.Coordinates:
		for i := range n.Out[0] * n.Out[1] {
			copy(out[i*n.Out[2]:], x[i*in.shape[2]:(i+1)*in.shape[2]])
			out[(i+1)*n.Out[2]-2], out[(i+1)*n.Out[2]-1] = position(i, in.shape)
		}
	case graph.Softmax2D:
		c := in.shape[2]
		for k := range c {
			var channel []float64
			for i := k; i < len(x); i += c {
				channel = append(channel, x[i])
			}
			out[k], out[c+k] = spot(n, channel, in.shape)
		}
	case graph.Embedding:
		w := m.param(n, 0)
		for k, zero := range n.Const("zero").([]int) {
			add(out, w[(zero+m.choices[whole(n, "first")+k])*len(out):], nil)
		}
	case graph.Sentence, graph.Point:
		m.read(n, in, out)
	case graph.GRU, graph.LSTM:
		m.remember(n, x, out)
	case graph.Categorical:
		at := 0
		for d, options := range n.Const("options").([]int) {
			out[d] = float64(m.best(x[at : at+options]))
			at += options
		}
	case graph.Greedy:
		out[0] = float64(m.best(x))
	case graph.Gaussian, graph.SDE, graph.Deviations:
		copy(out, x)
	case graph.Squashed:
		each(func(v float64, _ int) float64 { return math.Tanh(v) })
	case graph.TanhBound, graph.Scale, graph.Clip:
		out = slices.Clone(x) // a chunk has several actions
		for i, v := range x {
			switch n.Op {
			case graph.Clip:
				out[i] = min(max(v, constant(n, "low", i)), constant(n, "high", i))
				continue
			case graph.TanhBound:
				v = math.Tanh(v)
			}
			out[i] = constant(n, "center", i) + constant(n, "half", i)*v
		}
	default:
		m.t.Fatalf("no such operation %s", n.Op)
	}
	return value64{out, n.Out}
}

func (m *machine) observe(n graph.Node) {
	if n.Name != "" {
		x := m.obs.Must(n.Name).At(m.row)
		switch n.Op {
		case graph.Number:
			for _, v := range x.F32() {
				m.numbers = append(m.numbers, float64(v))
			}
		case graph.Frames:
			m.images = append(m.images, x.U8())
		case graph.Words:
			for _, v := range x.I32() {
				m.choices = append(m.choices, int(v))
			}
		case graph.Mask:
			m.mask = x.U8()
		}
		return
	}
	switch n.Op {
	case graph.Normalize:
		mean, variance, clip := m.param(n, 0), m.param(n, 1), constant(n, "clip", 0)
		for i, v := range m.numbers {
			m.numbers[i] = min(max((v-mean[i])/math.Sqrt(variance[i]+constant(n, "epsilon", 0)), -clip), clip)
		}
	case graph.OneHot:
		m.numbers = append(m.numbers, make([]float64, n.Out[0]-len(m.numbers))...)
		for k, zero := range n.Const("zero").([]int) {
			m.numbers[zero+m.choices[k]] = 1
		}
	}
}

func product(y, x, w, b []float64) {
	copy(y, b)
	for i, v := range x {
		for k := range y {
			y[k] += v * w[i*len(y)+k]
		}
	}
}

// add adds w, times by unless by is nil, to y.
func add(y, w, by []float64) {
	for i := range y {
		if by == nil {
			y[i] += w[i]
		} else {
			y[i] += w[i] * by[i]
		}
	}
}

// best returns the index of the largest number that the mask allows.
func (m *machine) best(x []float64) int {
	best := -1
	for i, v := range x {
		if (m.mask == nil || m.mask[i] != 0) && (best < 0 || v > x[best]) {
			best = i
		}
	}
	return best
}

func (m *machine) slide(n graph.Node, in value64, out []float64) {
	size, stride, pad, c := whole(n, "size"), whole(n, "stride"), whole(n, "pad"), in.shape[2]
	for i := range n.Out[0] * n.Out[1] {
		y := out[i*n.Out[2] : (i+1)*n.Out[2]]
		if n.Op == graph.MaxPool {
			for k := range y {
				y[k] = math.Inf(-1)
			}
		} else {
			copy(y, m.param(n, 1))
		}
		var w []float64
		if n.Op == graph.Conv {
			w = m.param(n, 0)
		}
		for window := range size * size {
			row, col := i/n.Out[1]*stride-pad+window/size, i%n.Out[1]*stride-pad+window%size
			if row < 0 || row >= in.shape[0] || col < 0 || col >= in.shape[1] {
				continue
			}
			pixel := in.x[(row*in.shape[1]+col)*c:][:c]
			for k, v := range pixel {
				if n.Op == graph.MaxPool {
					y[k] = max(y[k], v)
					continue
				}
				for f := range y {
					y[f] += v * w[(window*c+k)*len(y)+f]
				}
			}
		}
	}
}

// position returns the position of a pixel's centre.
func position(i int, shape []int) (x, y float64) {
	return float64(2*(i%shape[1])+1)/float64(shape[1]) - 1, float64(2*(i/shape[1])+1)/float64(shape[0]) - 1
}

// spot returns the mean position by the softmax of a channel of the given deviation.
func spot(n graph.Node, channel []float64, shape []int) (x, y float64) {
	var mean, square, sum float64
	for _, v := range channel {
		mean += v / float64(len(channel))
	}
	for _, v := range channel {
		square += (v - mean) * (v - mean) / float64(len(channel))
	}
	scale := constant(n, "deviation", 0) / math.Sqrt(square+constant(n, "epsilon", 0))
	for i, v := range channel {
		e := math.Exp(scale * (v - mean))
		px, py := position(i, shape)
		x, y, sum = x+e*px, y+e*py, sum+e
	}
	return x / sum, y / sum
}

// read computes sentences, and the positions that their words mean.
func (m *machine) read(n graph.Node, in value64, out []float64) {
	e, places := m.param(n, 0), whole(n, "places")
	for place := range places {
		word := m.choices[whole(n, "first")+place] - whole(n, "none")
		switch {
		case word == 0:
		case n.Op == graph.Sentence:
			add(out, e[word*len(out):], m.param(n, 1)[place*len(out):])
		default:
			c := in.shape[2]
			var channel []float64
			for i := 0; i < len(in.x); i += c {
				dot := 0.
				for k := range c {
					dot += in.x[i+k] * e[word*c+k]
				}
				channel = append(channel, dot)
			}
			out[place], out[places+place] = spot(n, channel, in.shape)
		}
	}
}

// remember computes a step of a recurrent cell.
func (m *machine) remember(n graph.Node, x, out []float64) {
	state := m.state[whole(n, "state_first"):][:whole(n, "state")]
	size := len(m.param(n, 1))
	a, u, h := make([]float64, size), make([]float64, size), len(out)
	product(a, x, m.param(n, 0), m.param(n, 1))
	product(u, state[:h], m.param(n, 2), m.param(n, 3))
	σ := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for i := range out {
		at := func(k int) float64 { return a[k*h+i] + u[k*h+i] }
		if n.Op == graph.GRU {
			g, z := math.Tanh(a[2*h+i]+σ(at(0))*u[2*h+i]), σ(at(1))
			out[i] = (1-z)*g + z*state[i]
			continue
		}
		out[i] = σ(at(2)) * math.Tanh(σ(at(1))*state[h+i]+σ(at(0))*math.Tanh(at(3)))
	}
}
