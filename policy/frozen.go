package policy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/tensor"
)

// Backbone has keys of actor.model that cnn_policy adds to those of Config. The backbone resnet is RLinf's network: a
// frozen ResNet-10 for each camera. It needs Config.AddQHead and continuous actions, and applies only without
// Config.Encoder.
type Backbone struct {
	Backbone  string `yaml:"backbone" doc:"With add_q_head and without encoder, resnet: a frozen ResNet-10 (RLinf)."`
	ModelPath string `yaml:"model_path" doc:"For backbone resnet: the folder of its weights."`
	Encoder   struct {
		File string `yaml:"ckpt_name" doc:"File in model_path, with torchvision's names: safetensors, or beside a .pt."`
	} `yaml:"encoder_config"`
}

// ResNet is a value of Backbone.Backbone. If it applies, it is also the value of Config.Encoder.
const ResNet = "resnet"

// Check validates the values.
func (b Backbone) Check(want func(ok bool, key string, value any, want string)) {
	want(b.Backbone == "" || b.Backbone == ResNet, "backbone", b.Backbone, "resnet")
}

// Applies reports whether b asks for the network of Backbone in a policy with the configuration cfg.
func (b Backbone) Applies(cfg Config) bool {
	return b.Backbone == ResNet && cfg.AddQHead && cfg.Encoder == ""
}

// file returns the file of weights. In place of a file of PyTorch (.pt, .pth), it returns the safetensors file of the
// same name.
func (b Backbone) file() string {
	path := filepath.Join(b.ModelPath, b.Encoder.File)
	if ext := filepath.Ext(path); ext == ".pt" || ext == ".pth" {
		path = strings.TrimSuffix(path, ext) + ".safetensors"
	}
	return path
}

// CheckFile returns an error if the file of weights is missing. The error says how to make the file.
func (b Backbone) CheckFile() error {
	_, err := os.Stat(b.file())
	return withRemedy(b.file(), err)
}

// withRemedy adds to err how to make the file of weights, which is missing. If err is nil, it returns nil.
func withRemedy(file string, err error) error {
	if err == nil {
		return nil
	}
	torch := strings.TrimSuffix(file, filepath.Ext(file)) + ".pt"
	return fmt.Errorf("%w. This line of Python makes it of PyTorch's file: import torch, safetensors.torch as s; "+
		"s.save_file(torch.load('%s', map_location='cpu'), '%s')%s", err, torch, file, withoutWeights)
}

// configure returns cfg with the settings for the network of b.
func (b Backbone) configure(cfg Config, action env.Space) (Config, error) {
	switch {
	case action.Kind != env.Box:
		return cfg, env.KeyErrors{{Key: "backbone", Reason: "resnet, but actions are choices: expected encoder " +
			"nature_cnn"}}
	case b.ModelPath == "" || b.Encoder.File == "":
		return cfg, env.KeyErrors{{Key: "model_path", Reason: "expected the folder of encoder_config.ckpt_name, the " +
			"weights of ResNet-10" + withoutWeights}}
	}
	cfg.Encoder, cfg.Frozen = ResNet, b.file()
	return cfg, nil
}

const withoutWeights = "; actor.model.encoder=nature_cnn needs no weights"

// A frozen computes feature maps of images, by a ResNet-10 for each camera. It reads the weights from a file when it
// first gets images.
type frozen struct {
	file    string
	fields  []env.Field // observations with images
	kept    []env.Field // observations with feature maps in place of images
	cameras []Camera
	nets    []*resnet.Frozen // for each camera; cameras with images of the same shape share a network
	read    sync.Once
	err     error
}

func newFrozen(cfg Config, obs *observations) (*frozen, error) {
	f := &frozen{file: cfg.Frozen, fields: obs.fields, kept: slices.Clone(obs.fields), cameras: obs.images}
	for i, c := range f.cameras {
		if c.Frames != 1 || c.C != 3 {
			return nil, env.KeyErrors{{Key: "backbone", Reason: fmt.Sprintf("resnet, but observation %q is %d "+
				"frames of %d channels: expected 1 frame of 3; encoder nature_cnn takes stacks", c.Name, c.Frames,
				c.C)}}
		}
		at := slices.IndexFunc(f.cameras[:i], func(o Camera) bool { return o.Image == c.Image })
		if at >= 0 {
			f.nets = append(f.nets, f.nets[at])
			continue
		}
		net, err := resnet.NewFrozen("resnet10", c.Image)
		if err != nil {
			return nil, err
		}
		f.nets = append(f.nets, net)
	}
	for i, field := range f.kept {
		views := 0
		for _, c := range f.cameras {
			if c.Name != field.Name {
				continue
			}
			m := resnet.MapOf(c.Image)
			shape := []int{m.H, m.W, m.C}
			if views++; len(field.Shape) == 4 {
				shape = append([]int{views}, shape...)
			}
			f.kept[i].Space = env.Space{Kind: env.Box, DType: tensor.F32, Shape: shape}
		}
	}
	return f, nil
}

// load reads the weights. Only the first call reads the file; later calls return the same error.
func (f *frozen) load() error {
	f.read.Do(func() {
		text, err := os.ReadFile(f.file)
		if f.err = withRemedy(f.file, err); err != nil {
			return
		}
		d, _, err := tensor.ReadSafetensors(text)
		for i := 0; i < len(f.nets) && err == nil; i++ {
			if slices.Index(f.nets, f.nets[i]) == i {
				err = f.nets[i].Load(d)
			}
		}
		if err != nil {
			f.err = fmt.Errorf("%s: %w", f.file, err)
		}
	})
	return f.err
}

// A Keeper computes the feature maps of images with the frozen layers of a policy. Rollouts and replay buffers can then
// keep feature maps in place of images. If the images of a row do not change, the Keeper does not compute their maps
// again.
type Keeper struct {
	*frozen
	rows  int
	works []*resnet.FrozenWork
	seen  [][]byte // the last images of each camera, [rows,H,W,3]
	known [][]bool // whether seen has an image of the row
	obs   tensor.Dict
	maps  tensor.Dict // feature maps [rows,…] of each observation with images
}

// keptAtOnce is the largest number of images that a Keeper computes at once.
const keptAtOnce = 8

// Kept returns the observations of p with feature maps in place of images. All methods of p take such observations,
// too. Kept returns nil if p has no frozen layers.
func Kept(p Policy) []env.Field {
	if s, ok := p.(*SoftActor); ok && s.encoder != nil && s.encoder.frozen != nil {
		return s.encoder.frozen.kept
	}
	return nil
}

// FrozenBytes returns the size in bytes of the weights of frozen layers, which Params of p does not include.
func FrozenBytes(p Policy) (n int) {
	if Kept(p) == nil {
		return 0
	}
	f := p.(*SoftActor).encoder.frozen
	for i, net := range f.nets {
		if slices.Index(f.nets, net) == i {
			n += net.Bytes()
		}
	}
	return n
}

// NewKeeper returns a Keeper for at most the given number of rows, or nil if p has no frozen layers.
func NewKeeper(p Policy, rows int) *Keeper {
	if Kept(p) == nil {
		return nil
	}
	return p.(*SoftActor).encoder.frozen.newKeeper(rows)
}

// newKeeper returns a Keeper for at most the given number of rows.
func (f *frozen) newKeeper(rows int) *Keeper {
	k := &Keeper{frozen: f, rows: rows}
	for i, c := range f.cameras {
		at := slices.Index(f.nets, f.nets[i])
		if at == i {
			k.works = append(k.works, f.nets[i].NewWork(min(rows, keptAtOnce)))
		} else {
			k.works = append(k.works, k.works[at])
		}
		k.seen, k.known = append(k.seen, make([]byte, rows*c.Image.Len())), append(k.known, make([]bool, rows))
	}
	for i, field := range f.kept {
		if field.DType != f.fields[i].DType {
			k.maps.Set(field.Name, tensor.New(tensor.F32, append([]int{rows}, field.Shape...)...))
		}
	}
	return k
}

// Keep returns obs, with feature maps in place of images. If only is not nil, Keep computes only the rows that it
// lists; the maps of other rows are not valid. The result is valid until the next call.
func (k *Keeper) Keep(obs tensor.Dict, only []int) (tensor.Dict, error) {
	n, err := Rows(k.fields, obs, k.rows)
	if err == nil {
		err = k.load()
	}
	if err != nil {
		return tensor.Dict{}, err
	}
	for i := range k.cameras {
		k.look(i, obs.Must(k.cameras[i].Name).U8(), n, only)
	}
	for _, f := range k.fields {
		t, ok := k.maps.Get(f.Name)
		if ok {
			t = t.Slice(0, n)
		} else {
			t = obs.Must(f.Name)
		}
		k.obs.Set(f.Name, t)
	}
	return k.obs, nil
}

// look computes the maps of camera i for those of n rows whose images have changed. If only is not nil, it skips all
// other rows.
func (k *Keeper) look(i int, images []byte, n int, only []int) {
	c, each := k.cameras[i], k.cameras[i].Image.Len()
	first := 0 // the first of neighbouring rows that have changed
	for row := range n {
		image, seen := images[(row*c.Views+c.View)*each:][:each], k.seen[i][row*each:][:each]
		if only != nil && !slices.Contains(only, row) || k.known[i][row] && bytes.Equal(image, seen) {
			k.compute(i, first, row)
			first = row + 1
			continue
		}
		copy(seen, image)
		k.known[i][row] = true
		if row+1-first == keptAtOnce {
			k.compute(i, first, row+1)
			first = row + 1
		}
	}
	k.compute(i, first, n)
}

// compute computes the maps of camera i for rows [lo, hi).
func (k *Keeper) compute(i, lo, hi int) {
	if lo >= hi {
		return
	}
	c, each := k.cameras[i], k.cameras[i].Image.Len()
	to := k.maps.Must(c.Name)
	views, size := 1, to.Len()/k.rows
	if to.Rank() == 5 {
		views = to.Dim(1)
		size /= views
	}
	maps := k.nets[i].Forward(k.works[i], k.seen[i][lo*each:hi*each], hi-lo)
	for row := lo; row < hi; row++ {
		copy(to.F32()[(row*views+c.View)*size:][:size], maps[(row-lo)*size:])
	}
}

// sees reports whether obs has images. If not, it has feature maps.
func (f *frozen) sees(obs tensor.Dict) bool {
	t, ok := obs.Get(f.cameras[0].Name)
	return ok && t.DType() == tensor.U8
}

// size returns the number of elements of a feature map of camera i.
func (f *frozen) size(i int) int { return resnet.MapOf(f.cameras[i].Image).Len() }

// newMaps returns the arguments dst and copies for mapsOf, and one more list of the same length.
func (f *frozen) newMaps(rows int) (maps, copies, now [][]float32) {
	maps, copies, now = make([][]float32, len(f.cameras)), make([][]float32, len(f.cameras)),
		make([][]float32, len(f.cameras))
	for i, c := range f.cameras {
		if c.Views > 1 {
			copies[i] = nn.Vector[float32](rows * f.size(i))
		}
	}
	return maps, copies, now
}

// mapsOf sets dst to the feature maps of the cameras, for n rows of observations from a Keeper. If an observation has
// several cameras, mapsOf copies the maps of each of them to copies.
func (f *frozen) mapsOf(dst, copies [][]float32, obs tensor.Dict, n int) {
	for i, c := range f.cameras {
		t, size := obs.Must(c.Name), f.size(i)
		if dst[i] = t.F32(); t.Len() == n*size {
			continue
		}
		for row := range n {
			copy(copies[i][row*size:], t.F32()[(row*t.Dim(1)+c.View)*size:][:size])
		}
		dst[i] = copies[i]
	}
}

// frozenSource returns the feature map of a camera as a source of layers.
func frozenSource(c Camera) nn.Source {
	return nn.Source{Name: c.source().Name, Map: resnet.MapOf(c.Image)}
}

// frozenFeatures computes 256 features of the named feature map, as RLinf's cnn_policy does.
func frozenFeatures(name, _ string) nn.Layer {
	layers := []nn.Layer{nn.Input(name), nn.SpatialEmbed(8).Named("embeddings"), nn.Dropout(0.1)}
	return nn.Sequence(append(layers, nn.Hidden([]int{256}, nn.Tanh, nn.LayerNorms)...)...)
}
