package policy

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Camera describes the images of one camera that a policy sees. The observation Name is U8 [N, Frames, Views, H, W,
// C], without axes of length 1. The policy stacks the frames of a row along the channels.
type Camera struct {
	Name   string
	Frames int
	Views  int // number of cameras in the observation
	View   int // number of this camera among them
	nn.Image

	span [2]float64 // the numbers that stand for the bytes 0 and 255
}

// Cameras returns the cameras that p sees. It returns nil for a policy that has no method Cameras.
func Cameras(p Policy) []Camera {
	if c, ok := p.(interface{ Cameras() []Camera }); ok {
		return c.Cameras()
	}
	return nil
}

// Names, as in RLinf, of the observations that Config.ImageNum counts. An observation of extra views is U8 [N, V, H, W,
// C].
const (
	mainImages = "main_images"
	extraViews = "extra_view_images"
)

// source returns the images as a source of layers.
func (c Camera) source() nn.Source {
	name := c.Name
	if c.Views > 1 || c.Name == extraViews {
		name = fmt.Sprintf("%s.%d", c.Name, c.View)
	}
	return nn.Source{Name: name, Image: c.Image, Frames: c.Frames, Range: c.span}
}

// bytes returns the images of n rows, [n,Frames,H,W,C]. If the observation t has several views, bytes copies the images
// to dst.
func (c Camera) bytes(dst []uint8, t tensor.Tensor, n int) []uint8 {
	if c.Views == 1 {
		return t.U8()
	}
	each, src := c.Image.Len(), t.U8()
	for i := range n * c.Frames {
		copy(dst[i*each:(i+1)*each], src[(i*c.Views+c.View)*each:])
	}
	return dst[:n*c.Frames*each]
}

// check returns an error if the images are too small for the encoder of cfg, or if they do not have the size in
// Config.ImageSize.
func (c Camera) check(cfg Config) error {
	least := 1
	if cfg.Encoder == NatureCNN {
		least = nn.NatureSize
	}
	if min(c.H, c.W) < least || min(c.C, c.Frames, c.Views) < 1 {
		return fmt.Errorf("observation %q: image of %v: encoder %s wants at least %d×%d pixels", c.Name,
			[]int{c.H, c.W, c.C}, cfg.Encoder, least, least)
	}
	if s := cfg.ImageSize; cfg.AddQHead && s != nil && !slices.Equal(s, []int{c.C, c.H, c.W}) {
		return env.KeyErrors{{Key: "image_size", Reason: fmt.Sprintf("%v, but observation %q has images of %v: "+
			"channels, height and width", s, c.Name, []int{c.C, c.H, c.W})}}
	}
	return nil
}

// cameraOf returns the camera of the images in f, [H,W,C] or [frames,H,W,C].
func cameraOf(f env.Field, cfg Config) (Camera, error) {
	frames, dims := 1, f.Shape
	if len(dims) == 4 {
		frames, dims = dims[0], dims[1:]
	}
	if len(dims) != 3 {
		return Camera{}, fmt.Errorf("observation %q: image of %v: expected [H W C], or [frames H W C]", f.Name, f.Shape)
	}
	c := Camera{Name: f.Name, Frames: frames, Views: 1, Image: nn.Image{H: dims[0], W: dims[1], C: dims[2]}}
	return c, c.check(cfg)
}

// viewsOf returns the first n cameras of f, U8 [V,H,W,C] or stacked [frames,V,H,W,C].
func viewsOf(f env.Field, cfg Config, n int) (views []Camera, err error) {
	frames, dims := 1, f.Shape
	if len(dims) == 5 {
		frames, dims = dims[0], dims[1:]
	}
	if len(dims) != 4 {
		return nil, fmt.Errorf("observation %q: images of %v: expected [V H W C], or [frames V H W C]", f.Name, f.Shape)
	}
	for v := range min(n, dims[0]) {
		c := Camera{Name: f.Name, Frames: frames, Views: dims[0], View: v, Image: nn.Image{H: dims[1], W: dims[2],
			C: dims[3]}}
		if err := c.check(cfg); err != nil {
			return nil, err
		}
		views = append(views, c)
	}
	return views, nil
}

// camerasOf returns the cameras of the images in fields. If Config.AddQHead and Config.ImageNum are set, they are
// main_images and the first ImageNum - 1 views of extra_view_images.
func camerasOf(fields []env.Field, cfg Config) (cameras []Camera, err error) {
	num := cfg.ImageNum
	if !cfg.AddQHead {
		num = 0
	}
	for _, f := range fields {
		if num > 0 && f.Name == extraViews {
			continue
		}
		c, err := cameraOf(f, cfg)
		if err != nil {
			return nil, err
		}
		cameras = append(cameras, c)
	}
	if num == 0 {
		return cameras, nil
	}
	if i := slices.IndexFunc(fields, func(f env.Field) bool { return f.Name == extraViews }); i >= 0 {
		views, err := viewsOf(fields[i], cfg, num-len(cameras))
		if err != nil {
			return nil, err
		}
		cameras = append(cameras, views...)
	}
	if len(cameras) != num {
		return nil, env.KeyErrors{{Key: "image_num", Reason: fmt.Sprintf("%d, but the observations have %d images to "+
			"count: each observation of images has one, and %s [V H W C] has V", num, len(cameras), extraViews)}}
	}
	return cameras, nil
}
