package planner

import (
	"cmp"
	"slices"
)

// The phases of an iteration, named as in the metrics time/*.
const (
	SyncWeights      = "sync_weights"
	GenerateRollouts = "generate_rollouts"
	CalAdvAndReturns = "cal_adv_and_returns"
	ActorTraining    = "actor_training"
)

// A Prediction says what an iteration takes with a layout.
type Prediction struct {
	Layout  Layout  `json:"layout"`
	Seconds float64 `json:"seconds"` // of an iteration
	Phases  []Phase `json:"phases"`  // in their order
	// Memory is what the fullest node needs, in bytes, and Node is that node.
	Memory int64 `json:"memory"`
	Node   int   `json:"node"`
	// Events is the number of events of the run in virtual time.
	Events int `json:"events"`
	// Spent is the time that env and rollout workers spend in the iteration, if rollouts ran in virtual time.
	Spent Spent `json:"-"`
}

// Spent has the seconds of an iteration in which ranks work, by the kind of work and summed over all ranks. Workers of
// a rank that work at the same time share this time, as they would share a core. So the time in which they wait for
// their turn does not count. Time in which a rank waits for other ranks does not count either.
type Spent struct {
	Step  float64 // env workers step
	Infer float64 // rollout workers choose actions
	Play  float64 // rollout workers do both, in environments on their own ranks
}

// opPlay stands for calls of OpStep and OpInfer in turn.
const opPlay = "play"

// add adds seconds of an operation.
func (s *Spent) add(op string, seconds float64) {
	switch op {
	case OpStep:
		s.Step += seconds
	case OpInfer:
		s.Infer += seconds
	case opPlay:
		s.Play += seconds
	}
}

// plus returns s + f·t.
func (s Spent) plus(f float64, t Spent) Spent {
	return Spent{s.Step + f*t.Step, s.Infer + f*t.Infer, s.Play + f*t.Play}
}

// A Phase is a part of an iteration.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Bound   string  `json:"bound"` // on what the phase spends its time
}

// Phase returns the phase of a name; the zero Phase if there is none.
func (p Prediction) Phase(name string) Phase {
	for _, f := range p.Phases {
		if f.Name == name {
			return f
		}
	}
	return Phase{}
}

// Longest returns the phase that takes the most time.
func (p *Prediction) Longest() Phase {
	return slices.MaxFunc(p.Phases, func(a, b Phase) int { return cmp.Compare(a.Seconds, b.Seconds) })
}

// Predict predicts an iteration of the job of p on m with a layout. Rollouts run in virtual time, and the other phases
// have a closed form.
func Predict(m *Machine, p *Profile, l Layout, o Options) Prediction {
	c := newChoice(&l)
	if c.env != nil && p.Work.Envs > 0 {
		return c.predict(m, p, l, play(m, p, &l, o))
	}
	return c.predict(m, p, l, c.generate(m, p))
}

// Estimate predicts an iteration by a closed form, without a run in virtual time. It is fast enough to compare
// thousands of layouts.
func Estimate(m *Machine, p *Profile, l Layout) Prediction {
	c := newChoice(&l)
	return c.predict(m, p, l, c.generate(m, p))
}

// generate is the closed form of the phase of rollouts.
func (c *choice) generate(m *Machine, p *Profile) played {
	switch w := &p.Work; {
	case w.Envs > 0 && c.env != nil:
		return c.estimateSteps(m, p)
	case w.Prompts > 0 && c.rollout != nil:
		return c.answer(m, p)
	}
	return played{}
}

// predict predicts an iteration with these rollouts.
func (c *choice) predict(m *Machine, p *Profile, l Layout, g played) Prediction {
	pred := Prediction{Layout: l, Events: g.events, Spent: g.spent}
	phases, seconds := c.phases(m, p, g)
	pred.Phases, pred.Seconds = phases[:], seconds
	pred.Memory, pred.Node = c.memory(&p.Work)
	return pred
}

// phases returns the phases of an iteration with these rollouts, and the seconds of the whole iteration.
func (c *choice) phases(m *Machine, p *Profile, g played) (list [4]Phase, seconds float64) {
	w, r := &p.Work, &p.Real
	weights, how := c.weights(m, w)
	rollouts := Phase{GenerateRollouts, g.seconds + c.trip(m, w), g.bound}
	if c.inference != nil && w.Envs > 0 { // after the last step
		inferred := c.inference.crowd(m, p, OpLogProbs, w.share(c.inference))
		if rollouts.Seconds += inferred; inferred > g.seconds {
			rollouts.Bound = "inference workers, which add log-probs"
		}
	}
	list = [4]Phase{
		{SyncWeights, weights, how},
		rollouts,
		{CalAdvAndReturns, c.actor.crowd(m, p, OpAdvantages, w.share(c.actor)), "the actors' advantages"},
		c.train(m, p),
	}
	seconds = r.Rest
	for i := range list {
		f := &list[i]
		f.Seconds = r.corrected(f.Name, f.Seconds, f.Name == GenerateRollouts && c.apart())
		seconds += list[i].Seconds
	}
	if w.Async {
		seconds = r.Rest + overlap(&list, w.Staleness)
	}
	return list, seconds
}

// overlap returns the seconds of an iteration whose rollouts go on while actors train. This is the time of the rollouts
// or of the training, whichever is longer. With staleness n it is at least the sum of all phases divided by n+1. In
// list, the phase of rollouts becomes the time that actors wait for them.
func overlap(list *[4]Phase, staleness int) (seconds float64) {
	var sum float64
	for _, f := range list {
		sum += f.Seconds
	}
	train := list[2].Seconds + list[3].Seconds
	seconds = max(list[1].Seconds, train)
	if staleness >= 0 {
		seconds = max(seconds, sum/float64(staleness+1))
	}
	list[1].Seconds = max(0, seconds-train-list[0].Seconds)
	return seconds
}
