package algo_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A track is a world of one number x in [-1, 1]. An action a moves x by 0.4a, and the reward is -(x - ½)² of the new x.
// After 10 steps the episode is cut off, and x is drawn anew. The best policy goes to ½ and stays there, where the
// value is 0.
type track struct {
	x     []float32
	age   []int
	drawn uint64
}

func newTrack(n int) *track {
	w := &track{x: make([]float32, n), age: make([]int, n)}
	for e := range w.x {
		w.begin(e)
	}
	return w
}

func (w *track) begin(e int) {
	s := philox.New(3, philox.Reset, uint64(e), w.drawn)
	w.drawn++
	w.x[e], w.age[e] = float32(s.Uniform(-1, 1)), 0
}

func trackSpec() env.Spec {
	unit := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	return env.Spec{Name: "track", Obs: []env.Field{{Name: "state", Space: unit}}, Action: unit}
}

// moved returns where action e of a leads from x: -1, 0 and 1 are the choices 0, 1 and 2 of discrete ones.
func moved(x float32, a tensor.Tensor, e int) float32 {
	if a.DType() == tensor.I32 {
		return min(max(x+0.4*float32(a.I32()[e]-1), -1), 1)
	}
	return min(max(x+0.4*a.F32()[e], -1), 1)
}

// play fills a rollout with what act does.
func (w *track) play(r tensor.Dict, act func(obs tensor.Dict) tensor.Tensor) {
	n := len(w.x)
	for t := range r.Must("reward").Dim(0) {
		copy(r.Must("observation.state").At(t).F32(), w.x)
		var obs tensor.Dict
		obs.Set("state", r.Must("observation.state").At(t))
		a := act(obs)
		r.Must("action").At(t).CopyFrom(a)
		for e := range n {
			w.x[e] = moved(w.x[e], a, e)
			d := w.x[e] - 0.5
			i := t*n + e
			r.Must("next_observation.state").F32()[i], r.Must("reward").F32()[i] = w.x[e], -d*d
			r.Must("truncated").U8()[i] = 0
			if w.age[e]++; w.age[e] == 10 {
				r.Must("truncated").U8()[i] = 1
				w.begin(e)
			}
		}
	}
}

// transitions are the fields of rollouts on the track.
func transitions(steps, n int, action tensor.DType) []tensor.Field {
	return []tensor.Field{
		{Name: "observation.state", DType: tensor.F32, Shape: []int{steps, n, 1}},
		{Name: "next_observation.state", DType: tensor.F32, Shape: []int{steps, n, 1}},
		{Name: "action", DType: action, Shape: []int{steps, n, 1, 1}},
		{Name: "reward", DType: tensor.F32, Shape: []int{steps, n}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{steps, n}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{steps, n}},
	}
}

// A change changes the setup of a test.
type change = func(*algo.Setup, *policy.Config)

func asIs(*algo.Setup, *policy.Config) {}

// keys is a change of the keys of off-policy algorithms.
func keys(set func(o *algo.OffPolicyConfig)) change {
	return func(s *algo.Setup, _ *policy.Config) { set(&s.Config.OffPolicy) }
}

// trackSetup is of a policy with critics of actions, for 8 updates of 64 samples after each rollout of 16.
func trackSetup(t testing.TB, changes ...change) algo.Setup {
	t.Helper()
	return setupFor(t, trackSpec(), changes...)
}

func setupFor(t testing.TB, spec env.Spec, changes ...change) algo.Setup {
	t.Helper()
	const T, N = 4, 4
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.HiddenSizes, model.Activation = true, false, []int{32, 32}, "relu"
	s := algo.Setup{
		Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 64, Seed: 7, Steps: T, Envs: N,
		Rollout: transitions(T, N, spec.Action.DType),
	}
	s.Config.Gamma, s.Config.UpdateEpoch = 0.9, 8
	s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 100, MinBufferSize: 4}
	s.Config.OffPolicy.Tau, s.Config.OffPolicy.EntropyTuning.TargetEntropy = 0.02, -2
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 3e-3, 0, 0
	for _, c := range changes {
		c(&s, &model)
	}
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	var err error
	if s.Policy, err = policy.NewMLP(model, spec, 1, tensor.Heap); err != nil {
		t.Fatal(err)
	}
	return s
}

// made returns the algorithm that the constructor returns for s.
func made[A algo.Algorithm](t testing.TB, s algo.Setup, make func(algo.Setup) (A, error)) A {
	t.Helper()
	a := test.Must(make(s))(t)
	return a
}

// runTrack plays and learns for the given number of iterations, from number first on, and returns the last metrics.
func runTrack(t testing.TB, a algo.Algorithm, s algo.Setup, w *track, first, iterations int) (m algo.Metrics) {
	t.Helper()
	layout := tensor.NewLayout(s.Rollout...)
	r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	work := s.Policy.NewWork(s.Envs)
	noise := policy.Noise{Seed: 5, Env: make([]uint64, s.Envs), Step: make([]uint64, s.Envs)}
	for i := range iterations {
		step := uint64(first+i) * uint64(s.Steps)
		w.play(r, func(obs tensor.Dict) tensor.Tensor {
			for e := range noise.Env {
				noise.Env[e], noise.Step[e] = uint64(e), step
			}
			step++
			act := test.Must(s.Policy.Forward(work, obs, policy.Sample, noise))(t)
			return act.Action
		})
		test.OK(t, a.Prepare(&r))
		var err error
		if m, err = a.Update(r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// update makes the given number of iterations of an algorithm that needs no rollouts, and returns the last metrics.
func update(t testing.TB, a algo.Algorithm, iterations int) (m algo.Metrics) {
	t.Helper()
	for range iterations {
		var err error
		if m, err = a.Update(tensor.Dict{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// within checks that two numbers differ by at most the tolerance.
func within(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// checkGoal checks that the most likely actions lead from anywhere to ½, and stay within the given distance.
func checkGoal(t *testing.T, pol policy.Policy, within float64) {
	t.Helper()
	work := pol.NewWork(1)
	var obs tensor.Dict
	for _, from := range []float32{-1, -0.4, 0.2, 1} {
		x := from
		for range 8 {
			obs.Set("state", tensor.FromF32([]float32{x}, 1, 1))
			act := test.Must(pol.Forward(work, obs, policy.Deterministic, policy.Noise{}))(t)
			x = moved(x, act.Action, 0)
		}
		if math.Abs(float64(x)-0.5) > within {
			t.Errorf("from %v the policy goes to %v, want ½", from, x)
		}
	}
}

// checkResumes checks that an algorithm that loads a saved state continues with the same numbers.
func checkResumes[A algo.Algorithm](t *testing.T, setup func(testing.TB, ...change) algo.Setup,
	make func(algo.Setup) (A, error)) {
	t.Helper()
	s, again := setup(t), setup(t)
	w := newTrack(s.Envs)
	a := made(t, s, make)
	run := func(a algo.Algorithm, s algo.Setup, w *track, first, iterations int) algo.Metrics {
		if s.Demos.Len() > 0 {
			return update(t, a, iterations)
		}
		return runTrack(t, a, s, w, first, iterations)
	}
	run(a, s, w, 0, 12)
	saved := test.Must(tensor.Decode(tensor.Encode(nil, stateOf(t, a))))(t)
	copy(again.Policy.Params().Data, s.Policy.Params().Data)
	again.Policy.Params().Buffers.CopyFrom(s.Policy.Params().Buffers)
	b := made(t, again, make)
	test.OK(t, b.Load(saved))
	twin := &track{x: slices.Clone(w.x), age: slices.Clone(w.age), drawn: w.drawn}
	want, got := run(a, s, w, 12, 5), run(b, again, twin, 12, 5)
	for i, name := range want.Names {
		if math.Float64bits(got.Values[i]) != math.Float64bits(want.Values[i]) {
			t.Errorf("%s: %v, undisturbed %v", name, got.Values[i], want.Values[i])
		}
	}
	if want.Values[0] == 0 {
		t.Error("nothing was learnt")
	}
}

// checkRefuses checks that none of the changed setups makes an algorithm.
func checkRefuses[A algo.Algorithm](t *testing.T, setup func(testing.TB, ...change) algo.Setup,
	make func(algo.Setup) (A, error), changes map[string]change) {
	t.Helper()
	for name, c := range changes {
		if _, err := make(setup(t, c)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// stateOf returns views of an algorithm's state.
func stateOf(t testing.TB, a algo.Algorithm) tensor.Dict {
	t.Helper()
	d := test.Must(a.Save())(t)
	return d
}

// disturb changes a network of an algorithm's state, so that a target network differs much from its network.
func disturb(d tensor.Dict, network string) {
	for i := range d.Len() {
		if name, x := d.Entry(i); strings.HasPrefix(name, network+".") {
			for k := range x.F32() {
				x.F32()[k] *= float32(math.Cos(float64(i + k)))
			}
		}
	}
}

// paramsIn returns the parameters of a network in a saved state, in the layout of p.
func paramsIn(d tensor.Dict, network string, p *nn.Params[float32]) []float32 {
	x := make([]float32, len(p.Data))
	for _, f := range p.Fields {
		copy(x[f.Off:], d.Must(network+"."+f.Name).F32())
	}
	return x
}

// gradientOf returns the gradient with which the optimiser of a network moved from one state to the next, by its first
// moments m' = β m + (1 - β) g.
func gradientOf(before, after tensor.Dict, network string, beta float32) []float32 {
	was, g := before.Must(network+".optim.m").F32(), slices.Clone(after.Must(network+".optim.m").F32())
	for i := range g {
		g[i] = (g[i] - beta*was[i]) / (1 - beta)
	}
	return g
}

// A watched algorithm has its experience in a second replay buffer, so that a test can draw a batch again.
type watched struct {
	algo.Algorithm
	setup  algo.Setup
	replay *algo.Replay
}

func watch(t testing.TB, a algo.Algorithm, s algo.Setup) *watched {
	t.Helper()
	r := test.Must(algo.NewReplay(s.Rollout, nil, s.Envs, s.Config.ReplaySteps(s.Steps), tensor.Heap))(t)
	return &watched{a, s, r}
}

func (w *watched) Prepare(rollout *tensor.Dict) error {
	if err := w.replay.Add(*rollout); err != nil {
		return err
	}
	return w.Algorithm.Prepare(rollout)
}

// batch returns the transitions of an update.
func (w *watched) batch(update uint64) *algo.Transitions {
	rows, draws := make([]int32, w.setup.GlobalBatch), philox.New(w.setup.Seed, philox.Replay, 0, update)
	w.replay.Draw(rows, &draws)
	b := w.replay.NewBatch(len(rows))
	w.replay.Gather(b, rows, w.setup.Config.OffPolicy.NStep, w.setup.Config.Gamma, false)
	return b
}

// noise returns the noise of an update's batch: the draws of critics and of actors have numbers of their own.
func (w *watched) noise(draw uint64) policy.Noise {
	seeds := philox.New(w.setup.Seed, philox.Replay, 1<<32-1, math.MaxUint64)
	seeds.Uint64() // the critics'
	n := w.setup.GlobalBatch
	noise := policy.Noise{Seed: seeds.Uint64(), Env: make([]uint64, n), Step: make([]uint64, n)}
	for i := range n {
		noise.Env[i], noise.Step[i] = uint64(i), draw
	}
	return noise
}

// A network computes with parameters of the test's choice.
type network struct {
	t *testing.T
	*policy.Critic
}

// criticLike returns a network like the critics of pol.
func criticLike(t *testing.T, pol policy.Policy) network {
	t.Helper()
	c := test.Must(pol.(*policy.SoftActor).NewCritic(0, tensor.Heap))(t)
	return network{t, c}
}

// valueLike returns a network like IQL's values.
func valueLike(t *testing.T, pol policy.Policy) network {
	t.Helper()
	c := test.Must(pol.(*policy.SoftActor).NewValue(0, tensor.Heap))(t)
	return network{t, c}
}

// estimates returns the network's estimates with the given parameters, [H,N]. Networks of values take no action.
func (n network) estimates(params []float32, obs tensor.Dict, action tensor.Tensor) []float32 {
	n.t.Helper()
	copy(n.Params().Data, params)
	q, err := n.Q(n.NewWork(obs.Must("state").Dim(0)), obs, action)
	if err != nil {
		n.t.Fatal(err)
	}
	return q.F32()
}

// acts returns the actions of a policy with the given parameters.
func acts(t *testing.T, pol policy.Policy, params []float32, obs tensor.Dict, mode policy.Mode,
	noise policy.Noise) policy.Act {
	t.Helper()
	own := slices.Clone(pol.Params().Data)
	copy(pol.Params().Data, params)
	act, err := pol.Forward(pol.NewWork(obs.Must("state").Dim(0)), obs, mode, noise)
	copy(pol.Params().Data, own)
	test.OK(t, err)
	return act
}

// meanSquare returns the mean of (q - y)² over N samples and all heads, for estimates q, [H,N].
func meanSquare(q, y []float32) (mean float64) {
	for i, x := range q {
		e := float64(x) - float64(y[i%len(y)])
		mean += e * e / float64(len(q))
	}
	return mean
}

// checkSlope checks that grad is the gradient of loss at params: along grad the slope of the loss is the norm of grad.
func checkSlope(t *testing.T, what string, grad, params []float32, loss func(params []float32) float64) {
	t.Helper()
	var length float64
	for _, g := range grad {
		length += float64(g) * float64(g)
	}
	length = math.Sqrt(length)
	const h = 2e-3
	moved := func(by float64) float64 {
		x := slices.Clone(params)
		for i, g := range grad {
			x[i] += float32(by * float64(g) / length)
		}
		return loss(x)
	}
	if slope := (moved(h) - moved(-h)) / (2 * h); !(math.Abs(slope-length) < 0.01*length) {
		t.Errorf("%s: gradient of length %v, along it the loss grows by %v", what, length, slope)
	}
}

// checkFollows checks that a target network moved towards a network by τ = 0.02.
func checkFollows(t *testing.T, what string, before, after, towards []float32) {
	t.Helper()
	for i, x := range before {
		within(t, what, float64(after[i]), 0.98*float64(x)+0.02*float64(towards[i]), 1e-6)
	}
}

// offPolicy has a setup and a constructor of each algorithm that learns from transitions. Its keys are pages in docs.
var offPolicy = map[string]struct {
	setup func(testing.TB, ...change) algo.Setup
	make  func(algo.Setup) (algo.Algorithm, error)
}{
	"sac":    {trackSetup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewSAC(s) }},
	"td3":    {td3Setup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewTD3(s) }},
	"dqn":    {dqnSetup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewDQN(s) }},
	"iql":    {iqlSetup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewIQL(s) }},
	"bc":     {bcSetup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewBC(s) }},
	"dagger": {daggerSetup, func(s algo.Setup) (algo.Algorithm, error) { return algo.NewDAgger(s) }},
}

// TestOffPolicyPages: the page of an algorithm explains each of its metrics. Their names are the same in every
// iteration, and each occurs once. A metric that was not measured is None.
func TestOffPolicyPages(t *testing.T) {
	for page, c := range offPolicy {
		text := test.Must(os.ReadFile("../docs/algorithms/" + page + ".md"))(t)
		s := c.setup(t)
		s.Config.OffPolicy.ReplayBuffer.MinBufferSize = 3 // there are no rollouts
		a := made(t, s, c.make)
		names := slices.Clone(update(t, a, 1).Names)
		for _, name := range names {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/algorithms/%s.md does not explain %s", page, name)
			}
		}
		m := update(t, a, 1)
		for i, x := range m.Values {
			if x != x && !algo.IsNone(x) {
				t.Errorf("%s: %s is %v, though nothing was measured", page, m.Names[i], x)
			}
		}
		if !slices.Equal(m.Names, names) || len(m.Values) != len(names) {
			t.Errorf("%s: metrics %v with %d values, in the first iteration %v", page, m.Names, len(m.Values), names)
		}
		if slices.Sort(names); len(slices.Compact(names)) != len(m.Names) {
			t.Errorf("%s: metrics %v: some twice", page, m.Names)
		}
	}
}

// TestTargetsBeginAsTheirNetworks: before the first update a target network equals the network that it follows.
func TestTargetsBeginAsTheirNetworks(t *testing.T) {
	for _, name := range []string{"td3", "dqn"} {
		s := offPolicy[name].setup(t)
		state, p := stateOf(t, made(t, s, offPolicy[name].make)), s.Policy.Params()
		if !slices.Equal(paramsIn(state, "target", p), p.Data) {
			t.Errorf("%s: the target policy is not the policy", name)
		}
	}
	for _, name := range []string{"sac", "td3", "iql"} {
		s := offPolicy[name].setup(t)
		state, p := stateOf(t, made(t, s, offPolicy[name].make)), criticLike(t, s.Policy).Params()
		if !slices.Equal(paramsIn(state, "target", p), paramsIn(state, "critic", p)) {
			t.Errorf("%s: the target critics are not the critics", name)
		}
	}
}

// TestFollow: when a run begins with given weights, a target policy equals the policy with these weights.
func TestFollow(t *testing.T) {
	for _, name := range []string{"td3", "dqn"} {
		s := offPolicy[name].setup(t)
		a, p := made(t, s, offPolicy[name].make), s.Policy.Params()
		for i := range p.Data {
			p.Data[i] *= 2
		}
		a.(algo.Follower).Follow()
		if !slices.Equal(paramsIn(stateOf(t, a), "target", p), p.Data) {
			t.Errorf("%s: the target policy is not the policy", name)
		}
	}
}

// TestRewardsOfTheRollout: the metric is the mean reward of the last rollout, of all environments.
func TestRewardsOfTheRollout(t *testing.T) {
	s := trackSetup(t)
	a, layout := made(t, s, algo.NewSAC), tensor.NewLayout(s.Rollout...)
	for last := range 3 {
		r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
		for i := range r.Must("reward").F32() {
			r.Must("reward").F32()[i] = float32(100*last + i)
		}
		test.OK(t, a.Prepare(&r))
		within(t, "mean reward", metric(t, update(t, a, 1), "rollout/rewards"), 100*float64(last)+7.5, 0)
	}
}

// TestOffPolicyProgress: an update reports all of its micro-batches, each once, though it goes through its batch
// several times.
func TestOffPolicyProgress(t *testing.T) {
	y := newTally()
	reports := func(s *algo.Setup, _ *policy.Config) {
		s.MicroBatch, s.Progress, s.Config.OffPolicy.Demos.ValidationShare = 16, y.report, 0.2
	}
	s := trackSetup(t, reports)
	runTrack(t, made(t, s, algo.NewSAC), s, newTrack(s.Envs), 0, 4) // only the last has updates
	y.expect(t, "update", 32, 32)
	y = newTally()
	update(t, made(t, bcSetup(t, reports), algo.NewBC), 1)
	y.expect(t, "update", 32, 32)
	y.expect(t, "validation", 20, 2)
}
