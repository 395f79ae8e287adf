package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// seenSpec is of images of 8×8 pixels beside a number.
func seenSpec() env.Spec {
	spec := trackSpec()
	spec.Obs = append(spec.Obs, env.Field{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8,
		Shape: []int{8, 8, 3}}})
	return spec
}

// seenSetup is trackSetup for a policy that sees images, with a fixed temperature. Gradients are clipped.
func seenSetup(t testing.TB, changes ...change) algo.Setup {
	t.Helper()
	var model policy.Config
	s := trackSetup(t, append([]change{func(s *algo.Setup, m *policy.Config) {
		s.Optim.ClipGrad, s.Optim.LR, s.Config.UpdateEpoch = 0.1, 1e-2, 1
		s.Optim.AdamEps = 1e-3 // so that rounding does not decide the steps of parameters without a gradient
		o := &s.Config.OffPolicy
		o.EntropyTuning.AlphaType, o.EntropyTuning.InitialAlpha = algo.AlphaFixed, 0.2
	}}, append(changes, func(s *algo.Setup, m *policy.Config) { model = *m })...)...)
	for _, side := range []string{"observation.", "next_observation."} {
		s.Rollout = append(s.Rollout, tensor.Field{Name: side + "image", DType: tensor.U8,
			Shape: []int{s.Steps, s.Envs, 8, 8, 3}})
	}
	s.Policy = newSeeing(t, model)
	return s
}

func newSeeing(t testing.TB, model policy.Config) *policy.SoftActor {
	t.Helper()
	model.ModelType, model.Encoder = "cnn_policy", policy.Keypoints
	p := test.Must(policy.NewCNN(model, seenSpec(), 1, tensor.Heap))(t)
	return p.(*policy.SoftActor)
}

// sight returns a rollout of random images, numbers, actions and rewards.
func sight(s *algo.Setup, number uint64) tensor.Dict {
	layout := tensor.NewLayout(s.Rollout...)
	r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	draw := philox.New(11, philox.Replay, 1, number)
	for i := range r.Len() {
		switch name, x := r.Entry(i); {
		case x.DType() == tensor.F32:
			for k := range x.F32() {
				x.F32()[k] = float32(draw.Uniform(-1, 1))
			}
		case name == "terminated":
			x.U8()[3] = 1
		case name != "truncated":
			for k := range x.U8() {
				x.U8()[k] = uint8(draw.IntN(256))
			}
		}
	}
	return r
}

// look adds a rollout to a and makes its updates.
func look(t testing.TB, a algo.Algorithm, s *algo.Setup, number int) algo.Metrics {
	t.Helper()
	r := sight(s, uint64(number))
	test.OK(t, a.Prepare(&r))
	return test.Must(a.Update(r))(t)
}

// TestUpdatesFromImages compares three updates with a slow and plain computation: the features of the encoder before
// the update are read by all, the critics' loss alone trains the encoder, and targets read the encoder or a copy.
func TestUpdatesFromImages(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(algo.Setup) (algo.Algorithm, error)
		change change
	}{
		{"SAC", sac, asIs},
		{"SAC with LayerNorm, in micro-batches", sac, func(s *algo.Setup, m *policy.Config) {
			s.MicroBatch, m.LayerNorm = 16, true
		}},
		{"SAC with the encoder in targets", sac, func(s *algo.Setup, _ *policy.Config) {
			s.Config.OffPolicy.TargetUpdateType = algo.TargetQHeadOnly
		}},
		{"CrossQ", func(s algo.Setup) (algo.Algorithm, error) { return algo.NewCrossQ(s) },
			func(_ *algo.Setup, m *policy.Config) { m.QHeadType = policy.QHeadCrossQ }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var model policy.Config
			s := seenSetup(t, c.change, func(_ *algo.Setup, m *policy.Config) { model = *m })
			w := watch(t, test.Must(c.make(s))(t), s)
			for i := range s.Config.OffPolicy.ReplayBuffer.MinBufferSize - 1 {
				look(t, w, &s, i)
			}
			p := newPlain(t, w, newSeeing(t, model))
			for update := range 3 {
				look(t, w, &s, 10+update)
				p.update(uint64(update))
			}
			after := stateOf(t, w)
			p.near("policy", s.Policy.Params().Data, p.actor.Params().Data)
			p.near("critic", paramsIn(after, "critic", p.critic.Params()), p.critic.Params().Data)
			if p.target != nil {
				p.near("target", paramsIn(after, "target", p.target.Params()), p.target.Params().Data)
			}
			if p.delayed != nil {
				p.near("target encoder", paramsIn(after, "target", p.delayed.Params()), p.delayed.Params().Data)
			}
		})
	}
}

func sac(s algo.Setup) (algo.Algorithm, error) { return algo.NewSAC(s) }

// A plain makes updates of SAC or CrossQ, without micro-batches, one step after the other.
type plain struct {
	*testing.T
	w              *watched
	actor          *policy.SoftActor
	critic, target *policy.Critic  // target is nil for CrossQ
	delayed        *policy.Encoder // nil if targets read the actor's encoder
	moments        map[string][][2]float64
	steps          int
}

// newPlain begins with the networks of w. pol is like the policy of w.
func newPlain(t *testing.T, w *watched, pol *policy.SoftActor) *plain {
	p := &plain{T: t, w: w, actor: pol, moments: map[string][][2]float64{}}
	copy(pol.Params().State(), w.setup.Policy.Params().State())
	state := stateOf(t, w)
	p.critic = criticLike(t, pol).Critic
	copy(p.critic.Params().Data, paramsIn(state, "critic", p.critic.Params()))
	if pol.QHeadType() == policy.QHeadCrossQ {
		return p
	}
	p.target = criticLike(t, pol).Critic
	copy(p.target.Params().Data, p.critic.Params().Data)
	if w.setup.Config.OffPolicy.TargetUpdateType == algo.TargetAll {
		p.delayed = test.Must(pol.Encoder().NewTarget(tensor.Heap))(t)
	}
	return p
}

func (p *plain) update(number uint64) {
	p.steps++
	n, o := p.w.setup.GlobalBatch, p.w.setup.Config.OffPolicy
	b, encoder, work := p.w.batch(number), p.actor.Encoder(), p.actor.NewFeatureWork(n)
	encoded := func(e *policy.Encoder, w *policy.EncoderWork, obs tensor.Dict) (d tensor.Dict) {
		f := make([]float32, n*e.Width())
		test.Must(e.Encode(w, f, obs))(p)
		d.Set(policy.Features, tensor.FromF32(f, n, e.Width()))
		return d
	}
	next := encoded(encoder, encoder.NewWork(n, n), b.Next)
	held := encoder.NewWork(n, n)
	obs := encoded(encoder, held, b.Obs)
	act := test.Must(p.actor.Forward(work, next, policy.Sample, p.w.noise(2*number)))(p)
	q, nextQ := make([]float32, 2*n), make([]float32, 2*n)
	works := p.critic.NewWork(2 * n)
	if p.target == nil {
		both := test.Must(p.critic.JointQ(works, obs, b.Action, next, act.Action))(p).F32()
		for h := range 2 {
			copy(q[h*n:(h+1)*n], both[2*n*h:])
			copy(nextQ[h*n:(h+1)*n], both[2*n*h+n:])
		}
	} else {
		seen := next
		if p.delayed != nil {
			seen = encoded(p.delayed, p.delayed.NewWork(n, n), b.Next)
		}
		copy(nextQ, test.Must(p.target.Q(p.target.NewWork(n), seen, act.Action))(p).F32())
		copy(q, test.Must(p.critic.Q(works, obs, b.Action))(p).F32())
	}
	rows := len(q) / 2
	if p.target == nil {
		rows = 2 * n
	}
	dQ, dFeatures := tensor.New(tensor.F32, 2, rows), make([]float32, rows*encoder.Width())
	for i := range n {
		y := b.Reward[i] + b.Discount[i]*(min(nextQ[i], nextQ[n+i])-o.EntropyTuning.InitialAlpha*act.LogProb.F32()[i])
		for h := range 2 {
			dQ.F32()[h*rows+i] = (q[h*n+i] - y) / float32(n)
		}
	}
	clear(p.critic.Params().Grad)
	clear(p.actor.Params().Grad)
	p.critic.Backward(works, dQ, dFeatures, nil)
	encoder.Backward(held, dFeatures[:n*encoder.Width()], nil)
	trained := len(encoder.Data())
	p.step("critic", [2][]float32{p.critic.Params().Data, p.critic.Params().Grad},
		[2][]float32{encoder.Data(), p.actor.Params().Grad[:trained]})
	if p.target == nil {
		sums := make([]float64, p.critic.StatsLen())
		p.critic.AddStats(sums, works)
		p.critic.MergeStats(sums)
	}

	act = test.Must(p.actor.ForwardBatch(work, obs, p.w.noise(2*number+1)))(p)
	works = p.critic.NewWork(n)
	values := test.Must(p.critic.Q(works, obs, act.Action))(p).F32()
	dQ, dAction, dLogProb := tensor.New(tensor.F32, 2, n), tensor.New(tensor.F32, n, 1, 1), tensor.New(tensor.F32, n, 1)
	for i := range n {
		least := 0
		if values[n+i] < values[i] {
			least = 1
		}
		dQ.F32()[least*n+i], dLogProb.F32()[i] = -1/float32(n), o.EntropyTuning.InitialAlpha/float32(n)
	}
	p.critic.ActionGrad(works, dAction, dQ)
	clear(p.actor.Params().Grad)
	test.OK(p, p.actor.Backward(work, policy.Grad{Action: dAction, LogProb: dLogProb}, nil))
	p.step("actor", [2][]float32{p.actor.Data(), p.actor.Params().Grad[trained:]})
	if p.target == nil {
		sums := make([]float64, p.actor.StatsLen())
		p.actor.AddStats(sums, work)
		p.actor.MergeStats(sums)
		return
	}
	moved := [][2][]float32{{p.target.Params().Data, p.critic.Params().Data}}
	if p.delayed != nil {
		moved = append(moved, [2][]float32{p.delayed.Data(), encoder.Data()})
	}
	for _, m := range moved {
		for i, x := range m[1] {
			m[0][i] += o.Tau * (x - m[0][i])
		}
	}
}

// step makes a step of Adam on slices of parameters and gradients, whose norm is limited together.
func (p *plain) step(name string, parts ...[2][]float32) {
	o := p.w.setup.Optim
	var square float64
	for _, part := range parts {
		for _, g := range part[1] {
			square += float64(g) * float64(g)
		}
	}
	scale, at := min(1, float64(o.ClipGrad)/math.Sqrt(square)), 0
	if scale == 1 && name == "critic" {
		p.Errorf("the critics' gradient has norm %v: the limit has no effect", math.Sqrt(square))
	}
	for _, part := range parts {
		for i, g := range part[1] {
			if at == len(p.moments[name]) {
				p.moments[name] = append(p.moments[name], [2]float64{})
			}
			m, g := &p.moments[name][at], scale*float64(g)
			at++
			b1, b2 := float64(o.AdamBeta1), float64(o.AdamBeta2)
			m[0], m[1] = b1*m[0]+(1-b1)*g, b2*m[1]+(1-b2)*g*g
			first, second := m[0]/(1-math.Pow(b1, float64(p.steps))), m[1]/(1-math.Pow(b2, float64(p.steps)))
			part[0][i] -= float32(float64(o.LR) * first / (math.Sqrt(second) + float64(o.AdamEps)))
		}
	}
}

// near checks that got agrees with want, to 1e-4 of the largest element.
func (p *plain) near(name string, got, want []float32) {
	p.Helper()
	var largest, worst float64
	for i, x := range want {
		largest = max(largest, math.Abs(float64(x)))
		worst = max(worst, math.Abs(float64(x-got[i])))
	}
	if !(worst <= 1e-4*largest) {
		p.Errorf("%s: the largest difference is %v, and the largest element %v", name, worst, largest)
	}
}

// TestFeaturesOfNumbers: an encoder that only passes numbers on changes no bit of any algorithm.
func TestFeaturesOfNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(algo.Setup) (algo.Algorithm, error)
		change change
	}{
		"SAC": {sac, asIs},
		"CrossQ": {func(s algo.Setup) (algo.Algorithm, error) { return algo.NewCrossQ(s) },
			func(_ *algo.Setup, m *policy.Config) { m.QHeadType = policy.QHeadCrossQ }},
		"TD3": {func(s algo.Setup) (algo.Algorithm, error) { return algo.NewTD3(s) },
			func(_ *algo.Setup, m *policy.Config) { m.ExplorationNoise = 0.3 }},
		"IQL": {func(s algo.Setup) (algo.Algorithm, error) { return algo.NewIQL(s) },
			func(s *algo.Setup, _ *policy.Config) {
				rollout := sight(s, 5)
				for i := range rollout.Len() {
					name, x := rollout.Entry(i)
					s.Demos.Set(name, x.Reshape(append([]int{s.Steps * s.Envs}, x.Shape()[2:]...)...))
				}
			}},
	} {
		for _, kind := range []string{algo.TargetAll, algo.TargetQHeadOnly} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				var model policy.Config
				run := func(pol func() (policy.Policy, error)) ([]byte, []float64) {
					s := trackSetup(t, func(s *algo.Setup, _ *policy.Config) {
						o := &s.Config.OffPolicy
						s.MicroBatch, o.TargetUpdateType, o.ReplayBuffer.MinBufferSize = 32, kind, 1
					}, c.change, func(_ *algo.Setup, m *policy.Config) { model = *m })
					if p := test.Must(pol())(t); p != nil {
						s.Policy = p
					}
					a := test.Must(c.make(s))(t)
					var m algo.Metrics
					for i := range 3 {
						if s.Demos.Len() == 0 {
							m = look(t, a, &s, i)
						} else {
							m = test.Must(a.Update(tensor.Dict{}))(t)
						}
					}
					return slices.Clone(s.Policy.Params().State()), slices.Clone(m.Values)
				}
				plain, want := run(func() (policy.Policy, error) { return nil, nil })
				params, got := run(func() (policy.Policy, error) {
					model.ModelType = "own_policy"
					return policy.NewWithEncoder(model, trackSpec(), nn.Input("state"), 1, tensor.Heap)
				})
				test.EqualSlices(t, params, plain)
				for i, v := range want {
					test.Equal(t, math.Float64bits(got[i]), math.Float64bits(v), i)
				}
			})
		}
	}
}

// TestShift: images move by whole pixels with repeated edges, frames together, cameras and sides apart, and a batch in
// micro-batches moves as the whole.
func TestShift(t *testing.T) {
	t.Parallel()
	const rows, frames, h, w = 8, 2, 9, 3
	field := func(name string, shape ...int) env.Field {
		return env.Field{Name: name, Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: shape}}
	}
	model := policy.DefaultConfig()
	model.ModelType, model.Encoder, model.AddQHead, model.AddValueHead = "cnn_policy", policy.Keypoints, true, false
	spec := trackSpec()
	spec.Obs = []env.Field{field("a", frames, h, w, 1), field("b", h, w, 1)}
	s := algo.Setup{Policy: test.Must(policy.NewCNN(model, spec, 1, tensor.Heap))(t), Seed: 3}
	fresh := func() (b algo.Transitions) {
		for _, side := range []*tensor.Dict{&b.Obs, &b.Next} {
			side.Set("a", tensor.New(tensor.U8, rows, frames, h, w, 1))
			side.Set("b", tensor.New(tensor.U8, rows, h, w, 1))
			for _, name := range []string{"a", "b"} {
				for i := range side.Must(name).U8() {
					side.Must(name).U8()[i] = uint8(i % (h * w)) // a pixel's value is its place
				}
			}
		}
		return b
	}
	whole := fresh()
	test.OK(t, algo.ShiftImages(&s, &whole, 16, 5))
	places := map[[2]int]bool{}
	moves := map[string][][2]int{}
	for side, obs := range []tensor.Dict{whole.Obs, whole.Next} {
		for _, name := range []string{"a", "b"} {
			x := obs.Must(name).U8()
			for i := 0; i < len(x); i += h * w {
				down, right, found := 0, 0, false
				for k := range 81 {
					d, r, same := k/9-4, k%9-4, true
					for at, v := range x[i : i+h*w] {
						y, col := min(max(at/w-d, 0), h-1), min(max(at%w-r, 0), w-1)
						same = same && int(v) == y*w+col
					}
					if same && !found {
						down, right, found = d, r, true
					}
				}
				if !found {
					t.Fatalf("%s %d: image %d is no shifted image: %v", name, side, i/(h*w), x[i:i+h*w])
				}
				key := name + string(rune('0'+side))
				moves[key] = append(moves[key], [2]int{down, right})
				places[[2]int{down, right}] = true
			}
		}
	}
	var first [][2]int // of the first camera's samples
	for i := range rows {
		first = append(first, moves["a0"][2*i])
		if moves["a0"][2*i] != moves["a0"][2*i+1] {
			t.Errorf("sample %d: frames move by %v and %v", i, moves["a0"][2*i], moves["a0"][2*i+1])
		}
	}
	if slices.Equal(moves["b0"], moves["b1"]) || slices.Equal(first, moves["b0"]) || len(places) < 12 {
		t.Errorf("moves %v", moves)
	}
	parts := fresh()
	for lo := 0; lo < rows; lo += 4 {
		part := algo.Transitions{Obs: parts.Obs.Slice(lo, lo+4), Next: parts.Next.Slice(lo, lo+4)}
		test.OK(t, algo.ShiftImages(&s, &part, 16+lo, 5))
	}
	for _, name := range []string{"a", "b"} {
		test.EqualSlices(t, parts.Next.Must(name).U8(), whole.Next.Must(name).U8())
	}
	spec.Obs = trackSpec().Obs
	model.ModelType, model.Encoder = "mlp_policy", ""
	s.Policy = test.Must(policy.NewMLP(model, spec, 1, tensor.Heap))(t)
	test.Fails(t, algo.ShiftImages(&s, &whole, 0, 0), "actor.enable_drq: true: expected a policy that sees images")
}
