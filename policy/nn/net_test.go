package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

var sources = []nn.Source{
	{Name: "state", Width: 5},
	{Name: "camera", Image: nn.Image{H: 8, W: 9, C: 2}, Frames: 2, Range: [2]float64{-2, 2}},
	{Name: "goal", Width: 2},
	{Name: "sentence", Choices: nn.Choices{Low: []int{-1, -1, -1}, High: []int{2, 2, 2}}},
	{Name: "words", Choices: nn.Choices{Low: []int{0, -1}, High: []int{3, 1}}},
	{Name: "map", Map: nn.Image{H: 2, W: 3, C: 4}},
}

// A layerCase is a kind of layer, alone or composed.
type layerCase struct {
	name    string
	layer   nn.Layer
	tensors int // of parameters
}

func layerCases() []layerCase {
	state, relu, tanh := nn.Input("state"), nn.Activate(nn.ReLU), nn.Activate(nn.Tanh)
	conv := nn.Conv(3, 3, 2, 1)
	return []layerCase{
		{"dense", nn.Sequence(state, nn.Dense(4)), 2},
		{"activations", nn.Sequence(state, nn.Dense(4), tanh, nn.Dense(3), relu), 4},
		{"norm", nn.Sequence(state, nn.Dense(4), nn.Norm(), nn.Dense(3)), 6},
		{"norm of an input", nn.Sequence(state, nn.Norm()), 2},
		{"residual", nn.Sequence(state, nn.Dense(4), nn.Residual(tanh, nn.Dense(4)), nn.Dense(2)), 6},
		{"residual of an input", nn.Sequence(state, nn.Residual(nn.Dense(5), tanh)), 2},
		{"concatenation", nn.Sequence(state, nn.Dense(4), nn.Concat(nn.Dense(3), tanh, nn.Sequence(relu, nn.Dense(2))),
			nn.Dense(2)), 8},
		{"several inputs", nn.Concat(state, nn.Sequence(nn.Input("goal"), nn.Dense(3)), nn.Embed("words", 4)), 3},
		{"an input late", nn.Sequence(state, nn.Dense(3), nn.Concat(nn.Sequence(tanh), nn.Input("goal")), nn.Dense(2)),
			4},
		{"convolutions", nn.Sequence(nn.Input("camera"), conv, relu, conv, nn.Dense(4)), 6},
		{"pool of an input", nn.Sequence(nn.Input("camera"), nn.MaxPool(), nn.Dense(3)), 2},
		{"pool", nn.Sequence(nn.Input("camera"), conv, nn.MaxPool(), nn.Dense(3)), 4},
		{"spatial softmax", nn.Sequence(nn.Input("camera"), conv, nn.SpatialSoftmax(1), nn.Dense(3)), 4},
		{"sharp spatial softmax", nn.Sequence(nn.Input("camera"), conv, nn.SpatialSoftmax(2), nn.Dense(3)), 4},
		{"coordinates", nn.Sequence(nn.Input("camera"), conv, nn.Coordinates(), conv, nn.Dense(3)), 6},
		{"batch norm 2d", nn.Sequence(nn.Input("camera"), conv, nn.BatchNorm2D(), relu, nn.Dense(3)), 6},
		{"group norm", nn.Sequence(nn.Input("camera"), conv, nn.GroupNorm(3), relu, conv, nn.GroupNorm(1), nn.Dense(3)),
			10},
		{"mean pool", nn.Sequence(nn.Input("camera"), conv, nn.MeanPool(), nn.Dense(3)), 4},
		{"spatial embedding", nn.Sequence(nn.Input("camera"), conv, nn.SpatialEmbed(2), nn.Dense(3)), 5},
		{"spatial embedding of a map", nn.Sequence(nn.Input("map"), nn.SpatialEmbed(3), nn.Dense(2)), 3},
		{"unbiased", nn.Sequence(nn.Input("camera"), conv.Unbiased(), relu, conv.Unbiased(), nn.Dense(3)), 4},
		{"shortcut", nn.Sequence(nn.Input("camera"), conv, nn.Residual(nn.Conv(4, 3, 1, 1), relu).
			Shortcut(nn.Conv(4, 1, 1, 0).Named("g")), relu, nn.Dense(3)), 8},
		{"dropout", nn.Sequence(state, nn.Dense(4), nn.Dropout(0.5), nn.Dense(3)), 4},
		{"sentence", nn.Sequence(nn.Sentence("sentence", 4), nn.Dense(3)), 4},
		{"film", nn.Sequence(nn.Input("camera"), conv, nn.FiLM(nn.Sentence("sentence", 4)), relu, nn.Dense(2)), 8},
		{"film of an input", nn.Sequence(nn.Input("camera"), nn.FiLM(nn.Input("goal")), nn.Dense(2)), 4},
		{"pointing", nn.Sequence(nn.Input("camera"), conv, nn.Point("sentence", 1), nn.Dense(3)), 5},
		{"pointing in an input", nn.Sequence(nn.Input("camera"), nn.Point("sentence", 2), nn.Dense(3)), 3},
		{"gru", nn.Sequence(state, nn.GRU(3)), 4},
		{"two cells", nn.Sequence(nn.Concat(nn.Sequence(state, nn.GRU(3)),
			nn.Sequence(nn.Input("goal"), nn.Dense(2), nn.LSTM(2))), nn.Dense(2)), 12},
		{"cell in a residual", nn.Sequence(state, nn.Dense(3), nn.Residual(nn.LSTM(3)), tanh), 6},
	}
}

// TestNetGradients compares every kind of layer with central differences.
func TestNetGradients(t *testing.T) {
	for _, c := range layerCases() {
		t.Run(c.name, func(t *testing.T) {
			p := new(nn.Params[float64])
			p.Group("g")
			test.Must(nn.NewNet(p, "g", c.layer, sources))(t)
			want := 0
			for _, f := range p.Fields {
				want += min(f.Len(), 25)
			}
			r, err := nntest.Layer(c.layer, sources)
			if err != nil || r.Checked != want || len(p.Fields) != c.tensors {
				t.Errorf("%+v, %v: want %d checked; %d tensors, want %d", r, err, want, len(p.Fields), c.tensors)
			}
		})
	}
}

// TestNames: a layer's name is its number in the layer around it, or what Named says.
func TestNames(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("g")
	tanh := nn.Activate(nn.Tanh)
	hidden := append(nn.Hidden([]int{7, 6}, nn.Tanh, nn.BatchNorms), nn.Dense(2).Named("head"))
	test.Must(nn.NewNet(p, "", nn.Sequence(nn.Sequence(nn.Input("state"), nn.Dense(3), tanh).Named("encoder"),
		nn.Sequence(hidden...).Named("critic")), sources))(t)
	var names []string
	for _, f := range p.Fields {
		names = append(names, f.Name)
	}
	want := "encoder.1.weight encoder.1.bias critic.norm.0.scale critic.norm.0.shift critic.0.weight critic.0.bias " +
		"critic.norm.1.scale critic.norm.1.shift critic.1.weight critic.1.bias critic.norm.2.scale " +
		"critic.norm.2.shift critic.head.weight critic.head.bias"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestNetRowsAreAlone: a row has the same bits in any batch.
func TestNetRowsAreAlone(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("g")
	l := nn.Sequence(nn.Input("state"), nn.Dense(16), nn.Norm(), nn.Residual(nn.Activate(nn.Tanh), nn.Dense(16)),
		nn.GRU(8))
	net, err := nn.NewNet(p, "g", l, sources[:1])
	if err != nil || p.Alloc(tensor.Heap) != nil {
		t.Fatal(err)
	}
	net.Init(1)
	const n = 33
	x, state := make([]float32, n*5), make([]float32, n*net.State)
	randomize(x, 1)
	randomize(state, 2)
	w := net.NewWork(n)
	forward := func(lo, hi int) []float32 {
		next := make([]float32, (hi-lo)*net.State)
		y := net.Forward(w, nn.Batch[float32]{Rows: hi - lo, Numbers: x[lo*5 : hi*5], Sequences: hi - lo,
			State: state[lo*net.State : hi*net.State], Next: next})
		return append(next, y...)
	}
	all := forward(0, n)
	for i := range n {
		one := forward(i, i+1)
		for k := range net.State {
			if one[k] != all[i*net.State+k] {
				t.Fatalf("row %d alone: state %v, in a batch %v", i, one[k], all[i*net.State+k])
			}
		}
	}
}

func TestNetDoesNotAllocate(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("g")
	image := nn.Sequence(nn.Input("camera"), nn.Conv(3, 3, 2, 1), nn.MaxPool(), nn.Dense(4))
	l := nn.Sequence(nn.Concat(image, nn.Sequence(nn.Input("state"), nn.Norm()), nn.Embed("words", 3),
		nn.Sentence("sentence", 2)), nn.Residual(nn.Dense(14), nn.Activate(nn.ReLU)), nn.LSTM(6))
	net, err := nn.NewNet(p, "g", l, sources)
	if err != nil || p.Alloc(tensor.Heap) != nil {
		t.Fatal(err)
	}
	net.Init(1)
	b := nn.Batch[float32]{Rows: 2, Numbers: make([]float32, 2*7), Images: [][]uint8{make([]uint8, 2*8*9*4)},
		Choices:   make([]int32, 2*5),
		Sequences: 2, State: make([]float32, 2*net.State), Next: make([]float32, 2*net.State)}
	w := net.NewWork(2)
	ready := func(lo, hi int) {}
	test.NoAllocs(t, 20, func() {
		net.Forward(w, b)
		net.Backward(w, nil, ready)
	})
}

func TestNetRefuses(t *testing.T) {
	for _, c := range []struct {
		layer nn.Layer
		want  string
	}{
		{nn.Dense(3),
			"Dense(3) has no input: expected Input(name) before it; there are state, camera, goal, sentence, words, " +
				"map"},
		{nn.Sequence(nn.Input("stat"), nn.Dense(3)),
			`Input("stat"): no such input: expected one of state, camera, goal, sentence, words, map`},
		{nn.Input("words"), `Input("words"): choices are no numbers: expected Embed("words", width)`},
		{nn.Embed("state", 3),
			`Embed("state", 3): expected at least 1 feature of choices; numbers and images are Input("state")`},
		{nn.Sequence(nn.Input("state"), nn.Dense(0)), "Dense(0): expected at least 1 output"},
		{nn.Sequence(nn.Input("state"), nn.Residual(nn.Dense(4))),
			"Residual(Dense(4)): makes {1 1 4} of {1 1 5}: expected {1 1 5}"},
		{nn.Sequence(nn.Input("state"), nn.Dense(4), nn.Input("goal")),
			`part 2, Input("goal"), ignores the part before it: expected inputs at the front`},
		{nn.Sequence(nn.Input("camera"), nn.Conv(4, 11, 1, 0)),
			"Conv(4, 11, 1, 0) on images {8 9 4}: expected windows that fit into the image"},
		{nn.Sequence(nn.Input("camera"), nn.Point("state", 1)), "expected choices, the words of a sentence"},
		{nn.Sequence(nn.Input("camera"), nn.Point("sentence", 0)), "expected a deviation > 0"},
		{nn.Sequence(nn.Input("camera"), nn.SpatialSoftmax(0)), "SpatialSoftmax(0): expected a deviation > 0"},
		{nn.Sequence(), "Sequence(): expected at least one part"},
		{nn.Layer{}, "a Layer that no function of package nn made"},
		{nn.Sequence(nn.Input("state"), nn.Activate(7)), "Activate(Activation(7)): expected Tanh or ReLU"},
	} {
		p := new(nn.Params[float32])
		p.Group("g")
		test.Fails(t, test.Err(nn.NewNet(p, "own", c.layer, sources)), c.want, "%v", c.layer)
	}
}

// TestPixelRange: bytes become the numbers of Source.Range. Coordinates go from the middle of the first pixel to the
// middle of the last pixel.
func TestPixelRange(t *testing.T) {
	camera := nn.Source{Name: "camera", Image: nn.Image{H: 1, W: 2, C: 1}, Frames: 1, Range: [2]float64{-2, 2}}
	p := new(nn.Params[float64])
	p.Group("g")
	net := test.Must(nn.NewNet(p, "g", nn.Sequence(nn.Input("camera"), nn.Coordinates()), []nn.Source{camera}))(t)
	got := net.Forward(net.NewWork(1), nn.Batch[float64]{Rows: 1, Images: [][]uint8{{0, 255}}})
	want := []float64{-2, -.5, 0, 2, .5, 0}
	test.EqualSlices(t, got, want)
}

// TestSpatialSoftmaxSharpens: with a larger deviation, smaller pixels count less. For a row of pixels that are scaled
// to (1, 1, -1, -1)·d, the softmax is proportional to exp(±d).
func TestSpatialSoftmaxSharpens(t *testing.T) {
	camera := nn.Source{Name: "camera", Image: nn.Image{H: 1, W: 4, C: 1}, Frames: 1, Range: [2]float64{-1, 1}}
	for _, d := range []float64{1, 2} {
		p := new(nn.Params[float64])
		p.Group("g")
		net, err := nn.NewNet(p, "g", nn.Sequence(nn.Input("camera"), nn.SpatialSoftmax(d)), []nn.Source{camera})
		test.OK(t, err)
		got := net.Forward(net.NewWork(1), nn.Batch[float64]{Rows: 1, Images: [][]uint8{{255, 255, 0, 0}}})
		if want := -.5 * math.Tanh(d); math.Abs(got[0]-want) > 1e-4 || got[1] != 0 {
			t.Errorf("deviation %g: %v, want %v and 0", d, got, want)
		}
	}
}
