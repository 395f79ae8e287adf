package nn_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestWordsPoint: a word gives the position of its thing at any place of a sentence. A place without a word gives
// (0,0).
func TestWordsPoint(t *testing.T) {
	const side, places = 9, 3
	shape := nn.Image{H: side, W: side, C: 2}
	p := new(nn.Params[float32])
	p.Group("g")
	net, err := nn.NewNet(p, "g", nn.Sequence(nn.Input("camera"), nn.Point("sentence", 3)), []nn.Source{
		{Name: "camera", Image: shape, Frames: 1, Range: [2]float64{0, 1}},
		{Name: "sentence", Choices: nn.Choices{Low: make([]int, places), High: []int{2, 2, 2}}},
	})
	if err != nil || net.Out != 2*places || p.Alloc(tensor.Heap) != nil {
		t.Fatal(net, err)
	}
	net.Init(1)
	copy(p.Of(0), []float32{9, 9, 1, 0, 0, 1}) // rows of no word, and of two words that attend to one channel each
	image := make([]uint8, shape.Len())
	image[2*(1*side+6)] = 255   // the thing of word 1, at x 6, y 1
	image[2*(5*side+2)+1] = 255 // the thing of word 2, at x 2, y 5
	at := func(pixel int) float64 { return (2*float64(pixel)+1)/side - 1 }
	first, second, none := [2]float64{at(6), at(1)}, [2]float64{at(2), at(5)}, [2]float64{}
	for _, c := range []struct {
		words []int32
		want  [places][2]float64
	}{
		{[]int32{1, 2, 0}, [places][2]float64{first, second, none}},
		{[]int32{2, 0, 1}, [places][2]float64{second, none, first}},
		{[]int32{0, 0, 0}, [places][2]float64{}},
	} {
		y := net.Forward(net.NewWork(1), nn.Batch[float32]{Rows: 1, Images: [][]uint8{image}, Choices: c.words})
		for k, want := range c.want {
			if x := [2]float64{float64(y[k]), float64(y[places+k])}; math.Hypot(x[0]-want[0], x[1]-want[1]) > 0.01 {
				t.Errorf("words %v: place %d is %v, want %v", c.words, k, x, want)
			}
		}
	}
}
