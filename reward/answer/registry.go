package answer

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/params"
)

// A Setup is what a Grader is made of.
type Setup struct {
	Type   string // the name of the rule
	Config Config
	Own    params.Own // keys of the rule itself, below reward
	Seed   uint64     // of random rewards
	Judge  *Judge     // that graders share; nil: one of its own
}

// toss returns 0 or 1, half of each. The question and the sample alone decide.
func (s *Setup) toss(r *Response) float32 {
	random := philox.New(s.Seed, philox.Text, 2+uint64(r.Sample), uint64(r.Question.Number)) // data have keys 0 and 1
	return float32(random.IntN(2))
}

// A Builder makes a Rule. An error is of the user's making: it names keys below reward.
type Builder func(Setup) (Rule, error)

// A Registry maps reward.reward_type to rules.
type Registry struct {
	names    []string
	builders []Builder
	owns     []params.Own // their keys under reward, with their defaults
}

// Default is the name of the rule where none is given.
const Default = "exact"

// Builtin returns the rules that come with rlinf; your own main adds its own.
func Builtin() *Registry {
	r := &Registry{}
	r.Add(Default, simple(exact))
	r.Add("math", simple(mathematics))
	r.Add("countdown", simple(countdown))
	r.Add(Program, nil)
	return r
}

func simple(judge func(*Response) Grade) Builder {
	return func(Setup) (Rule, error) { return Each(judge), nil }
}

// Add adds a rule. A name that is there already panics.
func (r *Registry) Add(name string, b Builder) {
	if slices.Contains(r.names, name) {
		panic(fmt.Sprintf("answer: two rules %q", name))
	}
	r.names, r.builders, r.owns = append(r.names, name), append(r.builders, b), append(r.owns, params.Own{})
}

// Register adds a rule with keys of its own under reward; see package params. build gets their
// values.
func Register[P any](r *Registry, name string, defaults P, build func(Setup, P) (Rule, error)) {
	own := params.New(defaults)
	r.Add(name, func(s Setup) (Rule, error) {
		p, err := params.Get(s.Own, defaults)
		if err != nil {
			return nil, err
		}
		return build(s, p)
	})
	r.owns[len(r.owns)-1] = own
}

// Own returns the keys that a rule has beyond Config's, with their defaults.
func (r *Registry) Own(name string) params.Own {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.owns[i]
	}
	return params.Own{}
}

// Owner returns the name of the rule that has a key of its own of that name, or "".
func (r *Registry) Owner(key string) string {
	for i, own := range r.owns {
		if own.Has(key) {
			return "reward_type " + r.names[i]
		}
	}
	return ""
}

// Names returns the names in the order in which they were added.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// New makes the grader of s.
func (r *Registry) New(s Setup) (*Grader, error) {
	i := slices.Index(r.names, s.Type)
	if i < 0 {
		return nil, fmt.Errorf("reward_type: %s: want one of %s", s.Type, strings.Join(r.names, ", "))
	}
	if s.Type == Program {
		if err := CheckProgram(s); err != nil {
			return nil, err
		}
		return newProgram(s, os.Stderr)
	}
	rule, err := r.builders[i](s)
	if err != nil {
		return nil, err
	}
	return &Grader{rule: rule, setup: s}, nil
}
