package answer

import (
	"fmt"
	"os"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/params"
)

// A Setup holds what a Grader is made of.
type Setup struct {
	Type     string // name of the rule
	Config   Config
	Own      params.Own       // keys below reward that the rule defines
	Seed     uint64           // seed of the random rewards
	Judge    *JudgeProgram    // shared with other graders; if nil, the grader makes its own
	Programs programs.Entered // to start the program under a supervisor
}

// toss returns 0 or 1, each with probability 1/2. The result depends only on the seed, the question
// and the sample.
func (s *Setup) toss(r *Response) float32 {
	// the data use streams 0 and 1
	random := philox.New(s.Seed, philox.Text, 2+uint64(r.Sample), uint64(r.Question.Number))
	return float32(random.IntN(2))
}

// A Builder makes a Rule. Its errors name keys below reward.
type Builder func(Setup) (Rule, error)

// A Registry maps values of reward.reward_type to rules.
type Registry struct{ params.Registry[Builder] }

// Default is the default reward_type of the reasoning task.
const Default = "exact"

// Builtin returns a registry with the rules of rlinf. Your own program can add rules.
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

// Register adds a rule with its own keys under reward; see package params. The constructor gets the values of the keys.
func Register[P any](r *Registry, name string, defaults P, build func(Setup, P) (Rule, error)) {
	r.AddOwn(name, params.New(defaults), func(s Setup) (Rule, error) {
		p, err := params.Get(s.Own, defaults)
		if err != nil {
			return nil, err
		}
		return build(s, p)
	})
}

// New returns the Grader that s describes. The caller must close it.
func (r *Registry) New(s Setup) (*Grader, error) {
	build, ok := r.Builder(s.Type)
	if !ok {
		return nil, fmt.Errorf("reward_type: %s: expected one of %s", s.Type, strings.Join(r.Names(), ", "))
	}
	if s.Type == Program {
		if err := CheckProgram(s); err != nil {
			return nil, err
		}
		return newProgram(s, os.Stderr)
	}
	rule, err := build(s)
	if err != nil {
		return nil, err
	}
	return &Grader{rule: rule, setup: s}, nil
}
