package resnet

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Config describes a Classifier. Its fields are keys of the configuration.
type Config struct {
	Arch       string  `yaml:"arch" doc:"The trunk: resnet18 or resnet34, as in torchvision."`
	ImageSize  []int   `yaml:"-"` // [3, height, width] of resized images; from policy.Config, see Sized
	Normalize  bool    `yaml:"normalize" doc:"Subtract ImageNet's means, and divide by its deviations."`
	Dropout    float64 `yaml:"dropout" doc:"Probability of dropout in the head with hidden_dim, in training."`
	Pretrained bool    `yaml:"pretrained" doc:"Training begins with torchvision's trunk, from model_path."`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Arch: "resnet18", Normalize: true, Dropout: 0.1, Pretrained: true}.Sized(nil)
}

// Check validates the values. It calls want once for each rule.
func (c Config) Check(want func(ok bool, key string, value any, want string)) {
	t, err := New(c.Arch)
	want(err == nil && t.Groups == 0, "arch", c.Arch, "resnet18 or resnet34: other networks are not built here, "+
		"so train one of these (docs/success-from-images.md)")
	want(c.Dropout >= 0 && c.Dropout < 1, "dropout", c.Dropout, "a probability in [0, 1)")
}

// Sized returns c with an image size, [3, height, width]: the value of the key image_size. nil means 224×224.
func (c Config) Sized(size []int) Config {
	if c.ImageSize = size; size == nil {
		c.ImageSize = []int{3, 224, 224}
	}
	return c
}

// CheckSize is Check for the image size from Sized.
func (c Config) CheckSize(want func(ok bool, key string, value any, want string)) {
	s := c.ImageSize
	want(len(s) == 3 && s[0] == 3 && min(s[1], s[2]) >= 32 && max(s[1], s[2]) <= 1024, "image_size", s,
		"[3, height, width], from 32 to 1024 pixels")
}

// A Classifier estimates the probability that an image shows success. It is RLinf's ResNetRewardModel: a Trunk, the
// mean over pixels, and one or two linear layers. Between two linear layers are a ReLU and dropout.
type Classifier struct {
	Image  nn.Image // shape of the images that it reads
	params *nn.Params[float32]
	net    *nn.Net[float32]
	trunk  Trunk
	pixels int // number of pixels in the resized images that the trunk reads
}

const frame = "image"

// NewClassifier makes a Classifier of images of U8, with parameters of 0 in memory from alloc. hidden is the width of
// the first of two linear layers. If it is 0, there is only one linear layer.
func NewClassifier(c Config, hidden int, image nn.Image, alloc tensor.Allocator) (*Classifier, error) {
	trunk, err := New(c.Arch)
	if err != nil {
		return nil, fmt.Errorf("arch: %w", err)
	}
	head := nn.Dense(1)
	if hidden > 0 {
		head = nn.Sequence(nn.Dense(hidden).Named("0"), relu, nn.Dropout(c.Dropout), nn.Dense(1).Named("3"))
	}
	layers := trunk.Layers(frame, c.ImageSize[1], c.ImageSize[2], c.Normalize)
	f := &Classifier{Image: image, params: new(nn.Params[float32]), trunk: trunk,
		pixels: c.ImageSize[1] * c.ImageSize[2]}
	f.params.Group("classifier")
	f.net, err = nn.NewNet(f.params, "", nn.Sequence(append(layers, nn.MeanPool(), head.Named("fc"))...),
		[]nn.Source{{Name: frame, Image: image, Frames: 1}})
	if err != nil {
		return nil, err
	}
	return f, f.params.Alloc(alloc)
}

// Init draws initial parameters.
func (f *Classifier) Init(seed uint64) { f.net.Init(seed) }

// Params returns the parameters.
func (f *Classifier) Params() *nn.Params[float32] { return f.params }

// Load reads parameters that this program has saved, or torchvision's; see the function Load.
func (f *Classifier) Load(d tensor.Dict, head bool) error {
	if _, ours := d.Get("bn1.stats"); !ours {
		return Load(f.params, "", d, head)
	}
	mine := tensorsOf(f.params, "")
	if len(mine) != d.Len() {
		return fmt.Errorf("it has %d tensors, this network has %d", d.Len(), len(mine))
	}
	for _, t := range mine {
		from, _ := d.Get(t.name)
		if !from.SameShape(t.Tensor) {
			return fmt.Errorf("%s is %v, this network's is %v", t.name, from, t.Tensor)
		}
	}
	for _, t := range mine {
		t.CopyFrom(d.Must(t.name))
	}
	return nil
}

// A ClassifierWork holds the activations of one user of a Classifier.
type ClassifierWork struct {
	net    *nn.NetWork[float32]
	images [1][]byte
}

// NewWork returns working memory for at most rows images.
func (f *Classifier) NewWork(rows int) *ClassifierWork {
	return &ClassifierWork{net: f.net.NewWork(rows)}
}

// WorkBytes estimates the bytes of NewWork(rows). It counts the weights of the largest convolution twice, three feature
// maps before the blocks, and six in each block.
func (f *Classifier) WorkBytes(rows int) int64 {
	maps := 3 * 16.0 // numbers of all maps per pixel of the image
	for stage, blocks := range f.trunk.Blocks {
		maps += 6 * float64(blocks) * 4 / float64(int(1)<<stage)
	}
	return 2*4*9*Width*Width + 4*int64(maps*float64(rows*f.pixels))
}

// Logits returns the log-odds of success for n images, [n,H,W,C].
func (f *Classifier) Logits(w *ClassifierWork, images []byte, n int) []float32 {
	w.images[0] = images
	return f.net.Forward(w.net, nn.Batch[float32]{Rows: n, Images: w.images[:]})
}

// Train is Logits in training: norms use the statistics of these images, and dropout is on.
func (f *Classifier) Train(w *ClassifierWork, images []byte, n int, drop nn.Drop) []float32 {
	w.images[0] = images
	return f.net.Forward(w.net, nn.Batch[float32]{Rows: n, Images: w.images[:], Renorm: true, Drop: drop})
}

// Backward adds the gradients of the last Train. Before it, the caller must write the gradient of the logits to Grad.
func (f *Classifier) Backward(w *ClassifierWork, ready func(lo, hi int)) {
	f.net.Backward(w.net, nil, ready)
}

// Grad returns memory for the gradient of the logits of the last call.
func (f *Classifier) Grad(w *ClassifierWork) []float32 { return f.net.OutGrad(w.net) }

// StatsLen returns the number of sums that AddStats needs. For the statistics of norms, see nn.Net.
func (f *Classifier) StatsLen() int { return f.net.StatsLen() }

// AddStats adds the statistics of the batches of w to sums.
func (f *Classifier) AddStats(sums []float64, w *ClassifierWork) { f.net.AddStats(sums, w.net) }

// MergeStats updates the running statistics.
func (f *Classifier) MergeStats(sums []float64) { f.net.MergeStats(sums) }
