package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// A Scheduler decides, on rank 0, when and where the members of a running job move. It fits the job's profile to the
// times of finished iterations, and searches for a better layout.
//
//	c.Observe(iteration)              // after each iteration
//	if move := c.Decide(step, left); move != nil {
//		…                             // the job moves to move.Placement, or cannot
//		c.Moved(where, step, seconds) // or c.Refused()
//	}
//
// The decisions depend on measured times. The results of a job do not depend on its placement.
type Scheduler struct {
	machine *planner.Machine
	profile *planner.Profile
	space   planner.SearchSpace
	present planner.Placement
	cost    float64 // seconds of the last move; before the first move, seconds of a launch of the workers
	moved   bool    // members have moved before
	free    int64   // the first step at which members may move
	skip    int     // number of next iterations to ignore

	window    window
	planned   int64              // the step of the last plan
	pause     int64              // iterations until the next plan, if little changes
	medians   times              // medians of the window at the last plan; zero before the first plan
	candidate *planner.Placement // the last plan's choice; nil if no move pays

	decided string              // the layout of the last decision
	last    *planner.Prediction // the layout before the last move, with measured times; nil if compare has used it
	earlier []record            // layouts that the job had since its costs last changed
	refused map[string]bool
}

// A move must reduce the time of an iteration by at least the fraction minGain. Its savings in the remaining iterations
// must be at least minReturn times its cost.
const (
	minGain   = 0.1
	minReturn = 2
	sure      = 1.5 // minGain is increased by this number of standard errors

	between = 10  // minimum number of iterations between two moves
	settle  = 2   // iterations after a move that do not count, because memory is cold
	confirm = 2   // iterations until a second plan confirms the first
	rarely  = 320 // maximum number of iterations until the next plan, if little changes
	changes = 0.1 // relative change of a time that causes another plan

	endless = 1_000_000_000 // a run with this many iterations left has no known end
)

// A move is a Decision with its layout and cost.
type move struct {
	layout    planner.Placement
	now, then float64 // seconds of an iteration: now, and as predicted with layout
	cost      float64 // expected seconds of the move
	why       string  // for people
}

// NewScheduler returns the scheduler of a job whose layout is space.Present. Moves do not change the numbers of
// members. launch is the time to launch the job's workers, in seconds.
func NewScheduler(m *planner.Machine, p *planner.Profile, space planner.SearchSpace, launch float64) *Scheduler {
	c := &Scheduler{machine: m, profile: p, space: space, present: *space.Present, cost: launch,
		skip: settle + p.Work.Warmup, refused: map[string]bool{}}
	c.space.Present, c.space.Move, c.space.Idle = &c.present, true, true
	return c
}

// Scheduler returns the scheduler of the subject's job. The configuration must place all components. p is the plan of
// Decide or Measure with which the run began. launch is as in NewScheduler.
func (s *Subject) Scheduler(p *StartPlan, launch float64) *Scheduler {
	return NewScheduler(p.Machine, p.Profile, s.Space(), launch)
}

// Observe records the times of an iteration. It must be called for all iterations in order. It ignores iterations with
// an evaluation.
func (c *Scheduler) Observe(it Iteration) {
	if c.skip > 0 {
		c.skip--
		return
	}
	if it.Phases[loop.WholeStep] <= 0 || it.Phases[loop.Evaluating] > 0 {
		return
	}
	var changed bool
	if c.window, changed = c.window.add(it.times()); changed {
		c.earlier, c.last = nil, nil
	}
}

// A Decision is a move that a Scheduler proposes.
type Decision struct {
	Placement string  // new placement of the moving components, for config.Config.Moved
	Reason    string  // for people
	Now, Then float64 // seconds of an iteration: now, and as predicted in the new placement; 0 if not known
}

// Decide returns a move that is worth its cost. It returns nil if there is none. step is the number of finished
// iterations, and stepsLeft is the number of iterations that follow.
func (c *Scheduler) Decide(step, stepsLeft int64) *Decision {
	m := c.decide(step, stepsLeft)
	if m == nil {
		return nil
	}
	c.decided = m.layout.String()
	var parts []string
	for _, name := range m.layout.Components() {
		if ranks := m.layout.Ranks(name); !slices.Equal(ranks, c.present.Ranks(name)) {
			parts = append(parts, fmt.Sprintf("%s: %q", name, spmd.PlacementOf(ranks)))
		}
	}
	return &Decision{"{" + strings.Join(parts, ", ") + "}", m.why, m.now, m.then}
}

// decide is Decide without the text of the placement. It plans again only if due returns true.
func (c *Scheduler) decide(step, stepsLeft int64) *move {
	if step < c.free || !c.window.enough() {
		return nil
	}
	medians := c.window.medians()
	if !c.due(step, &medians) {
		return nil
	}
	if c.pause = min(2*c.pause, rarely); medians.differs(&c.medians, changes) {
		c.pause = between
	}
	before := c.candidate
	c.planned, c.medians, c.candidate = step, medians, nil
	m := c.plan(&medians, before)
	if m == nil {
		return nil
	}
	saves := (m.now - m.then) * float64(stepsLeft)
	if saves <= minReturn*m.cost {
		return nil
	}
	if before == nil || before.String() != m.layout.String() {
		c.candidate = &m.layout
		return nil
	}
	m.why += fmt.Sprintf(" The move costs about %s", planner.Seconds(m.cost))
	if stepsLeft < endless {
		m.why += fmt.Sprintf(", and the %d iterations left save %s", stepsLeft, planner.Seconds(saves))
	}
	m.why += "."
	return m
}

// due reports whether it is time to plan again.
func (c *Scheduler) due(step int64, medians *times) bool {
	ago := step - c.planned
	if c.candidate != nil {
		return ago >= confirm
	}
	return ago >= c.pause || medians.differs(&c.medians, changes)
}

// plan returns the best move. It returns nil if no layout makes iterations sufficiently shorter. previous is the layout
// that the previous plan chose, or nil. Of equally good layouts, plan prefers the previous one.
func (c *Scheduler) plan(medians *times, previous *planner.Placement) *move {
	it, doubt := medians.iteration(), c.window.doubt(medians)
	now := it.Phases[loop.WholeStep]
	t := planner.Trial{Layout: c.present, Step: now, Phases: map[string]float64{}, Spent: it.Spent}
	for i, name := range loop.Phases {
		t.Phases[name] = it.Phases[i]
	}
	c.profile = planner.Refit(c.machine, c.profile, t)
	c.compare()
	found, err := planner.Search(c.machine, c.profile, c.space)
	if err != nil { // no layout fits into memory by the planner's estimate
		return nil
	}
	var options []planner.Prediction
	least := math.Inf(1)
	add := func(x planner.Prediction) {
		if name := x.Layout.String(); !c.refused[name] && name != c.present.String() {
			options, least = append(options, x), min(least, x.Seconds)
		}
	}
	for _, x := range found.Best {
		if i := c.find(&x.Layout); i >= 0 {
			x.Seconds *= c.earlier[i].ratio
		}
		add(x)
	}
	for _, e := range c.earlier { // a search does not always find them
		x := c.predict(e.layout)
		x.Seconds *= e.ratio
		add(x)
	}
	if least > (1-minGain-sure*doubt)*now {
		if least < (1-minGain)*now { // more iterations may remove the doubt
			c.pause = between
		}
		return nil
	}
	var best *planner.Prediction
	for i := range options { // among equally good options, the simplest comes first
		x := &options[i]
		chosen := previous != nil && x.Layout.String() == previous.String()
		if x.Seconds <= least*(1+planner.Tie) && (best == nil || chosen) {
			best = x
		}
	}
	longest := found.Present.Longest()
	return &move{layout: best.Layout, now: now, then: best.Seconds, cost: c.price(&best.Layout),
		why: fmt.Sprintf("An iteration takes %s, %.0f %% of it %s, bound by %s; with %v it takes about %s.",
			planner.Seconds(now), 100*longest.Seconds/now, longest.Name, longest.Bound, &best.Layout,
			planner.Seconds(best.Seconds))}
}

// A record has an earlier layout, and the ratio of its measured time to its predicted time.
type record struct {
	layout planner.Placement
	ratio  float64
}

// find returns the index in c.earlier of a layout that places rollouts as l does: see rolloutsAlike. It returns -1 if
// there is none.
func (c *Scheduler) find(l *planner.Placement) int {
	return slices.IndexFunc(c.earlier, func(e record) bool { return rolloutsAlike(&e.layout, l) })
}

// rolloutsAlike reports whether two layouts place all components but the actors on the same ranks.
func rolloutsAlike(a, b *planner.Placement) bool {
	return !slices.ContainsFunc(a.Components(), func(name string) bool {
		return name != "actor" && !slices.Equal(a.Ranks(name), b.Ranks(name))
	})
}

func (c *Scheduler) predict(l planner.Placement) planner.Prediction {
	return planner.Predict(c.machine, c.profile, l, planner.SteadyFor(&l))
}

// compare adds the layout before the last move to c.earlier, with its ratio of measured to predicted time. It omits a
// layout that places rollouts as the present layout does: see rolloutsAlike. The profile must already fit the present
// layout. With the ratio, a job can undo a move that made the job slower, and does not repeat the move.
func (c *Scheduler) compare() {
	if c.last == nil {
		return
	}
	l := c.last.Layout
	const trust = 2 // a larger ratio has other causes than the layout
	ratio := c.last.Seconds / c.predict(l).Seconds
	if !rolloutsAlike(&l, &c.present) {
		c.earlier = append(c.earlier, record{l, min(max(ratio, 1.0/trust), trust)})
	}
	c.last = nil
}

// price returns the expected seconds of a move to l. Before the first move, this is the time to launch workers and to
// copy the state that moves. Afterwards it is the time of the last move.
func (c *Scheduler) price(l *planner.Placement) float64 {
	if c.moved {
		return c.cost
	}
	moves, w := l.Moves(&c.present), &c.profile.Work
	b := &w.Bytes
	bytes := int64(moves["actor"])*(b.Actor+b.Replay) + int64(moves["rollout"])*b.Copy +
		int64(moves["reward"])*b.Reward + int64(moves["inference"])*b.Inference + int64(moves["critic"])*b.Critic
	for i, r := range l.Rollout {
		if !slices.Contains(c.present.Rollout, r) && !slices.Contains(l.Rollout[:i], r) {
			bytes += b.Rollout
		}
	}
	if n := len(l.Env); n > 0 {
		bytes += int64(moves["env"]*(w.Envs/n)) * (b.Simulator + b.Observation)
	}
	rate := 1 / c.machine.Copy
	if c.machine.Nodes > 1 {
		rate = max(rate, c.machine.Network.PerByte)
	}
	return c.cost + rate*float64(bytes)
}

// Moved records that members have moved to another placement, for any reason. step is the number of finished
// iterations, and seconds is the time of the move.
func (c *Scheduler) Moved(p *spmd.Placement, step int64, seconds float64) {
	l := c.present
	for _, name := range l.Components() {
		if l.Place(name, p.Ranks(name)); !p.Has(name) { // a component without a placement is on the ranks of the actors
			l.Place(name, p.Ranks("actor"))
		}
	}
	if c.medians != (times{}) {
		c.last = &planner.Prediction{Layout: c.present, Seconds: c.medians[loop.WholeStep]}
	}
	if i := c.find(&l); i >= 0 { // the profile will fit this layout
		c.earlier = slices.Delete(c.earlier, i, i+1)
	}
	c.present, c.cost, c.moved = l, seconds, true
	c.free, c.skip = step+between, settle
	c.window, c.medians, c.candidate = nil, times{}, nil
}

// Refused records that the job cannot make the move of the last Decision. The scheduler does not propose the layout of
// this move again.
func (c *Scheduler) Refused() { c.refused[c.decided] = true }
