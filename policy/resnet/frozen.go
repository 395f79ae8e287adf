package resnet

import (
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Frozen is a Trunk with weights that no training changes. It computes feature maps of images of one shape. Its
// weights are not part of a policy's parameters.
type Frozen struct {
	params nn.Params[float32]
	net    *nn.Net[float32]
}

// MapOf returns the shape of the feature map of an image. Five layers halve height and width.
func MapOf(image nn.Image) nn.Image {
	return nn.Image{H: (image.H + 31) / 32, W: (image.W + 31) / 32, C: Width}
}

// NewFrozen makes the named network for images of three colours, without weights.
func NewFrozen(name string, in nn.Image) (*Frozen, error) {
	trunk, err := New(name)
	if err != nil {
		return nil, err
	}
	f := new(Frozen)
	f.params.Group("frozen")
	f.net, err = nn.NewNet(&f.params, "", nn.Sequence(trunk.Layers(frame, in.H, in.W, true)...),
		[]nn.Source{{Name: frame, Image: in, Frames: 1}})
	return f, err
}

// Bytes returns the size of the weights.
func (f *Frozen) Bytes() int { return 4 * f.params.Len() }

// Load takes the weights from d; see the function Load. It ignores the last layers in d.
func (f *Frozen) Load(d tensor.Dict) error {
	if err := f.params.Alloc(tensor.Heap); err != nil {
		return err
	}
	return Load(&f.params, "", d, false)
}

// A FrozenWork holds the activations of one user of a Frozen.
type FrozenWork struct {
	net    *nn.NetWork[float32]
	images [1][]byte
}

// NewWork returns working memory for at most rows images.
func (f *Frozen) NewWork(rows int) *FrozenWork { return &FrozenWork{net: f.net.NewWork(rows)} }

// Forward returns the feature maps, [n,h,w,C], of n images, [n,H,W,3], in memory of w.
func (f *Frozen) Forward(w *FrozenWork, images []byte, n int) []float32 {
	w.images[0] = images
	return f.net.Forward(w.net, nn.Batch[float32]{Rows: n, Images: w.images[:]})
}
