package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/tensor"
)

// version is the protocol's version.
const version = 1

// A greeting is a child's description of itself, the payload of HELLO.
type greeting struct {
	V         int         `json:"v"`
	Name      string      `json:"name"`
	Obs       []spaceJSON `json:"obs"`
	Action    spaceJSON   `json:"action"`
	NumEnvs   int         `json:"num_envs"`
	MaxSteps  int         `json:"max_steps"`
	Info      []string    `json:"info"`
	State     int         `json:"state_size"`
	Render    bool        `json:"render"`
	OwnsLoop  bool        `json:"owns_loop"`
	Expert    bool        `json:"expert"`
	Intervene bool        `json:"intervene"` // a person may act in place of the policy
	Period    float64     `json:"period"`    // seconds between two commands of a robot; 0: no robot
	Goal      *goalJSON   `json:"goal"`
	Token     string      `json:"token"`
	Lang      string      `json:"lang"`

	spec env.Spec
}

// A goalJSON is an env.Goal in a greeting.
type goalJSON struct {
	Threshold  float32 `json:"threshold"`
	Reward     string  `json:"reward"`
	Terminates bool    `json:"terminates"`
}

// A spaceJSON is an observation or the action in a greeting.
type spaceJSON struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Low   bounds `json:"low"`
	High  bounds `json:"high"`
	N     int    `json:"n"`
	Nvec  []int  `json:"nvec"`
}

// bounds hold either one bound for all elements or one bound per element. A nil bound means no
// bound.
type bounds struct {
	all   *float64
	each  []*float64
	wrong bool // whether the JSON is invalid; bounds.of returns the error
}

func (b *bounds) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &b.all) != nil {
		b.wrong = json.Unmarshal(text, &b.each) != nil
	}
	return nil
}

// of returns a bound for each of n elements. Elements without a bound get the value fallback.
func (b bounds) of(n int, fallback float32) ([]float32, error) {
	if b.wrong {
		return nil, errors.New("expected a number, null, or an array of them")
	}
	if b.each != nil && len(b.each) != n {
		return nil, fmt.Errorf("%d bounds, expected 1 or %d", len(b.each), n)
	}
	out := make([]float32, n)
	for i := range out {
		x := b.all
		if b.each != nil {
			x = b.each[i]
		}
		if out[i] = fallback; x != nil {
			out[i] = float32(*x)
		}
	}
	return out, nil
}

// maxElements is the maximum number of elements in the action, and in all observations together.
// maxState is the maximum size of the saved state of an environment, in bytes.
const (
	maxElements = 1 << 24
	maxState    = 1 << 28
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// tokenIn returns the token in the payload of a HELLO, or "" if there is none.
func tokenIn(text []byte) string {
	var g struct {
		Token string `json:"token"`
	}
	if json.Unmarshal(text, &g) != nil {
		return ""
	}
	return g.Token
}

// withoutToken returns the JSON of a greeting with its token removed and its members sorted by
// name.
func withoutToken(text []byte) (string, error) { return without(text, "token") }

// without removes one member from the JSON of a greeting. The other members are sorted by name.
func without(text []byte, member string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return "", fmt.Errorf("greeting: %w", err)
	}
	// ignores case, like the JSON decoder
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return strings.EqualFold(name, member) })
	clean, err := json.Marshal(members)
	return string(clean), err
}

// readGreeting decodes and validates the payload of a HELLO.
func readGreeting(text []byte) (*greeting, error) {
	g := &greeting{}
	if err := json.Unmarshal(durable.WholeNumbers(text), g); err != nil {
		return nil, fmt.Errorf("greeting: %w", inJSON(err))
	}
	if g.V != version {
		return nil, fmt.Errorf("greeting: version %d of the protocol, expected %d", g.V, version)
	}
	spec, err := g.spaces()
	if err != nil {
		return nil, err
	}
	if err := g.checkFigures(); err != nil {
		return nil, err
	}
	if err := g.checkLimits(len(spec.Obs)); err != nil {
		return nil, err
	}
	spec.Name, spec.MaxSteps, spec.Info, spec.Intervene = g.Name, g.MaxSteps, g.Info, g.Intervene
	if err := spec.CheckMask(); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	if g.Goal != nil {
		if !validName.MatchString(g.Goal.Reward) {
			return nil, g.problem(fmt.Sprintf("goal: reward %.80q", g.Goal.Reward), errName)
		}
		spec.Goal = &env.Goal{Threshold: g.Goal.Threshold, Reward: g.Goal.Reward, Terminates: g.Goal.Terminates}
		if err := spec.CheckGoal(); err != nil {
			return nil, fmt.Errorf("greeting of %.64q: %w", g.Name, err)
		}
	}
	g.spec = spec
	if err := g.fits(g.NumEnvs); err != nil {
		return nil, g.problem("num_envs", err)
	}
	return g, nil
}

func (g *greeting) problem(what string, err error) error {
	return fmt.Errorf("greeting of %.64q: %s: %w", g.Name, what, err)
}

// spaces returns a Spec with the observations and the action of the greeting.
func (g *greeting) spaces() (spec env.Spec, err error) {
	elements := 0
	for i, s := range g.Obs {
		if !validName.MatchString(s.Name) {
			return spec, g.problem(fmt.Sprintf("obs[%d]: name %.80q", i, s.Name), errName)
		}
		if slices.ContainsFunc(spec.Obs, func(f env.Field) bool { return f.Name == s.Name }) {
			return spec, g.problem("obs", fmt.Errorf("two observations %q", s.Name))
		}
		space, err := s.space(true)
		if err != nil {
			return spec, g.problem("obs "+s.Name, err)
		}
		if elements += space.Dim(); elements > maxElements {
			return spec, g.problem("obs "+s.Name, fmt.Errorf("more than %d elements in all observations", maxElements))
		}
		spec.Obs = append(spec.Obs, env.Field{Name: s.Name, Space: space})
	}
	if spec.Action, err = g.Action.space(false); err != nil {
		return spec, g.problem("action", err)
	}
	return spec, nil
}

var errName = errors.New("expected 1 to 64 letters, digits, '.', '_' and '-'")

// checkFigures returns an error if the name of a figure is invalid or occurs twice.
func (g *greeting) checkFigures() error {
	figures := map[string]bool{}
	for i, name := range g.Info {
		if !validName.MatchString(name) {
			return g.problem(fmt.Sprintf("info[%d] %.80q", i, name), errName)
		}
		if figures[name] {
			return g.problem("info", fmt.Errorf("two figures %q", name))
		}
		figures[name] = true
	}
	return nil
}

// checkLimits returns an error if the name, a number or the count of observations of the greeting
// is invalid.
func (g *greeting) checkLimits(obsCount int) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case g.Name == "" || len(g.Name) > 256 || strings.ContainsFunc(g.Name, unprintable):
		return g.problem("name", errors.New("expected 1 to 256 bytes that can be printed"))
	case obsCount == 0:
		return g.problem("obs", errors.New("expected at least one observation"))
	case g.NumEnvs < 0 || g.NumEnvs > maxEnvs:
		return g.problem("num_envs", fmt.Errorf("%d, expected 0 or the number of environments, at most %d", g.NumEnvs,
			maxEnvs))
	case g.MaxSteps < 0 || g.MaxSteps > math.MaxInt32:
		return g.problem("max_steps", fmt.Errorf("%d, expected a number of steps, or 0 for no limit", g.MaxSteps))
	case g.State < 0 || g.State > maxState:
		return g.problem("state_size", fmt.Errorf("%d, expected a number of bytes, at most %d", g.State, maxState))
	case g.Period != 0 && !(g.Period >= 1e-3 && g.Period <= 3600):
		return g.problem("period", fmt.Errorf("%v, expected seconds from 0.001 to 3600, or 0 for no robot", g.Period))
	case len(g.Info) > 1<<16:
		return g.problem("info", fmt.Errorf("%d figures, expected at most %d", len(g.Info), 1<<16))
	}
	return nil
}

// inJSON adds the place in the JSON and the valid values to err. It does not quote the JSON, which
// may contain a token.
func inJSON(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("no JSON at byte %d: %w", syntax.Offset, err)
	}
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	want := map[reflect.Kind]string{
		reflect.Struct: "an object", reflect.Slice: "an array", reflect.String: "a text", reflect.Int: "a whole number",
		reflect.Bool: "true or false", reflect.Float32: "a number", reflect.Float64: "a number",
	}[kind.Type.Kind()]
	if kind.Field == "" {
		return fmt.Errorf("%s, expected %s", kind.Value, want)
	}
	return fmt.Errorf("%s: %s, expected %s", kind.Field, kind.Value, want)
}

// fits returns an error if a child with this greeting cannot play n environments.
func (g *greeting) fits(n int) error {
	if n > maxEnvs {
		return fmt.Errorf("%d environments for one child, expected at most %d", n, maxEnvs)
	}
	b := newBlocks(g.spec, n)
	if size := max(b.request.Size(), b.reply.Size()); size > maxPayload {
		return fmt.Errorf("%d environments of %s in one child have arrays of %d bytes, expected at most %d", n, g.Name,
			size, maxPayload)
	}
	return nil
}

// space returns s as an env.Space. If observed is true, s is an observation, otherwise the action.
func (s spaceJSON) space(observed bool) (env.Space, error) {
	switch s.Kind {
	case "box":
		dtype, ok := map[string]tensor.DType{"f32": tensor.F32, "u8": tensor.U8}[s.DType]
		if !ok || dtype == tensor.U8 && !observed {
			return env.Space{}, fmt.Errorf("dtype %.20q, expected %s", s.DType,
				map[bool]string{true: "f32 or u8", false: "f32"}[observed])
		}
		shape, n := s.Shape, 1
		if len(shape) == 0 {
			shape = []int{1}
		}
		for _, d := range shape {
			if d <= 0 || d > maxElements/n || len(shape) > 6 {
				return env.Space{}, fmt.Errorf("shape %v, expected at most 6 positive numbers and %d elements", s.Shape,
					maxElements)
			}
			n *= d
		}
		low, high := float32(math.Inf(-1)), float32(math.Inf(1))
		if dtype == tensor.U8 {
			low, high = 0, 255
		}
		out := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
		var err error
		if out.Low, err = s.Low.of(n, low); err != nil {
			return out, fmt.Errorf("low: %w", err)
		}
		if out.High, err = s.High.of(n, high); err != nil {
			return out, fmt.Errorf("high: %w", err)
		}
		for i := range out.Low {
			if !(out.Low[i] <= out.High[i]) {
				return out, fmt.Errorf("bounds of element %d: %v to %v", i, out.Low[i], out.High[i])
			}
		}
		return out, nil
	case "discrete":
		return choiceSpace(env.Discrete, []int{s.N})
	case "multi_discrete":
		return choiceSpace(env.MultiDiscrete, s.Nvec)
	}
	return env.Space{}, fmt.Errorf("kind %.40q, expected box, discrete or multi_discrete", s.Kind)
}

func choiceSpace(k env.Kind, nvec []int) (env.Space, error) {
	if len(nvec) == 0 || len(nvec) > 1<<16 {
		return env.Space{}, fmt.Errorf("%d choices in one value, expected at least 1", len(nvec))
	}
	for _, n := range nvec {
		if n <= 0 || n > 1<<24 {
			return env.Space{}, fmt.Errorf("a choice of %d, expected 1 to %d", n, 1<<24)
		}
	}
	return env.Space{Kind: k, DType: tensor.I32, Shape: []int{len(nvec)}, Nvec: nvec}, nil
}

// greetingOf returns the members of the greeting for environments with the given Spec. stateSize is
// the size of a saved state in bytes. Set renders if the environments can render, and expert if they have an expert.
func greetingOf(spec env.Spec, stateSize int, renders, expert bool, token string) map[string]any {
	space := func(s env.Space) map[string]any {
		switch s.Kind {
		case env.Discrete:
			return map[string]any{"kind": "discrete", "n": s.Nvec[0]}
		case env.MultiDiscrete:
			return map[string]any{"kind": "multi_discrete", "nvec": s.Nvec}
		}
		dtype := map[tensor.DType]string{tensor.F32: "f32", tensor.U8: "u8"}[s.DType]
		return map[string]any{"kind": "box", "dtype": dtype, "shape": s.Shape, "low": numbers(s.Low),
			"high": numbers(s.High)}
	}
	var obs []map[string]any
	for _, f := range spec.Obs {
		o := space(f.Space)
		o["name"] = f.Name
		obs = append(obs, o)
	}
	info := spec.Info
	if info == nil {
		info = []string{}
	}
	members := map[string]any{
		"v": version, "name": spec.Name, "lang": "go", "obs": obs, "action": space(spec.Action),
		"max_steps": spec.MaxSteps, "info": info,
		"state_size": stateSize, "render": renders, "token": token,
	}
	if expert {
		members["expert"] = true
	}
	if spec.Intervene {
		members["intervene"] = true
	}
	if g := spec.Goal; g != nil {
		members["goal"] = goalJSON{g.Threshold, g.Reward, g.Terminates}
	}
	return members
}

// numbers returns bounds for JSON, with nil (null) for infinite bounds.
func numbers(x []float32) []*float64 {
	out := make([]*float64, len(x))
	for i, v := range x {
		if v64 := float64(v); !math.IsInf(v64, 0) {
			out[i] = &v64
		}
	}
	return out
}
