package vla_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/tensor"
)

// Gradients are central differences, along a random direction of each tensor.
func TestGradients(t *testing.T) {
	onVariants(t, func(t *testing.T, cfg policy.Config, own vla.Config) {
		p := newPolicy(t, cfg, own)
		obs, act := sample(t, p, 5, 2)
		if own.Foresight > 0 {
			obs.Set(policy.Goal, goals(5))
		}
		action := act.Action.Clone()
		if own.ActionHead == vla.L1 { // away from the mean, where the error has a corner
			for i := range action.F32() {
				action.F32()[i] = 0.9 - 1.8*float32(i%2)
			}
		}
		checkGradients(t, p, own, obs, action)
	})
}

// Without chains flow learns from actions as demonstrations.
func TestGradientsOfImitatedFlow(t *testing.T) {
	cfg, own := small()
	own.ActionHead = vla.Flow
	p := newPolicy(t, cfg, own)
	_, act := sample(t, p, 5, 2)
	checkGradients(t, p, own, observe(5, 2), act.Action.Clone())
}

// A gradientTest compares the gradients of a random linear loss of an Eval with differences.
type gradientTest struct {
	*testing.T
	rng  *rand.Rand
	p    *vla.Policy
	eval func() policy.Eval
	g    policy.Grad // the derivatives of the loss
}

func checkGradients(t *testing.T, p *vla.Policy, own vla.Config, obs tensor.Dict, action tensor.Tensor) {
	t.Helper()
	w := p.NewWork(action.Dim(0))
	c := gradientTest{T: t, rng: rand.New(rand.NewPCG(4, 9)), p: p}
	c.eval = func() policy.Eval { return evaluate(t, p, w, obs, action) }
	e := c.eval()
	c.g = policy.Grad{LogProb: c.like(e.LogProb), Entropy: c.like(e.Entropy), Value: c.like(e.Value)}
	c.backward(w)
	checked := 0
	for i, f := range p.Params().Fields {
		checked += f.Len()
		vision := strings.HasPrefix(f.Name, "vision")
		switch grad := p.Params().GradOf(i); {
		case vision && own.FreezeVision:
			if !slices.Equal(grad, make([]float32, len(grad))) {
				t.Errorf("%s is frozen and has a gradient", f.Name)
			}
		case vision || own.ActionHead == vla.L1:
			c.alongElements(i)
		default:
			c.alongRandom(i)
		}
	}
	if checked != p.Params().Len() {
		t.Errorf("%d parameters checked of %d", checked, p.Params().Len())
	}
}

// like returns a random tensor of the shape of x.
func (c *gradientTest) like(x tensor.Tensor) tensor.Tensor {
	if x.IsZero() {
		return x
	}
	d := tensor.New(tensor.F32, x.Shape()...)
	for i := range d.F32() {
		d.F32()[i] = float32(c.rng.NormFloat64())
	}
	return d
}

// backward computes the gradients. Ranges become ready from the end to the beginning, without a gap.
func (c *gradientTest) backward(w policy.Work) {
	end := len(c.p.Params().Data)
	if err := c.p.Backward(w, c.g, func(lo, hi int) {
		if hi != end {
			c.Errorf("[%d,%d) is ready before what ends at %d", lo, hi, end)
		}
		end = lo
	}); err != nil {
		c.Fatal(err)
	}
	if end != 0 {
		c.Errorf("[0,%d) is never ready", end)
	}
}

func (c *gradientTest) loss() (sum float64) {
	e := c.eval()
	for _, x := range [][2]tensor.Tensor{{e.LogProb, c.g.LogProb}, {e.Entropy, c.g.Entropy}, {e.Value, c.g.Value}} {
		for i := range x[0].F32() {
			sum += float64(x[0].F32()[i]) * float64(x[1].F32()[i])
		}
	}
	return sum
}

// alongRandom compares along a random direction of a field.
func (c *gradientTest) alongRandom(field int) {
	direction := make([]float32, len(c.p.Params().Of(field)))
	for k := range direction {
		direction[k] = float32(c.rng.NormFloat64())
	}
	if got, want, ok := c.agree(field, direction); !ok {
		c.Errorf("%s: derivative %g, by differences %g", c.p.Params().Fields[field].Name, want, got)
	}
}

// alongElements compares along one element of a field. Rectifiers have corners, which a step along one
// element seldom crosses. So one of the three elements with the largest derivatives must agree.
func (c *gradientTest) alongElements(field int) {
	grad := c.p.Params().GradOf(field)
	order := make([]int, len(grad))
	for k := range order {
		order[k] = k
	}
	size := func(k int) float64 { return math.Abs(float64(grad[k])) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	var got, want float64
	for _, k := range order[:min(3, len(order))] {
		direction, ok := make([]float32, len(grad)), false
		direction[k] = 1
		if got, want, ok = c.agree(field, direction); ok {
			return
		}
	}
	c.Errorf("%s: derivative %g, by differences %g", c.p.Params().Fields[field].Name, want, got)
}

// agree returns the derivative of the loss along a direction by differences and by the gradient.
func (c *gradientTest) agree(field int, direction []float32) (got, want float64, ok bool) {
	x, at := c.p.Params().Of(field), slices.Clone(c.p.Params().Of(field))
	defer copy(x, at)
	move := func(by float32) float64 {
		for k := range x {
			x[k] = at[k] + by*direction[k]
		}
		return c.loss()
	}
	norm := 0.0
	for k, d := range c.p.Params().GradOf(field) {
		want += float64(direction[k]) * float64(d)
		norm += float64(d) * float64(d)
	}
	for _, h := range []float32{2e-3, 5e-4} {
		got = (move(h) - move(-h)) / float64(2*h)
		ok = ok || math.Abs(got-want) < 0.02*math.Abs(want)+0.01*math.Sqrt(norm)+0.02
	}
	return got, want, ok
}
