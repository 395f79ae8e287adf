package export

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// vectorSteps is the number of observations of the test vector.
const vectorSteps = 8

// A Vector is a test vector: successive observations of one episode, and the actions of the policy. Each list has all
// steps, one after the other. It leaves out memory and older frames, because these outputs of a step are inputs of the
// next step.
type Vector struct {
	Steps   int              `json:"steps"`
	Inputs  map[string][]any `json:"inputs"`
	Outputs map[string][]any `json:"outputs"`
}

// NewVector returns a vector without steps.
func NewVector() *Vector { return &Vector{Inputs: map[string][]any{}, Outputs: map[string][]any{}} }

// testVector returns a vector of random observations.
func (p *TrainedPolicy) testVector(steps int) (*Vector, error) {
	cfg := p.Env
	cfg.ActionRepeat, cfg.RewardCoef, cfg.RewardClip, cfg.UseRelReward, cfg.StepDelay = 1, 1, 0, false, 0
	cfg.RewardMode, cfg.MaxEpisodeSteps = "", 0
	sim := &randomSimulator{spec: p.Spec}
	sim.spec.MaxSteps = 0
	vec := env.Wrap(env.NewEpisodic(sim, cfg), cfg)
	out := vec.Spec().NewStep(1, 1)
	if err := vec.Reset(nil, []uint64{1}, out); err != nil {
		return nil, err
	}
	var action tensor.Dict
	action.Set("action", tensor.New(p.Spec.Action.DType, 1, 1, p.Spec.Action.Dim()))
	player, err := p.NewPlayer()
	if err != nil {
		return nil, err
	}
	v := NewVector()
	for t := range steps {
		if t > 0 {
			if err := vec.Step(action, nil, out); err != nil {
				return nil, err
			}
		}
		if err := player.Step(v, sim.last, out.Obs, t == 0); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// A Player lets the policy act in one environment. It records what an export must compute.
type Player struct {
	policy  *TrainedPolicy
	about   *Manifest
	work    policy.Work
	hidden  tensor.Tensor
	step    uint64
	actions tensor.Tensor
}

// NewPlayer returns a player of the policy.
func (p *TrainedPolicy) NewPlayer() (*Player, error) {
	_, d, err := p.prepare()
	return &Player{policy: p, about: d, work: p.NewWork(1)}, err
}

// Action returns the actions of the last step, [1,C,A], as Act.Feed gives them.
func (y *Player) Action() tensor.Tensor { return y.actions }

// Step appends a step to v. raw has the observations of the simulator, and shown has those that the policy sees. If
// begins is true, an episode begins with these observations.
func (y *Player) Step(v *Vector, raw, shown tensor.Dict, begins bool) error {
	var obs tensor.Dict
	for i := range shown.Len() {
		obs.Set(shown.Entry(i))
	}
	if m := policy.HiddenLen(y.policy.Policy); m > 0 {
		if begins {
			y.hidden = tensor.New(tensor.F32, 1, m)
		}
		obs.Set(policy.HiddenState, y.hidden)
	}
	mode, noise := policy.Deterministic, policy.Noise{Seed: 7, Env: []uint64{0}, Step: []uint64{y.step}}
	if y.policy.Sample {
		mode = policy.Sample
	}
	y.step++
	v.Steps++
	act, err := y.policy.Forward(y.work, obs, mode, noise)
	if err != nil {
		return fmt.Errorf("export: test vector: %w", err)
	}
	if !act.Hidden.IsZero() {
		y.hidden = act.Hidden.Clone()
	}
	y.actions = tensor.New(act.Action.DType(), act.Action.Shape()...)
	act.Feed(y.policy.Spec.Action, y.actions)
	for _, in := range y.about.Inputs {
		switch {
		case in.Name == beginName:
			v.Inputs[in.Name] = append(v.Inputs[in.Name], begins)
		case in.Name == noiseName:
			v.Inputs[in.Name] = append(v.Inputs[in.Name], drawn(noise.Stream(0), in.len(), y.actions.DType())...)
		default:
			if t, observed := raw.Get(in.Name); observed {
				v.Inputs[in.Name] = append(v.Inputs[in.Name], numbers(t)...)
			}
		}
	}
	v.Outputs[actionName] = append(v.Outputs[actionName], numbers(y.actions)...)
	if !act.Value.IsZero() && !y.policy.NoValue {
		value := act.Value.Clone()
		if scale := float32(y.policy.ValueScale); scale != 0 {
			for i := range value.F32() {
				value.F32()[i] *= scale
			}
		}
		v.Outputs[valueName] = append(v.Outputs[valueName], numbers(value)...)
	}
	return nil
}

// drawn returns n random numbers of s, in the order in which policies draw them.
func drawn(s philox.Stream, n int, action tensor.DType) (all []any) {
	normals := make([]float32, n)
	if action == tensor.F32 {
		policy.Normals(normals, &s)
	}
	for _, z := range normals {
		if action == tensor.I32 {
			z = float32(s.Float64())
		}
		all = append(all, z)
	}
	return all
}

// numbers returns the elements of t.
func numbers(t tensor.Tensor) (all []any) {
	switch t.DType() {
	case tensor.F32:
		for _, x := range t.F32() {
			all = append(all, x)
		}
	case tensor.I32:
		for _, x := range t.I32() {
			all = append(all, x)
		}
	case tensor.U8:
		for _, x := range t.U8() {
			all = append(all, x)
		}
	}
	return all
}

// A randomSimulator returns random observations that do not depend on actions.
type randomSimulator struct {
	spec env.Spec
	step uint64
	last tensor.Dict
}

func (r *randomSimulator) Spec() env.Spec          { return r.spec }
func (r *randomSimulator) Len() int                { return 1 }
func (r *randomSimulator) Reset(int, uint64) error { return nil }
func (r *randomSimulator) Close() error            { return nil }
func (r *randomSimulator) Step(_ tensor.Tensor, _ []env.Turn, _ []float32, _ []byte, _ []float32) error {
	return nil
}

// Observe draws numbers within the bounds of the spec. Numbers without bounds are normally distributed. In each step,
// masks allow at least one option of each choice, and others at random.
func (r *randomSimulator) Observe(_ []bool, obs tensor.Dict) {
	s := philox.New(1, philox.Reset, 0, r.step)
	r.step++
	r.last = tensor.Dict{}
	for _, f := range r.spec.Obs {
		t := obs.Must(f.Name)
		for k := range f.Dim() {
			low, high := f.Range(k)
			x, _ := s.Normal()
			u := s.Float64()
			switch {
			case t.DType() != tensor.F32:
				n := low + math.Floor(u*(high-low+1))
				if t.DType() == tensor.I32 {
					t.I32()[k] = int32(n)
				} else {
					t.U8()[k] = byte(n)
				}
			case high-low < 1e6:
				t.F32()[k] = float32(low + u*(high-low))
			default:
				t.F32()[k] = float32(min(max(x, low), high))
			}
		}
		if f.Name == env.ActionMask {
			at := 0
			for _, n := range r.spec.Action.Nvec {
				t.U8()[at+int(r.step)%n] = 1
				at += n
			}
		}
		r.last.Set(f.Name, t.Clone())
	}
}
