package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

var (
	discrete = env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}
	multi    = env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{2}, Nvec: []int{2, 4}}
	bounded  = env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{3}}
	box      = env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-1, -2},
		High: []float32{1, float32(math.Inf(1))}}
)

// mask is an action mask for n options.
func mask(n int) env.Field {
	return env.Field{Name: env.ActionMask, Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{n}}}
}

func vector(name string, n int) env.Field {
	return env.Field{Name: name, Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{n}}}
}

// variants are policies of every kind, for two named observations.
func variants(t *testing.T) map[string]*ActorCritic {
	t.Helper()
	spec := func(action env.Space) env.Spec {
		return env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4), vector("goal", 3)}, Action: action}
	}
	with := func(action env.Space, set func(*Config)) *ActorCritic {
		cfg := DefaultConfig()
		set(&cfg)
		return newPolicy(t, cfg, spec(action))
	}
	normalized := DefaultConfig()
	normalized.NormalizeObservations = true
	masked := spec(multi)
	masked.Obs = append(masked.Obs, mask(6))
	return map[string]*ActorCritic{
		"masked":         newPolicy(t, DefaultConfig(), masked),
		"dict":           newPolicy(t, normalized, dictSpec()),
		"discrete":       with(discrete, func(c *Config) {}),
		"multi-discrete": with(multi, func(c *Config) { c.ShareTrunk, c.LogProbType = true, "token_level" }),
		"gaussian":       with(box, func(c *Config) { c.NormalizeObservations, c.Activation = true, "relu" }),
		"sde":            with(box, func(c *Config) { c.UseSDE, c.NumActionChunks = true, 2 }),
		"by state":       with(bounded, func(c *Config) { c.IndependentStd, c.ActionBound = false, BoundTanh }),
		"images":         newCNN(t, ImpalaCNN, false),
		"frames, shared": newCNN(t, NatureCNN, true),
		"own encoder":    newOwn(t, ownLayers(), func(c *Config) { c.NormalizeObservations = true }),
	}
}

// newPolicy returns a policy with parameters that are random everywhere.
func newPolicy(t testing.TB, cfg Config, spec env.Spec) *ActorCritic {
	t.Helper()
	return perturbed(must[Policy](t)(Builtin().New(cfg, spec, 9, tensor.Heap)).(*ActorCritic))
}

// perturbed returns p with noise on all its parameters, so that no output is small by initialisation.
func perturbed(p *ActorCritic) *ActorCritic {
	params := p.Params()
	for i, f := range params.Fields {
		noise := make([]float64, f.Len())
		randomize(noise, uint64(i))
		for j, v := range noise {
			params.Of(i)[j] += float32(0.2 * v / math.Sqrt(float64(max(1, f.Len()/256))))
		}
	}
	return p
}

// observe returns observations and noise of rows environments.
func observe(p *ActorCritic, rows int) (tensor.Dict, Noise) {
	noise := Noise{Seed: 4, Env: make([]uint64, rows), Step: make([]uint64, rows)}
	for i := range rows {
		noise.Env[i], noise.Step[i] = uint64(100+i), uint64(7*i)
	}
	return fieldsOf(p.obs.fields, rows), noise
}

// fieldsOf returns observations of rows environments.
func fieldsOf(fields []env.Field, rows int) (obs tensor.Dict) {
	for i, f := range fields {
		x := make([]float64, rows*f.Dim())
		randomize(x, uint64(50+i))
		o := tensor.New(f.DType, append([]int{rows}, f.Shape...)...)
		for j, v := range x {
			switch {
			case f.Name == env.ActionMask:
				if (j+j/f.Dim())%3 != 0 { // at most one of three options is forbidden
					o.U8()[j] = 1
				}
			case f.DType == tensor.U8:
				o.U8()[j] = uint8(40 * math.Abs(v))
			case f.DType == tensor.I32:
				o.I32()[j] = int32(math.Abs(v)) % 2
			default:
				o.F32()[j] = float32(v)
			}
		}
		obs.Set(f.Name, o)
	}
	return obs
}

func (n Noise) slice(lo, hi int) Noise { return Noise{n.Seed, n.Env[lo:hi], n.Step[lo:hi]} }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		test.OK(t, err)
		return v
	}
}

func (a Act) clone() Act {
	return Act{Action: a.Action.Clone(), LogProb: a.LogProb.Clone(), Value: a.Value.Clone()}
}

func (a Act) slice(lo, hi int) Act {
	return Act{Action: a.Action.Slice(lo, hi), LogProb: a.LogProb.Slice(lo, hi), Value: a.Value.Slice(lo, hi)}
}

func sameBits(a, b tensor.Tensor) bool { return a.SameShape(b) && slices.Equal(a.Bytes(), b.Bytes()) }

func (a Act) same(b Act) bool {
	return sameBits(a.Action, b.Action) && sameBits(a.LogProb, b.LogProb) && sameBits(a.Value, b.Value)
}

func TestShapes(t *testing.T) {
	const rows = 5
	for name, want := range map[string][2]string{
		"discrete":       {"I32[5 1 1]", "F32[5 1]"},
		"multi-discrete": {"I32[5 1 2]", "F32[5 2]"}, // by token
		"gaussian":       {"F32[5 1 2]", "F32[5 1]"},
		"sde":            {"F32[5 2 2]", "F32[5 2]"}, // by action, two in a chunk
	} {
		p := variants(t)[name]
		obs, noise := observe(p, rows)
		act := must[Act](t)(p.Forward(p.NewWork(rows), obs, Sample, noise))
		if act.Action.String() != want[0] || act.LogProb.String() != want[1] || act.Value.String() != "F32[5 1]" {
			t.Errorf("%s: %v %v %v, want %v F32[5 1]", name, act.Action, act.LogProb, act.Value, want)
		}
	}
}

// TestRowsDoNotDependOnTheBatch: a row has the same bits alone, in any part of a batch, and in a work of another size.
func TestRowsDoNotDependOnTheBatch(t *testing.T) {
	const rows = 70
	for name, p := range variants(t) {
		obs, noise := observe(p, rows)
		for _, mode := range []Mode{Sample, Deterministic} {
			whole := must[Act](t)(p.Forward(p.NewWork(rows), obs, mode, noise)).clone()
			eval := must[Eval](t)(p.Evaluate(p.NewWork(rows), obs, whole.Action))
			if !sameBits(eval.LogProb, whole.LogProb) || !sameBits(eval.Value, whole.Value) {
				t.Errorf("%s: Evaluate says something else than Forward", name)
			}
			w := p.NewWork(33)
			for _, part := range [][2]int{{0, 1}, {69, 70}, {3, 7}, {30, 63}, {1, 3}} {
				lo, hi := part[0], part[1]
				act := must[Act](t)(p.Forward(w, obs.Slice(lo, hi), mode, noise.slice(lo, hi)))
				if !act.same(whole.slice(lo, hi)) {
					t.Errorf("%s: rows %d to %d have other bits than in a batch of %d", name, lo, hi, rows)
				}
				if v := must[tensor.Tensor](t)(p.Value(w, obs.Slice(lo, hi))); !sameBits(v, whole.Value.Slice(lo, hi)) {
					t.Errorf("%s: Value of rows %d to %d has other bits than Forward's", name, lo, hi)
				}
			}
		}
	}
}

func TestModes(t *testing.T) {
	const rows = 40
	for name, p := range variants(t) {
		obs, noise := observe(p, rows)
		w := p.NewWork(rows)
		sample := must[Act](t)(p.Forward(w, obs, Sample, noise)).clone()
		if again := must[Act](t)(p.Forward(w, obs, Sample, noise)); !again.same(sample) {
			t.Errorf("%s: the same noise gives other actions", name)
		}
		for what, other := range map[string]Noise{
			"seed":         {noise.Seed + 1, noise.Env, noise.Step},
			"environments": {noise.Seed, noise.Step, noise.Step},
			"steps":        {noise.Seed, noise.Env, noise.Env},
		} {
			if act := must[Act](t)(p.Forward(w, obs, Sample, other)); sameBits(act.Action, sample.Action) {
				t.Errorf("%s: other %s give the same actions", name, what)
			}
		}
		mode := must[Act](t)(p.Forward(w, obs, Deterministic, Noise{})).clone()
		if sameBits(mode.Action, sample.Action) {
			t.Errorf("%s: the mode is the sample", name)
		}
		var best, drawn float64
		for i, v := range mode.LogProb.F32() {
			best += float64(v)
			drawn += float64(sample.LogProb.F32()[i])
		}
		if best <= drawn {
			t.Errorf("%s: log-probs of modes sum to %v, of samples to %v", name, best, drawn)
		}
	}
}

// TestNoAllocation covers the step loop and the minibatch loop.
func TestNoAllocation(t *testing.T) {
	const rows = 16
	for name, p := range variants(t) {
		obs, noise := observe(p, rows)
		w := p.NewWork(rows)
		act := must[Act](t)(p.Forward(w, obs, Sample, noise)).clone()
		grad := Grad{LogProb: act.LogProb, Entropy: act.LogProb, Value: act.Value}
		sums := make([]float64, p.StatsLen())
		bytes := 0
		ready := func(lo, hi int) { bytes += hi - lo }
		for call, f := range map[string]func() error{
			"Forward":  func() error { _, err := p.Forward(w, obs, Sample, noise); return err },
			"Value":    func() error { _, err := p.Value(w, obs); return err },
			"AddStats": func() error { return p.AddStats(sums, obs) },
			"Evaluate and Backward": func() error {
				if _, err := p.Evaluate(w, obs, act.Action); err != nil {
					return err
				}
				return p.Backward(w, grad, ready)
			},
		} {
			test.NoAllocs(t, 20, func() {
				noise.Step[0]++
				test.OK(t, f())
			}, "%s: %s", name, call)
		}
	}
}

// TestForwardBesideForward: concurrent users share the parameters, each with a Work of its own. Run it with -race.
func TestForwardBesideForward(t *testing.T) {
	const rows = 8
	for name, p := range variants(t) {
		obs, noise := observe(p, rows)
		want := must[Act](t)(p.Forward(p.NewWork(rows), obs, Sample, noise)).clone()
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				w := p.NewWork(rows)
				for range 20 {
					if act, err := p.Forward(w, obs, Sample, noise); err != nil || !act.same(want) {
						t.Errorf("%s: another result beside others (%v)", name, err)
						return
					}
				}
			})
		}
		users.Wait()
	}
}

func TestInit(t *testing.T) {
	spec := env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)}, Action: discrete}
	build := func(seed uint64) *nn.Params[float32] {
		return must[Policy](t)(Builtin().New(DefaultConfig(), spec, seed, tensor.Heap)).Params()
	}
	p := build(1)
	if !slices.Equal(p.Data, build(1).Data) || slices.Equal(p.Data, build(2).Data) {
		t.Error("the initial parameters are not a function of the seed")
	}
	// The norm of an orthonormal vector is 1, so Σ w² = gain² · the shorter side.
	want := map[string]float64{
		"actor.0.weight": 2 * 4, "actor.1.weight": 2 * 64, "actor.head.weight": 1e-4 * 3,
		"critic.0.weight": 2 * 4, "critic.1.weight": 2 * 64, "critic.head.weight": 1,
	}
	for i, f := range p.Fields {
		var sum float64
		for _, v := range p.Of(i) {
			sum += float64(v) * float64(v)
		}
		if !near(sum, want[f.Name], 1e-5*want[f.Name]) {
			t.Errorf("%s: sum of squares %v, want %v", f.Name, sum, want[f.Name])
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("no parameters %v", want)
	}
	if slices.Equal(p.Of(2), p.Of(8)) {
		t.Errorf("%s and %s start equal", p.Fields[2].Name, p.Fields[8].Name)
	}
	var groups []string
	for _, g := range p.Groups {
		groups = append(groups, fmt.Sprintf("%s %d-%d", g.Name, g.Lo, g.Hi))
	}
	if got := strings.Join(groups, ", "); got != "actor 0-4688, critic 4688-9248" {
		t.Errorf("groups %s", got)
	}
}

func TestErrors(t *testing.T) {
	p := variants(t)["discrete"]
	other := variants(t)["discrete"]
	const rows = 3
	obs, noise := observe(p, rows)
	w := p.NewWork(rows)
	act := must[Act](t)(p.Forward(w, obs, Sample, noise)).clone()
	obsWith := func(name string, x tensor.Tensor) tensor.Dict {
		d := obs.Slice(0, rows)
		d.Set(name, x)
		return d
	}
	nan := tensor.New(tensor.F32, rows, 4)
	nan.F32()[5] = float32(math.NaN())
	forward := func(w Work, obs tensor.Dict, noise Noise) func() error {
		return func() error { _, err := p.Forward(w, obs, Sample, noise); return err }
	}
	evaluate := func(a tensor.Tensor) func() error {
		return func() error { _, err := p.Evaluate(w, obs, a); return err }
	}
	for _, c := range []struct {
		name string
		call func() error
		want string
	}{
		{"missing observation", forward(w, tensor.Dict{}, noise), `observation "state": not in {}`},
		{"shape", forward(w, obsWith("goal", tensor.New(tensor.F32, rows, 2)), noise),
			`observation "goal": F32[3 2]: expected F32[N [3]]`},
		{"type", forward(w, obsWith("goal", tensor.New(tensor.F64, rows, 3)), noise),
			`observation "goal": F64[3 3]: expected F32[N [3]]`},
		{"rows", forward(w, obsWith("goal", tensor.New(tensor.F32, 2, 3)), noise),
			`observation "goal": 2 rows, "state" has 3`},
		{"too many rows", forward(p.NewWork(2), obs, noise), "3 rows: the work holds 2"},
		{"noise", forward(w, obs, noise.slice(0, 2)), "noise for 2 environments and 2 steps: expected 3"},
		{"foreign work", forward(other.NewWork(rows), obs, noise), "work *policy.work of another policy"},
		{"not a number", forward(w, obsWith("state", nan), noise), "row 1: log-prob is NaN"},
		{"action shape", evaluate(tensor.New(tensor.I32, rows, 1)), "action I32[3 1]: expected I32[3 1 1]"},
		{"action type", evaluate(tensor.New(tensor.F32, rows, 1, 1)), "action F32[3 1 1]: expected I32[3 1 1]"},
		{"choice", evaluate(tensor.FromI32([]int32{0, 3, 0}, rows, 1, 1)), "row 1: choice 3: expected 0 to 2"},
		{"no Evaluate", func() error {
			must[Eval](t)(p.Evaluate(w, obs, act.Action))
			must[Act](t)(p.Forward(w, obs, Sample, noise))
			return p.Backward(w, Grad{Value: act.Value}, nil)
		}, "the last call on this work was not an Evaluate"},
		{"gradient shape", func() error {
			must[Eval](t)(p.Evaluate(w, obs, act.Action))
			return p.Backward(w, Grad{LogProb: tensor.New(tensor.F32, 2, 1)}, nil)
		}, "derivative by log-prob F32[2 1] of 3 rows of F32[3 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test.Fails(t, c.call(), c.want)
		})
	}
}

// TestMaskErrors: a row without an allowed action, and an earlier action that was not allowed.
func TestMaskErrors(t *testing.T) {
	p := variants(t)["masked"]
	obs, noise := observe(p, 3)
	w := p.NewWork(3)
	copy(obs.Must(env.ActionMask).U8(), []uint8{1, 1, 1, 1, 1, 1 /**/, 1, 0, 1, 0, 1, 1})
	action := tensor.FromI32([]int32{1, 3 /**/, 0, 1 /**/, 0, 0}, 3, 1, 2)
	if _, err := p.Evaluate(w, obs, action); err == nil || !strings.Contains(err.Error(),
		"row 1: choice 1: action_mask does not allow it") {
		t.Errorf("a forbidden action: %v", err)
	}
	clear(obs.Must(env.ActionMask).U8()[8:12])
	if _, err := p.Forward(w, obs, Sample, noise); err == nil || !strings.Contains(err.Error(),
		`"action_mask": row 1: no option of choice 1 is allowed`) {
		t.Errorf("nothing is allowed: %v", err)
	}
}

func TestNoCritic(t *testing.T) {
	cfg := DefaultConfig()
	cfg.AddValueHead = false
	p := newPolicy(t, cfg, env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)}, Action: box})
	obs, noise := observe(p, 2)
	w := p.NewWork(2)
	if act := must[Act](t)(p.Forward(w, obs, Sample, noise)); !act.Value.IsZero() {
		t.Errorf("a value %v without a critic", act.Value)
	}
	test.Fails(t, test.Err(p.Value(w, obs)), "add_value_head", "Value")
	eval := must[Eval](t)(p.Evaluate(w, obs, tensor.New(tensor.F32, 2, 1, 2)))
	if err := p.Backward(w, Grad{LogProb: eval.LogProb, Value: tensor.New(tensor.F32, 2, 1)}, nil); err == nil {
		t.Error("Backward took the derivative by a value that is not there")
	}
}
