package env

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/params"
)

// A Constructor makes n environments. It obeys the environment's own keys, and MaxEpisodeSteps,
// IgnoreTerminations and RewardMode of cfg. It may use NewEpisodic for these three. Wrappers and
// workers obey the other keys.
type Constructor func(cfg Config, n int) (Vec, error)

// ErrNotBuilt is the error of a Constructor whose library the program was built without.
var ErrNotBuilt = errors.New("not in this build")

// A Registry maps names to environments. The caller fills it, or env/all does. Reading it is safe
// for concurrent use.
type Registry struct{ params.Registry[Constructor] }

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return new(Registry) }

// Register adds an environment with keys of its own under init_params; see package params. c gets
// their values as own.
func Register[P any](r *Registry, name string, defaults P, c func(cfg Config, own P, n int) (Vec, error)) {
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
	return &Registry{r.Registry.With(name, c)}
}

// Find returns nil if r has name, else an UnknownError.
func (r *Registry) Find(name string) error {
	if _, ok := r.Builder(name); ok {
		return nil
	}
	return UnknownError{Name: name, Known: r.Names()}
}

// New makes n environments with the wrappers that cfg asks for: actions repeated, rewards scaled
// and clipped, observations hidden, frames stacked, steps delayed. It checks an ActionMask, now and
// in every step.
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
	if limit := vec.Spec().MaxSteps; cfg.MaxEpisodeSteps > 0 && limit != cfg.MaxEpisodeSteps {
		err := fmt.Errorf("%s: max_episode_steps %d, but it has a limit of its own: %d", cfg.ID(), cfg.MaxEpisodeSteps,
			limit)
		return nil, errors.Join(err, vec.Close())
	}
	if cfg.RewardMode == RewardOnlySuccess && vec.Spec().InfoIndex("success") < 0 {
		err := fmt.Errorf("%s: reward_mode %s, but it reports no success", cfg.ID(), cfg.RewardMode)
		return nil, errors.Join(err, vec.Close())
	}
	if err := vec.Spec().CheckMask(); err != nil {
		return nil, errors.Join(err, vec.Close())
	}
	if len(cfg.StateElements) > 0 {
		if err := checkPartial(vec.Spec(), cfg.StateElements); err != nil {
			return nil, errors.Join(err, vec.Close())
		}
	}
	if err := vec.Spec().checkStack(cfg.FrameStack); err != nil {
		return nil, errors.Join(err, vec.Close())
	}
	return Wrap(vec, cfg), nil
}

// Wrap adds the wrappers that cfg asks for to vec. If vec shows an ActionMask, Wrap adds its check.
func Wrap(vec Vec, cfg Config) Vec {
	if slices.ContainsFunc(vec.Spec().Obs, Field.isMask) {
		vec = masked{wrapper{vec}, vec.Spec()}
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

// An UnknownError reports a name that no environment has.
type UnknownError struct {
	Name  string
	Known []string
}

// Error names the nearest known name, if one is near, and all names.
func (e UnknownError) Error() string {
	msg := fmt.Sprintf("unknown environment %q", e.Name)
	if near := e.nearest(); near != "" {
		msg += fmt.Sprintf(", did you mean %s?", near)
	}
	return msg + " Known: " + strings.Join(e.Known, ", ")
}

// nearest returns the known name with the fewest edits to the wanted one, ignoring case. It returns
// "" if every name needs too many edits.
func (e UnknownError) nearest() string {
	best, least := "", len(e.Name)/2+1
	for _, name := range e.Known {
		if d := edits(strings.ToLower(name), strings.ToLower(e.Name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// edits returns the least number of insertions, deletions and replacements of bytes that turn a
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
