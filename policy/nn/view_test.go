package nn_test

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// see returns the image in, [h,w,1], as outH×outW pixels.
func see(t *testing.T, in []byte, h, w, outH, outW int, mean, deviation float64) []float64 {
	t.Helper()
	p := new(nn.Params[float64])
	p.Group("g")
	net := test.Must(nn.NewNet(p, "n", nn.View("camera", outH, outW, []float64{mean}, []float64{deviation}),
		[]nn.Source{{Name: "camera", Image: nn.Image{H: h, W: w, C: 1}, Frames: 1}}))(t)
	test.OK(t, p.Alloc(tensor.Heap))
	return net.Forward(net.NewWork(1), nn.Batch[float64]{Rows: 1, Images: [][]byte{in}})
}

// TestView compares with torch.nn.functional.interpolate(x, mode="bilinear", align_corners=False).
func TestView(t *testing.T) {
	t.Parallel()
	compare(t, "the same size", see(t, []byte{0, 51, 102, 255}, 2, 2, 2, 2, 0.2, 0.5), []float64{-0.4, 0, 0.4, 1.6})
	// The pixels' centres lie at -¼, ¼, ¾ and 1¼. Outside the first and the last centre, the colours are constant.
	compare(t, "larger", see(t, []byte{0, 255}, 1, 2, 1, 4, 0, 1), []float64{0, 0.25, 0.75, 1})
	// Of 5 pixels 2 are seen, at ¾ and 3¼.
	compare(t, "smaller", see(t, []byte{0, 51, 102, 153, 255}, 5, 1, 2, 1, 0, 1), []float64{0.15, 0.7})
}
