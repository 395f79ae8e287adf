package planner

import (
	"cmp"
	"maps"
)

// A Trial has the median times of real iterations with one layout, in seconds.
type Trial struct {
	Layout Placement          `json:"layout"`
	Step   float64            `json:"step"`   // a whole iteration
	Phases map[string]float64 `json:"phases"` // by name
	// Spent is the time that workers spent in an iteration. It is zero if it was not recorded.
	Spent Spent `json:"-"`
}

// callsAtMost is the maximum overhead of calls and messages that Correct assumes in a phase, in seconds. Correct
// attributes further time to the work of the phase.
const callsAtMost = 500e-6

// Correct sets p.Real from real iterations with one worker per component. inTurn is a trial in which all workers ran in
// one goroutine, without messages. withMessages is a trial in which they exchanged messages in each step. It may be
// nil.
func Correct(m *Machine, p *Profile, inTurn Trial, withMessages *Trial) {
	p.Real = Real{Calls: map[string]float64{}, Scale: map[string]float64{}}
	made := Predict(m, p, inTurn.Layout, Steady())
	rest := inTurn.Step
	for _, ph := range made.Phases {
		took, ok := inTurn.Phases[ph.Name]
		if !ok {
			continue
		}
		rest -= took
		calls := min(max(0, took-ph.Seconds), callsAtMost)
		p.Real.Calls[ph.Name] = calls
		if ph.Seconds > 0 && ph.Seconds > calls {
			p.Real.Scale[ph.Name] = (took - calls) / ph.Seconds
		}
	}
	// An untrained model gets equal rewards for all answers, and real updates skip such answers. So a scale below 1 is
	// not realistic.
	if f := p.Real.Scale[ActorTraining]; f > 0 && p.Work.Prompts > 0 {
		p.Real.Scale[ActorTraining] = max(1, f)
	}
	p.Real.Rest = max(0, rest)
	if w := &p.Work; withMessages != nil && w.Steps > 0 {
		with := Predict(m, p, withMessages.Layout, Steady())
		late := withMessages.Phases[GenerateRollouts] - with.Phase(GenerateRollouts).Seconds
		scale := 1.0
		if f := p.Real.Scale[GenerateRollouts]; f > 0 {
			scale = f
		}
		p.Real.Hop = max(0, late/scale/float64(2*w.Steps*w.Epochs))
	}
}

// Refit returns a copy of p with costs that match the iterations of t. It scales the costs of steps and inferences to
// the times in t.Spent. If only their sum is known, it scales both by the same factor. It then fits Real.Scale of each
// phase, and Real.Apart for rollouts with messages.
func Refit(m *Machine, p *Profile, t Trial) *Profile {
	q := *p
	q.Real.Calls, q.Real.Scale, q.Real.Apart = maps.Clone(p.Real.Calls), map[string]float64{}, 0
	predict := func() Prediction { return Predict(m, &q, t.Layout, SteadyFor(&t.Layout)) }
	made := predict()
	rounds := 2 // workers on one node slow each other down
	if p.Work.Async && p.Work.Staleness < 0 {
		rounds = 0 // the number of rollouts in an iteration is not fixed
	}
	for range rounds {
		step, infer := ratio(t.Spent.Step, made.Spent.Step), ratio(t.Spent.Infer, made.Spent.Infer)
		if step*infer == 0 {
			both := ratio(t.Spent.Play, made.Spent.Play)
			if both == 0 && !p.Work.Async {
				both = ratio(t.Phases[GenerateRollouts], made.Phase(GenerateRollouts).Seconds)
			}
			step, infer = cmp.Or(step, both), cmp.Or(infer, both)
		}
		q.Costs = q.scaled(OpStep, cmp.Or(step, 1)).scaled(OpInfer, cmp.Or(infer, 1)).Costs
		made = predict()
	}
	if q.Real.Calls == nil {
		q.Real.Calls = map[string]float64{}
	}
	messages, inTurn := 1.0, 1.0 // factors of rollouts
	if p.Real.Apart > 0 {        // p has been fitted before
		messages, inTurn = p.Real.Apart, cmp.Or(p.Real.Scale[GenerateRollouts], 1)
	}
	phases := t.Phases
	if !p.Work.Async {
		phases = t.withoutWaits()
	}
	for _, f := range made.Phases {
		took := phases[f.Name]
		if took <= 0 || p.Work.Async && f.Name == GenerateRollouts { // with Async, took is only a wait for rollouts
			continue
		}
		work := f.Seconds - q.Real.Calls[f.Name]
		q.Real.Calls[f.Name] = min(q.Real.Calls[f.Name], took/2)
		if work > 0 {
			q.Real.Scale[f.Name] = (took - q.Real.Calls[f.Name]) / work
		} else {
			q.Real.Calls[f.Name] = took
		}
	}
	if f := q.Real.Scale[GenerateRollouts]; newChoice(&t.Layout).apart() {
		messages = cmp.Or(f, messages)
	} else {
		inTurn = cmp.Or(f, inTurn)
	}
	q.Real.Scale[GenerateRollouts], q.Real.Apart = inTurn, messages
	q.Real.Rest = 0
	q.Real.Rest = max(0, t.Step-predict().Seconds)
	return &q
}

// withoutWaits returns the times of the phases of t, reduced so that their sum is t.Step. Each phase of t is the time
// of its slowest rank. A rank with early rollouts waits for the other ranks in a later phase, so t counts this wait
// twice. withoutWaits subtracts the wait from the later phases.
func (t *Trial) withoutWaits() map[string]float64 {
	phases := maps.Clone(t.Phases)
	twice := phases[SyncWeights] + phases[GenerateRollouts] + phases[CalAdvAndReturns] + phases[ActorTraining] - t.Step
	for _, name := range []string{CalAdvAndReturns, ActorTraining} {
		cut := max(0, min(twice, 0.9*phases[name]))
		phases[name] -= cut
		twice -= cut
	}
	return phases
}

// ratio returns a/b. It returns 0 if a or b is unknown, that is, not positive.
func ratio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}
