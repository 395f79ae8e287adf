package env

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A PersonConfig is the section person of env.train. It describes a scripted person who takes over from the policy in
// some steps, as an operator does who watches a robot. The person does what the environment's expert would do.
type PersonConfig struct {
	// Share is the probability, in [0, 1], with which the person acts in a stretch of 5 steps. 0, the default, means
	// that nobody acts in place of the policy.
	Share float64 `yaml:"share"`
	// Episodes is the number of episodes of each environment after which the person leaves it. 0, the default, means
	// that the person stays.
	Episodes int `yaml:"episodes"`
}

// check validates c, and calls the given function for each rule; see Config.Check. Keys are relative to the section
// person.
func (c PersonConfig) check(want func(ok bool, key string, value any, want string)) {
	want(c.Share >= 0 && c.Share <= 1, "share", c.Share, "a probability, in [0, 1]")
	want(c.Episodes >= 0 && c.Episodes <= 1<<31, "episodes", c.Episodes, "a number of episodes, or 0 for all")
}

// Person lets the expert of a Vec act in place of the policy in some steps, as a person does. It takes single actions.
type Person struct {
	wrapper
	cfg    PersonConfig
	spec   Spec
	action tensor.Dict   // the actions that the wrapped Vec gets
	expert tensor.Tensor // [N,1,A]
	now    tensor.Tensor // I64 [N,3]: see the constants
}

// Columns of Person.now.
const (
	personEpisode = iota // number of the episode, counted from 1
	personStep           // number of the next step in it, counted from 0; -1 if it is over
	personSeed           // seed of the episode
)

// personStretch is the number of steps in a stretch. The person acts in all steps of a stretch, or in none.
const personStretch = 5

// NewPerson wraps v, which must be an Expert. Otherwise Step returns errors that wrap errors.ErrUnsupported.
func NewPerson(v Vec, cfg PersonConfig) *Person {
	spec := v.Spec()
	spec.Intervene = true
	w := &Person{wrapper: wrapper{Vec: v}, cfg: cfg, spec: spec, now: tensor.New(tensor.I64, v.Len(), 3),
		expert: tensor.New(spec.Action.DType, v.Len(), 1, spec.Action.Dim())}
	w.action.Set("action", w.expert.Clone())
	w.own = memory{{"person", w.now}}
	return w
}

// Spec returns the Spec of the wrapped Vec, with Intervene set.
func (w *Person) Spec() Spec { return w.spec }

// Reset starts new episodes; see Vec.
func (w *Person) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.Vec.Reset(mask, seeds, out); err != nil {
		return err
	}
	for n := range w.Len() {
		if mask == nil || mask[n] {
			w.begin(n, seeds[n])
		}
	}
	return nil
}

// begin begins an episode of environment n.
func (w *Person) begin(n int, seed uint64) {
	now := w.now.At(n).I64()
	now[personEpisode], now[personStep], now[personSeed] = now[personEpisode]+1, 0, int64(seed)
}

// acts reports whether the person acts in the next step of environment n. The answer is drawn at random from the seed
// of the episode.
func (w *Person) acts(n int) bool {
	now := w.now.At(n).I64()
	if now[personStep] < 0 || w.cfg.Episodes > 0 && now[personEpisode] > int64(w.cfg.Episodes) {
		return false
	}
	s := philox.New(uint64(now[personSeed]), philox.Mixture, 0, uint64(now[personStep]/personStretch))
	return s.Float64() < w.cfg.Share
}

// Step takes one action; see Vec.
func (w *Person) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	given, err := w.spec.CheckStep(w.Len(), action, seeds, out)
	if err != nil {
		return err
	}
	if given.Dim(1) != 1 {
		return fmt.Errorf("%s: chunks of %d actions: expected 1, because env.train.person acts in single steps",
			w.spec.Name, given.Dim(1))
	}
	intervened, taken := out.Intervened.U8(), w.action.Must("action")
	taken.CopyFrom(given)
	anybody := false
	for n := range intervened {
		intervened[n] = 0
		if w.acts(n) {
			intervened[n], anybody = Acted, true
		}
	}
	if anybody {
		if err := w.Act(w.expert); err != nil {
			return err
		}
		for n, acted := range intervened {
			if acted != 0 {
				taken.At(n).CopyFrom(w.expert.At(n))
			}
		}
	}
	out.Taken.CopyFrom(taken)
	if err := w.Vec.Step(w.action, seeds, out); err != nil {
		return err
	}
	for n := range intervened {
		_, ended := out.Took(n)
		switch now := w.now.At(n).I64(); {
		case ended && seeds != nil:
			w.begin(n, seeds[n])
		case ended:
			now[personStep] = -1
		default:
			now[personStep]++
		}
	}
	return nil
}
