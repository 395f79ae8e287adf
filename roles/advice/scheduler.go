package advice

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
)

// A Scheduler decides, on rank 0, when the members of a running job move, and where to. It fits the job's profile to
// the times of its iterations, and searches again.
//
//	c.Observe(iteration)                    // after each iteration
//	if move := c.Decide(step, left); move != nil {
//		…                                   // the job moves to move.Layout
//		c.Moved(move.Layout, step, seconds) // or c.Refused(move.Layout)
//	}
//
// Times decide when members move. What a job computes does not depend on where they are.
type Scheduler struct {
	machine *planner.Machine
	profile *planner.Profile
	space   planner.Space
	present planner.Layout
	cost    float64 // seconds of the last move; before the first, of a launch of the workers
	moved   bool    // there was a move
	free    int64   // the first step at which members may move
	skip    int     // iterations that do not count yet

	window    window
	planned   int64           // the step of the last plan
	pause     int64           // iterations until the next one, if little changes
	medians   times           // of the window of the last plan; zero: there was none
	candidate *planner.Layout // the last plan's choice; nil: to stay

	last    *planner.Prediction // the layout before the last move, as it was; nil: it has its ratio, or there is none
	earlier []earlier           // the layouts that the job has had, with these costs
	refused map[string]bool
}

// A move must make an iteration shorter by a share, and pay twice in the iterations that are left.
const (
	shorter = 0.1
	pays    = 2
	sure    = 1.5 // standard errors of the times by which it must be shorter than that

	between = 10  // iterations from one move to the next
	settle  = 2   // iterations after a move that find cold memory
	confirm = 2   // iterations until a second plan confirms the first
	rarely  = 320 // the most iterations until the next plan, if little changes
	changes = 0.1 // of a time, after which it is time to plan again
)

// A Move is the decision to move.
type Move struct {
	Layout    planner.Layout
	Now, Then float64 // seconds of an iteration: as they are, and as predicted with Layout
	Cost      float64 // seconds that the move is expected to take
	Why       string  // for people
}

// NewScheduler returns the scheduler of a job whose layout is space.Present. Members keep their numbers. launch are the
// seconds that a launch of the job's workers takes.
func NewScheduler(m *planner.Machine, p *planner.Profile, space planner.Space, launch float64) *Scheduler {
	c := &Scheduler{machine: m, profile: p, space: space, present: *space.Present, cost: launch,
		skip: settle + p.Work.Warmup, refused: map[string]bool{}}
	c.space.Present, c.space.Move, c.space.Idle = &c.present, true, true
	return c
}

// Scheduler returns the scheduler of the subject's job, whose configuration says where all components are. p is the plan
// with which the run began, of Decide or of Measure. For launch see NewScheduler.
func (s *Subject) Scheduler(p *Plan, launch float64) *Scheduler {
	return NewScheduler(p.Machine, p.Profile, s.Space(), launch)
}

// Observe takes the times of an iteration, in the order of iterations. Those with an evaluation do not count.
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

// Decide returns a move that pays, after this many iterations of the run, when this many are left; else nil. It plans
// again only if there is something new.
func (c *Scheduler) Decide(step, left int64) *Move {
	if step < c.free || !c.window.enough() {
		return nil
	}
	medians := c.window.medians()
	if !c.due(step, &medians) {
		return nil
	}
	if c.pause = min(2*c.pause, rarely); medians.apart(&c.medians, changes) {
		c.pause = between
	}
	before := c.candidate
	c.planned, c.medians, c.candidate = step, medians, nil
	move := c.plan(&medians, before)
	if move == nil || (move.Now-move.Then)*float64(left) <= pays*move.Cost {
		return nil
	}
	if before == nil || before.String() != move.Layout.String() {
		c.candidate = &move.Layout
		return nil
	}
	move.Why += fmt.Sprintf(" The %d iterations left save %s, and the move costs about %s.", left,
		planner.Seconds((move.Now-move.Then)*float64(left)), planner.Seconds(move.Cost))
	return move
}

// due reports whether it is time to plan again.
func (c *Scheduler) due(step int64, medians *times) bool {
	ago := step - c.planned
	if c.candidate != nil {
		return ago >= confirm
	}
	return ago >= c.pause || medians.apart(&c.medians, changes)
}

// plan returns the best move; nil if no layout has iterations so much shorter. If an earlier choice is as good as
// any, it is the best.
func (c *Scheduler) plan(medians *times, choice *planner.Layout) *Move {
	it, doubt := medians.iteration(), c.window.doubt(medians)
	now := it.Phases[loop.WholeStep]
	t := planner.Trial{Layout: c.present, Step: now, Phases: map[string]float64{}, Spent: it.Spent}
	for i, name := range loop.Phases {
		t.Phases[name] = it.Phases[i]
	}
	c.profile = planner.Refit(c.machine, c.profile, t)
	c.compare()
	found, err := planner.Search(c.machine, c.profile, c.space)
	if err != nil { // no layout fits into the memory, so the present one was made with another estimate
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
		if i := c.before(&x.Layout); i >= 0 {
			x.Seconds *= c.earlier[i].ratio
		}
		add(x)
	}
	for _, e := range c.earlier { // which a search may not come to
		x := c.predict(e.layout)
		x.Seconds *= e.ratio
		add(x)
	}
	if least > (1-shorter-sure*doubt)*now {
		return nil
	}
	var best *planner.Prediction
	for i := range options { // the simplest of those that are as good as any comes first
		x := &options[i]
		if x.Seconds <= least*(1+planner.Tie) && (best == nil || choice != nil && x.Layout.String() == choice.String()) {
			best = x
		}
	}
	longest := found.Present.Longest()
	return &Move{Layout: best.Layout, Now: now, Then: best.Seconds, Cost: c.price(&best.Layout),
		Why: fmt.Sprintf("An iteration takes %s, %.0f %% of it %s, bound by %s; with %v it takes about %s.",
			planner.Seconds(now), 100*longest.Seconds/now, longest.Name, longest.Bound, &best.Layout,
			planner.Seconds(best.Seconds))}
}

// An earlier layout has a ratio: its real seconds ÷ the predicted ones.
type earlier struct {
	layout planner.Layout
	ratio  float64
}

// before returns the index in c.earlier of a layout that places env and rollout as l does; -1: there is none.
func (c *Scheduler) before(l *planner.Layout) int {
	return slices.IndexFunc(c.earlier, func(e earlier) bool {
		return slices.Equal(e.layout.Env, l.Env) && slices.Equal(e.layout.Rollout, l.Rollout)
	})
}

func (c *Scheduler) predict(l planner.Layout) planner.Prediction {
	return planner.Predict(c.machine, c.profile, l, planner.SteadyFor(&l))
}

// compare remembers how wrong the prediction of the layout before the last move is, now that the profile fits the
// present one. So a job goes back if a move has made it slower, and does not go there a second time.
func (c *Scheduler) compare() {
	if c.last == nil {
		return
	}
	l := c.last.Layout
	const trust = 2 // more is another reason
	ratio := c.last.Seconds / c.predict(l).Seconds
	if now := &c.present; !slices.Equal(l.Env, now.Env) || !slices.Equal(l.Rollout, now.Rollout) {
		c.earlier = append(c.earlier, earlier{l, min(max(ratio, 1.0/trust), trust)})
	}
	c.last = nil
}

// price returns the seconds that a move may take: as long as the last one, or a launch and the copies of what moves.
func (c *Scheduler) price(l *planner.Layout) float64 {
	if c.moved {
		return c.cost
	}
	moves, w := l.Moves(&c.present), &c.profile.Work
	b := &w.Bytes
	bytes := int64(moves.Actors)*(b.Actor+b.Replay) + int64(moves.Rollouts)*b.Copy
	for i, r := range l.Rollout {
		if !slices.Contains(c.present.Rollout, r) && !slices.Contains(l.Rollout[:i], r) {
			bytes += b.Rollout
		}
	}
	if n := len(l.Env); n > 0 {
		bytes += int64(moves.Envs*(w.Envs/n)) * (b.Simulator + b.Observation)
	}
	rate := 1 / c.machine.Copy
	if c.machine.Nodes > 1 {
		rate = max(rate, c.machine.Network.PerByte)
	}
	return c.cost + rate*float64(bytes)
}

// Moved tells the scheduler that the job has moved to a layout before the iteration after step, for any reason, and
// what that cost.
func (c *Scheduler) Moved(l planner.Layout, step int64, seconds float64) {
	if c.medians != (times{}) {
		c.last = &planner.Prediction{Layout: c.present, Seconds: c.medians[loop.WholeStep]}
	}
	if i := c.before(&l); i >= 0 { // the profile will fit it
		c.earlier = slices.Delete(c.earlier, i, i+1)
	}
	c.present, c.cost, c.moved = l, seconds, true
	c.free, c.skip = step+between, settle
	c.window, c.medians, c.candidate = nil, times{}, nil
}

// Refused tells the scheduler that the job cannot move to a layout. It does not choose that again.
func (c *Scheduler) Refused(l planner.Layout) {
	c.refused[l.String()] = true
	c.candidate = nil
}
