package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// features holds what the encoder of a SoftActor computes from a batch. All networks that read the same observations
// share it. The critics' loss trains the encoder; other networks read the features without a gradient. So the actor
// learns from the features that the critics have read, as in DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645).
//
// For a policy without an encoder, features is nil: the networks then read the observations.
type features struct {
	of                               *offPolicy
	net                              *policy.Encoder
	target                           *policy.Encoder // follows net; nil if target networks read the features of net
	train                            *trainState     // of net
	obs, next, targetObs, targetNext *encoded
	gradient                         []float32 // [2·micro,F]
}

// encodedAtOnce is the number of rows that an encoder computes at once if there is no gradient.
const encodedAtOnce = 64

// encode makes e.features, if p has an encoder. The encoder's optimiser step is a part of the step of the critics c.
func (e *offPolicy) encode(s *Setup, p *policy.SoftActor, c *critics) error {
	net := p.Encoder()
	if net == nil {
		return nil
	}
	f := &features{of: e, net: net, gradient: nn.Vector[float32](2 * e.micro * net.Width())}
	cfg := s.CriticOptim
	cfg.LR = cfg.CriticLR()
	var err error
	if f.train, err = s.newGroupState(net.Params(), cfg, policy.EncoderGroup); err != nil {
		return err
	}
	rest := net.NewWork(e.micro, encodedAtOnce)
	f.obs, f.next = newEncoded(e, net, net.NewWork(e.micro, e.micro), 0), newEncoded(e, net, rest, 1)
	f.targetObs, f.targetNext = f.obs, f.next
	f.train.save(&e.state, "encoder", false)
	if c.target != nil && e.off.TargetUpdateType == TargetAll {
		if f.target, err = net.NewTarget(s.Alloc); err != nil {
			return err
		}
		rest = f.target.NewWork(e.micro, encodedAtOnce)
		f.targetObs, f.targetNext = newEncoded(e, f.target, rest, 0), newEncoded(e, f.target, rest, 1)
		saveParams(&e.state, "target", f.target.Params())
	}
	e.features, c.features, c.train.beside = f, f, f.train
	return nil
}

// forget marks all features as not computed, for a new batch.
func (f *features) forget() {
	if f == nil {
		return
	}
	for _, x := range []*encoded{f.obs, f.next, f.targetObs, f.targetNext} {
		clear(x.known)
		x.held = -1
	}
}

// transfer transfers the parameters and moments of the encoder, and the parameters of the target encoder.
func (f *features) transfer(to transfer) {
	if f == nil {
		return
	}
	f.train.transfer(to)
	if f.target != nil {
		to(f.target.Params(), f.target.Params().Data)
	}
}

// follow moves the target encoder towards the encoder.
func (f *features) follow(tau float32) {
	if f != nil && f.target != nil {
		follow(f.target.Params().Ops(), f.target.Data(), f.net.Data(), tau)
	}
}

// ofObs returns what networks read from b.Obs, and ofNext what they read from b.Next. b is the present micro-batch.
func (f *features) ofObs(b *Transitions) (tensor.Dict, error) {
	if f == nil {
		return b.Obs, nil
	}
	return f.obs.read(f.micro(), b.Obs)
}

func (f *features) ofNext(b *Transitions) (tensor.Dict, error) {
	if f == nil {
		return b.Next, nil
	}
	return f.next.read(f.micro(), b.Next)
}

// ofTargetObs returns what target networks read from b.Obs, and ofTargetNext what they read from b.Next.
func (f *features) ofTargetObs(b *Transitions) (tensor.Dict, error) {
	if f == nil {
		return b.Obs, nil
	}
	return f.targetObs.read(f.micro(), b.Obs)
}

func (f *features) ofTargetNext(b *Transitions) (tensor.Dict, error) {
	if f == nil {
		return b.Next, nil
	}
	return f.targetNext.read(f.micro(), b.Next)
}

// micro returns the number of the present micro-batch in the batch.
func (f *features) micro() int { return f.of.first / f.of.micro }

// gradientOf returns memory for the gradient of the features of the given number of rows. It returns nil if there is no
// encoder.
func (f *features) gradientOf(rows int) []float32 {
	if f == nil {
		return nil
	}
	return f.gradient[:rows*f.net.Width()]
}

// backward adds the gradient of the encoder. The memory from gradientOf must hold, in its first rows, the gradient of
// the features of b.Obs.
func (f *features) backward(b *Transitions) error {
	if f == nil {
		return nil
	}
	if f.obs.held != f.micro() { // work holds another micro-batch, if earlier passes read several
		if err := f.obs.encode(f.micro(), b.Obs); err != nil {
			return err
		}
	}
	f.net.Backward(f.obs.work, f.gradientOf(len(b.Reward)), nil)
	return nil
}

// An encoded holds the features of one kind of observations of a batch. It computes them at most once.
type encoded struct {
	of    *offPolicy
	side  int // 0 for observations before the steps, 1 for observations after the steps
	net   *policy.Encoder
	work  *policy.EncoderWork
	micro []tensor.Dict // of each micro-batch: the observation policy.Features
	known []bool        // whether the features of each micro-batch are computed
	held  int           // the micro-batch whose activations are in work; -1 if there is none
}

func newEncoded(e *offPolicy, net *policy.Encoder, work *policy.EncoderWork, side int) *encoded {
	all := tensor.New(tensor.F32, e.local, net.Width())
	x := &encoded{of: e, side: side, net: net, work: work, known: make([]bool, e.local/e.micro), held: -1}
	for lo := 0; lo < e.local; lo += e.micro {
		var d tensor.Dict
		d.Set(policy.Features, all.Slice(lo, lo+e.micro))
		x.micro = append(x.micro, d)
	}
	return x
}

// read returns the features of obs, which belong to micro-batch i.
func (x *encoded) read(i int, obs tensor.Dict) (tensor.Dict, error) {
	if !x.known[i] {
		if err := x.encode(i, obs); err != nil {
			return tensor.Dict{}, err
		}
	}
	return x.micro[i], nil
}

// encode computes the features of obs, which belong to micro-batch i. Which elements dropout drops depends on the
// sample, its side and the update.
func (x *encoded) encode(i int, obs tensor.Dict) error {
	e := x.of
	x.work.Drop = nn.Drop{On: true, Seed: e.seed,
		First: (2*e.number+uint64(x.side))*uint64(e.count*e.local) + uint64(e.replica*e.local+i*e.micro)}
	if _, err := x.net.Encode(x.work, x.micro[i].Must(policy.Features).F32(), obs); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	x.known[i], x.held = true, i
	return nil
}
