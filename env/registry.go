package env

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/params"
)

// A Constructor makes n environments. It applies the environment's own keys, MaxEpisodeSteps, IgnoreTerminations and
// RewardMode. NewEpisodic applies the last three. Wrappers and workers apply the other keys of cfg.
type Constructor func(cfg Config, n int) (Vec, error)

// ErrNotBuilt is the error of a Constructor whose library is not in this build.
var ErrNotBuilt = errors.New("not in this build")

// A Registry maps names to environments. Package env/all returns a Registry of all environments of
// this module. Concurrent reads are safe.
type Registry struct {
	params.Registry[Constructor]
	GoalRules GoalRules // the rules that a Spec.Goal may name
}

// NewRegistry returns a registry without environments, with the GoalRules of this package.
func NewRegistry() *Registry { return &Registry{GoalRules: builtinGoalRules()} }

// Register adds an environment with keys of its own under init_params; see package params. The
// constructor c gets the values of these keys.
func Register[P any](r *Registry, name string, defaults P, c func(cfg Config, keys P, n int) (Vec, error)) {
	r.AddOwn(name, params.New(defaults), func(cfg Config, n int) (Vec, error) {
		p, err := params.Get(cfg.InitParams.Own, defaults)
		if err != nil {
			return nil, fmt.Errorf("%s: init_params: %w", name, err)
		}
		return c(cfg, p, n)
	})
}

// With returns a copy of r in which c makes the environment called name.
func (r *Registry) With(name string, c Constructor) *Registry {
	return &Registry{r.Registry.With(name, c), r.GoalRules}
}

// Find returns an error if r has no environment called name. The error lists all names, and suggests a similar one.
func (r *Registry) Find(name string) error {
	if _, ok := r.Builder(name); ok {
		return nil
	}
	hint := ""
	if near := nearest(name, r.Names()); near != "" {
		hint = fmt.Sprintf(", did you mean %s?", near)
	}
	return fmt.Errorf("unknown environment %q%s Known: %s", name, hint, strings.Join(r.Names(), ", "))
}

// New makes n environments and wraps them; see Wrap. It returns an error if the environment does
// not support a key of cfg.
func (r *Registry) New(cfg Config, n int) (Vec, error) {
	if err := r.Find(cfg.ID()); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, fmt.Errorf("%s: %d environments, expected at least 1", cfg.ID(), n)
	}
	build, _ := r.Builder(cfg.ID())
	vec, err := build(cfg, n)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(vec.Spec().CheckGoal(), cfg.fits(vec.Spec())); err != nil {
		return nil, errors.Join(err, vec.Close())
	}
	return Wrap(vec, cfg), nil
}

// fits returns an error if an environment with the Spec s does not support a key of c.
func (c Config) fits(s Spec) error {
	if c.MaxEpisodeSteps > 0 && s.MaxSteps != c.MaxEpisodeSteps {
		return fmt.Errorf("%s: max_episode_steps %d, but it has a limit of its own: %d", c.ID(), c.MaxEpisodeSteps,
			s.MaxSteps)
	}
	if c.RewardMode == RewardOnlySuccess && s.InfoIndex(Success) < 0 {
		return fmt.Errorf("%s: reward_mode %s, but it reports no success", c.ID(), c.RewardMode)
	}
	if c.DataCollection.OnlySuccess && s.InfoIndex(Success) < 0 {
		return fmt.Errorf("%s reports no success: expected a recording without only_success", c.ID())
	}
	if (s.Intervene || c.Person.Share > 0) && c.ActionRepeat > 1 {
		return KeyErrors{{Key: "action_repeat", Reason: fmt.Sprintf("%d, but a person may act in every step of %s: "+
			"expected 1", c.ActionRepeat, c.ID())}}
	}
	if err := s.CheckMask(); err != nil {
		return err
	}
	if err := s.checkElements(c.StateElements); err != nil {
		return err
	}
	return s.checkStack(c.FrameStack)
}

// Wrap adds the wrappers that cfg selects to vec: a person who takes over, repeated actions, scaled and clipped
// rewards, hidden elements, stacked frames, delayed steps. If vec has an ActionMask, Wrap also adds a check of the
// mask.
func Wrap(vec Vec, cfg Config) Vec {
	if slices.ContainsFunc(vec.Spec().Obs, Field.isMask) {
		vec = masked{wrapper{Vec: vec}, vec.Spec()}
	}
	if cfg.Person.Share > 0 {
		vec = NewPerson(vec, cfg.Person)
	}
	if cfg.ActionRepeat > 1 {
		vec = NewActionRepeat(vec, cfg.ActionRepeat)
	}
	if cfg.RewardCoef != 1 || cfg.RewardClip != 0 || cfg.UseRelReward {
		vec = NewRewardScale(vec, cfg.RewardCoef, cfg.RewardClip, cfg.UseRelReward)
	}
	if len(cfg.StateElements) > 0 {
		vec = NewPartial(vec, cfg.StateElements)
	}
	if cfg.FrameStack > 1 {
		vec = NewFrameStack(vec, cfg.FrameStack)
	}
	if cfg.StepDelay > 0 {
		vec = NewDelay(vec, cfg.StepDelay, cfg.StepDelayMax)
	}
	return vec
}

// nearest returns the element of names that needs the fewest edits to become name, ignoring case. It returns "" if all
// elements need too many edits.
func nearest(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, k := range names {
		if d := edits(strings.ToLower(k), strings.ToLower(name)); d < least {
			best, least = k, d
		}
	}
	return best
}

// edits returns the minimum number of insertions, deletions and replacements of bytes that turn a
// into b (Levenshtein 1966).
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: edits from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
