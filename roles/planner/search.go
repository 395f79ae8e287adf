package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/figures"
)

// Tie is the relative difference below which two times count as equal. Then the layout with fewer parts wins: see
// choice.parts.
const Tie = 0.03

// A Found is the result of a Search.
type Found struct {
	Best      []Prediction  `json:"best"`              // the best layouts, the winner first
	Present   *Prediction   `json:"present,omitempty"` // the present layout, if the job can run with it
	Looked    int           `json:"looked"`            // number of layouts that fit the job
	Ran       int           `json:"ran"`               // number of these layouts that ran in virtual time
	Sensitive []Sensitivity `json:"sensitive"`         // what would change the winner
}

// Winner returns the chosen layout.
func (f *Found) Winner() *Prediction { return &f.Best[0] }

// shown is the number of layouts in Found.Best. If SearchSpace.Move is true, Found.Best has all layouts that ran in
// virtual time.
const shown = 5

// runEvents limits the time of a Search in a large world. After this many events, a Search starts no further run in
// virtual time.
const runEvents = 400_000

// ErrNone is the error of a Search if no layout of the space fits the job.
var ErrNone = errors.New("no layout fits the job")

// Search returns the best layouts of a space. It compares all layouts by a closed form, and then runs the fastest in
// virtual time. If two times differ by less than Tie, the layout with fewer parts wins. If s.Move is false, the present
// layout wins unless the best time is lower than its time by more than Tie.
func Search(m *Machine, p *Profile, s SearchSpace) (*Found, error) {
	if err := s.tooSmall(); err != nil {
		return nil, err
	}
	var list []choice
	runs := s.Present != nil && (s.Move || fits(&p.Work, s.Present))
	if runs {
		list = append(list, *newChoice(s.Present))
	}
	list = append(list, s.threaded(m, p, s.extend(m, p, s.choices(m, p)))...)
	if len(list) == 0 {
		return nil, s.nothing(&p.Work)
	}
	f := &Found{Looked: len(list)}
	fit, err := s.sift(m, p, list)
	if err != nil {
		return nil, err
	}
	f.run(m, p, fit, s.bySimplicity)
	if runs {
		present := *f.prediction(m, p, *s.Present)
		f.Present = &present
	}
	if !s.Move {
		if runs && newChoice(s.Present).excess(m, &p.Work) == 0 {
			f.keepPresent()
		}
		f.Best = f.Best[:min(shown, len(f.Best))]
	}
	f.Sensitive = sensitivities(m, p, f.Best)
	return f, nil
}

// Fits reports whether any layout of s fits into the memory of m, for a job with the work w.
func Fits(m *Machine, w Workload, s SearchSpace) bool {
	p := &Profile{Work: w}
	return slices.ContainsFunc(s.extend(m, p, s.choices(m, p)), func(c choice) bool { return c.excess(m, &w) == 0 })
}

// An estimated choice has the seconds of its closed form.
type estimated struct {
	*choice
	seconds float64
	moves   int // number of members that move from the present layout
	parts   int
	idle    int
}

// sift returns the choices of list that fit into memory, ordered by the seconds of their closed form.
func (s *SearchSpace) sift(m *Machine, p *Profile, list []choice) (fit []estimated, err error) {
	nearest, least, at := -1, int64(math.MaxInt64), 0
	for i := range list {
		c := &list[i]
		if c.excess(m, &p.Work) > 0 {
			if need, node := c.memory(&p.Work); need < least {
				nearest, least, at = i, need, node
			}
			continue
		}
		_, t := c.phases(m, p, c.generate(m, p))
		e := estimated{choice: c, seconds: t, parts: c.parts(), idle: c.idle()}
		if s.Move {
			l := c.layout()
			e.moves = l.Moves(s.Present).All()
		}
		fit = append(fit, e)
	}
	if len(fit) == 0 {
		expected := "fewer environments, shorter rollouts or more nodes"
		if p.Work.Envs == 0 {
			expected = "fewer tokens in a micro-batch, fewer actors or more nodes"
		}
		return nil, fmt.Errorf("no placement fits into the memory of a node, %s: the nearest miss is %v, which needs "+
			"%s on node %d: expected %s", figures.MiB(m.Memory), list[nearest].layout(), figures.MiB(least), at,
			expected)
	}
	slices.SortStableFunc(fit, func(a, b estimated) int {
		return cmp.Or(cmp.Compare(a.seconds, b.seconds), a.moves-b.moves, a.parts-b.parts, a.idle-b.idle)
	})
	return fit, nil
}

// run runs the fastest of the estimated layouts in virtual time. It sets f.Best to their predictions, the winner first.
func (f *Found) run(m *Machine, p *Profile, all []estimated, simpler func(a, b *Placement) int) {
	const least, most, near = 8, 40, 1.6 // least, most: numbers of layouts; near: multiple of the best time
	events := 0
	seen := map[string]bool{} // of layouts that differ only in their ranks, only the first runs
	for _, e := range all {
		if n := len(f.Best); n >= least && (n >= most || e.seconds > near*all[0].seconds || events > runEvents) {
			break
		}
		l := e.layout()
		like := fmt.Sprint(e.seconds, len(l.Actor), len(l.Env), len(l.Rollout), len(l.Reward), len(l.Inference),
			len(l.Critic), l.Stages)
		if seen[like] {
			continue
		}
		seen[like] = true
		x := Predict(m, p, l, SteadyFor(&l))
		events += x.Events
		f.Best = append(f.Best, x)
	}
	f.Ran = len(f.Best)
	slices.SortStableFunc(f.Best, func(a, b Prediction) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), simpler(&a.Layout, &b.Layout))
	})
	byParts(f.Best, simpler)
}

// SteadyFor returns the options of Steady, with fewer steps if l has many members.
func SteadyFor(l *Placement) Options {
	o := Steady()
	for n := len(l.Env) + len(l.Rollout); n > 256 && o.Steps > 8; n /= 2 {
		o.Steps /= 2
	}
	return o
}

// prediction returns the prediction of l, from f.Best if it has l.
func (f *Found) prediction(m *Machine, p *Profile, l Placement) *Prediction {
	for i := range f.Best {
		if f.Best[i].Layout.String() == l.String() {
			return &f.Best[i]
		}
	}
	x := Predict(m, p, l, SteadyFor(&l))
	return &x
}

// keepPresent moves the present layout to the front of f.Best if no other time is lower by more than Tie.
func (f *Found) keepPresent() {
	fastest := slices.MinFunc(f.Best, func(a, b Prediction) int { return cmp.Compare(a.Seconds, b.Seconds) })
	if f.Present.Seconds > fastest.Seconds*(1+Tie) {
		return
	}
	f.Best = slices.DeleteFunc(f.Best, f.isPresent)
	f.Best = slices.Insert(f.Best, 0, *f.Present)
}

// isPresent reports whether x is the prediction of the present layout.
func (f *Found) isPresent(x Prediction) bool {
	return f.Present != nil && x.Layout.String() == f.Present.Layout.String()
}

// KeepsPresent reports whether the winner is the present layout.
func (f *Found) KeepsPresent() bool { return f.isPresent(*f.Winner()) }

// byParts moves the simplest layout to the front of list. Only layouts whose time is within Tie of the best time count.
func byParts(list []Prediction, simpler func(a, b *Placement) int) {
	win := 0
	for i := range list {
		if list[i].Seconds <= list[0].Seconds*(1+Tie) && simpler(&list[i].Layout, &list[win].Layout) < 0 {
			win = i
		}
	}
	winner := list[win]
	copy(list[1:win+1], list[:win])
	list[0] = winner
}

// tooSmall returns an error if a fixed component is on a rank that the world does not have.
func (s *SearchSpace) tooSmall() error {
	for component, ranks := range s.Fixed {
		if len(ranks) > 0 && slices.Max(ranks) >= len(s.Nodes) {
			return fmt.Errorf("%w: a world of %d ranks is too small: %s is on rank %d", ErrNone, len(s.Nodes),
				component, slices.Max(ranks))
		}
	}
	return nil
}

// nothing returns the error for a space without a layout that fits the job.
func (s *SearchSpace) nothing(w *Workload) error {
	what := figures.Count(w.Samples, "sample")
	switch {
	case w.Envs > 0 && w.Group > 1:
		what = fmt.Sprintf("%s in groups of %d", figures.Count(w.Envs, "environment"), w.Group)
	case w.Envs > 0:
		what = figures.Count(w.Envs, "environment")
	case w.Prompts > 0:
		what = figures.Count(w.Prompts, "prompt")
	}
	return fmt.Errorf("%w: %s, %s and %s: expected numbers that can be divided, or fewer ranks", ErrNone, what,
		figures.Count(w.Actors, "actor"), figures.Count(len(s.Nodes), "rank"))
}

// A Sensitivity says how wrong an entry of the profile or of the machine must be to change the winner.
type Sensitivity struct {
	Entry  string  `json:"entry"`
	Factor float64 `json:"factor"` // multiplies the entry; 0 if no factor from 1/4 to 4 changes the winner
	Winner string  `json:"winner"` // the layout that then wins
}

// sensitivities returns a Sensitivity of each entry. Only the layouts in best can win.
func sensitivities(m *Machine, p *Profile, best []Prediction) (list []Sensitivity) {
	if len(best) < 2 {
		return nil
	}
	entries := []string{}
	for _, c := range p.Costs {
		if !slices.Contains(entries, c.Op) && c.Op != OpAdvantages {
			entries = append(entries, c.Op)
		}
	}
	r := newRace(m, p, best)
	for _, entry := range append(entries, "messages") {
		s := Sensitivity{Entry: entry}
		for _, f := range []float64{0.9, 1.1, 0.8, 1.25, 0.67, 1.5, 0.5, 2, 0.25, 4} {
			mm, pp := *m, p
			if entry == "messages" {
				mm.Process, mm.SameNode, mm.Network = mm.Process.times(f), mm.SameNode.times(f), mm.Network.times(f)
			} else {
				pp = p.scaled(entry, f)
			}
			if i := r.fastest(&mm, pp); i > 0 {
				s.Factor, s.Winner = f, best[i].Layout.String()
				break
			}
		}
		list = append(list, s)
	}
	return list
}

// A race compares the best layouts, the winner first. It has the predicted seconds of each layout, and the seconds by
// the closed form.
type race []struct {
	*choice
	seconds, closed float64
}

func newRace(m *Machine, p *Profile, best []Prediction) race {
	r := make(race, len(best))
	for i := range best {
		x := &r[i]
		x.choice, x.seconds = newChoice(&best[i].Layout), best[i].Seconds
		_, x.closed = x.phases(m, p, x.generate(m, p))
	}
	return r
}

// fastest returns the index of the fastest layout for a changed machine or profile. It scales each predicted time by
// the change of the closed form. To win, a layout must beat the first by more than Tie.
func (r race) fastest(m *Machine, p *Profile) int {
	win, least := 0, math.Inf(1)
	for i, x := range r {
		_, closed := x.phases(m, p, x.generate(m, p))
		t := x.seconds * closed / x.closed
		if i > 0 {
			t *= 1 + Tie // a tie does not change the winner
		}
		if t < least {
			win, least = i, t
		}
	}
	return win
}

// times returns a link that takes f times as long.
func (l Link) times(f float64) Link { return Link{l.Latency * f, l.PerByte * f} }
