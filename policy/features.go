package policy

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Features is the name of an observation, F32 [N,F], that holds what an Encoder computed. Critics and a SoftActor take
// it in place of other observations. An actor that gets Features passes no gradient to its Encoder.
const Features = "features"

// EncoderGroup and ActorGroup are the groups of the parameters of an Encoder and of a SoftActor.
const (
	EncoderGroup = "encoder"
	ActorGroup   = "actor"
)

// An Encoder computes the features that a SoftActor and its critics read from images. Its parameters are the group
// "encoder" of the policy. In off-policy training, only the critics' loss changes them, as in DrQ-v2 (Yarats et al.
// 2021, arXiv:2107.09645).
type Encoder struct {
	cfg  Config
	spec env.Spec
	obs  *observations
	net  *nn.Net[float32]

	frozen *frozen       // the layers before net; nil if net reads the images
	kept   *observations // what net reads: obs; with frozen layers, feature maps replace its images
}

// newSharedEncoder declares the parameters of an Encoder in the first group of params. If own is not nil, its layers
// compute the features. If cfg.Frozen is set, the argument before has the frozen layers; if it is nil, new ones are
// made. Params.Alloc allocates the parameters.
func newSharedEncoder(cfg Config, spec env.Spec, own *nn.Layer, before *frozen, params *nn.Params[float32]) (*Encoder,
	error) {
	obs, err := newObservations(spec, cfg, own, params)
	if err != nil {
		return nil, err
	}
	kept := obs
	if cfg.Frozen != "" {
		if before == nil {
			if before, err = newFrozen(cfg, obs); err != nil {
				return nil, err
			}
		}
		kept = new(*obs)
		kept.fields, kept.images = before.kept, nil
	}
	params.Group(EncoderGroup)
	layers, sources := obs.shape().input()
	net, err := nn.NewNet(params, "", nn.Sequence(layers...), sources)
	if err != nil {
		return nil, fmt.Errorf("network encoder: %w", err)
	}
	if net.State > 0 || net.StatsLen() > 0 {
		return nil, errors.New("add_q_head: true: expected an encoder without recurrent cells and BatchNorm")
	}
	return &Encoder{cfg, spec, obs, net, before, kept}, nil
}

// NewTarget returns an Encoder with its own copy of the parameters of e.
func (e *Encoder) NewTarget(alloc tensor.Allocator) (*Encoder, error) {
	params := newParams(e.cfg)
	t, err := newSharedEncoder(e.cfg, e.spec, e.obs.own, e.frozen, params)
	if err == nil {
		err = params.Alloc(alloc)
	}
	if err != nil {
		return nil, err
	}
	t.CopyFrom(e)
	return t, nil
}

// CopyFrom sets the parameters of e to those of another Encoder.
func (e *Encoder) CopyFrom(from *Encoder) { copy(e.Data(), from.Data()) }

// Data returns the parameters of e, the group "encoder" of Params.
func (e *Encoder) Data() []float32 {
	g := e.obs.params.Groups[0]
	return e.obs.params.Data[g.Lo:g.Hi]
}

// Width returns F, the number of features.
func (e *Encoder) Width() int { return e.net.Out }

// Params returns the Params whose group "encoder" belongs to e.
func (e *Encoder) Params() *nn.Params[float32] { return e.obs.params }

// An EncoderWork holds one user's activations. Only the Encoder that made the EncoderWork can read them.
type EncoderWork struct {
	maxRows, atOnce int
	obs             *obsWork
	images          [][]uint8
	net             *nn.NetWork[float32]

	Drop         nn.Drop     // for the next Encode; Drop.First is for its first row
	keeper       *Keeper     // for frozen layers; made when an Encode first gets images
	maps, copies [][]float32 // of each camera: see frozen.mapsOf
	now          [][]float32 // the maps of the rows that are computed at once

	input, results []float32 // mirrors of the numbers and of the features of the rows that are computed at once
}

// NewWork returns an EncoderWork for at most maxRows rows. It computes atOnce rows at a time, to bound its memory. For
// Backward, a batch must have at most atOnce rows.
func (e *Encoder) NewWork(maxRows, atOnce int) *EncoderWork {
	w := &EncoderWork{maxRows: maxRows, atOnce: min(maxRows, atOnce), obs: e.kept.newWork(maxRows),
		images: make([][]uint8, len(e.kept.images)), net: e.net.NewWork(min(maxRows, atOnce))}
	p := e.Params()
	w.input, w.results = p.Mirror(w.atOnce*e.obs.numbers), p.Mirror(w.atOnce*e.net.Out)
	if e.frozen != nil {
		w.maps, w.copies, w.now = e.frozen.newMaps(maxRows)
	}
	return w
}

// Encode sets the first rows of dst, [maxRows,F], to the features of the N rows of obs, and returns N. obs has images,
// or the feature maps that a Keeper made from them.
func (e *Encoder) Encode(w *EncoderWork, dst []float32, obs tensor.Dict) (int, error) {
	var err error
	if e.frozen != nil && e.frozen.sees(obs) {
		if w.keeper == nil {
			w.keeper = e.frozen.newKeeper(w.maxRows)
		}
		if obs, err = w.keeper.Keep(obs, nil); err != nil {
			return 0, err
		}
	}
	numbers, n, err := e.kept.read(w.obs, obs, w.maxRows)
	if err != nil {
		return 0, err
	}
	if e.frozen != nil {
		e.frozen.mapsOf(w.maps, w.copies, obs, n)
	}
	places := len(e.obs.choices.Low)
	for lo := 0; lo < n; lo += w.atOnce {
		hi := min(lo+w.atOnce, n)
		for i, image := range w.obs.images {
			each := len(image) / n
			w.images[i] = image[lo*each : hi*each]
		}
		for i, m := range w.maps {
			each := e.frozen.size(i)
			w.now[i] = m[lo*each : hi*each]
		}
		drop := w.Drop
		drop.First += uint64(lo)
		y := e.net.Forward(w.net, nn.Batch[float32]{Rows: hi - lo, Images: w.images, Maps: w.now, Drop: drop,
			Numbers: e.Params().Import(w.input, numbers[lo*e.obs.numbers:hi*e.obs.numbers]),
			Choices: w.obs.words[lo*places : hi*places]})
		copy(dst[lo*e.net.Out:], e.Params().Export(w.results, y))
	}
	return n, nil
}

// Backward adds the gradient of a loss to Params().Grad. dFeatures, [N,F], is the gradient of the loss with respect to
// the features of the last Encode with w. Policy.Backward describes ready.
func (e *Encoder) Backward(w *EncoderWork, dFeatures []float32, ready func(lo, hi int)) {
	e.net.SetOutGrad(w.net, dFeatures)
	e.net.Backward(w.net, nil, ready)
}
