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

// A Prediction has the predicted time and memory of an iteration with one layout.
type Prediction struct {
	Layout  Placement       `json:"layout"`
	Seconds float64         `json:"seconds"` // time of an iteration
	Phases  []PhaseEstimate `json:"phases"`  // in order
	// Memory is the memory of the fullest node, in bytes. Node is the number of this node.
	Memory int64 `json:"memory"`
	Node   int   `json:"node"`
	// Events is the number of events of the run in virtual time.
	Events int `json:"events"`
	// Spent is the time that env and rollout workers spend in the iteration, if rollouts ran in virtual time.
	Spent Spent `json:"-"`
}

// Spent counts the working seconds of an iteration, summed over all ranks. It has one field for each kind of work. If
// several workers of a rank work at the same time, this time is divided among them. Waits for a core or for other ranks
// do not count.
type Spent struct {
	Step  float64 // env workers step environments
	Infer float64 // rollout workers choose actions
	Play  float64 // rollout workers do both, with environments on their own rank
}

// opPlay is the operation of a rollout worker that alternates calls of OpStep and OpInfer.
const opPlay = "play"

// add adds seconds to the field of the operation op.
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

// A PhaseEstimate has the predicted time of a part of an iteration.
type PhaseEstimate struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Bound   string  `json:"bound"` // what bounds the phase
}

// Phase returns the phase with this name. It returns the zero PhaseEstimate if there is none.
func (p Prediction) Phase(name string) PhaseEstimate {
	for _, f := range p.Phases {
		if f.Name == name {
			return f
		}
	}
	return PhaseEstimate{}
}

// Longest returns the phase that takes the most time.
func (p *Prediction) Longest() PhaseEstimate {
	return slices.MaxFunc(p.Phases, func(a, b PhaseEstimate) int { return cmp.Compare(a.Seconds, b.Seconds) })
}

// Predict predicts an iteration of the job of p on m, with the layout l. Rollouts in environments run in virtual time.
// All other phases have a closed form.
func Predict(m *Machine, p *Profile, l Placement, o Options) Prediction {
	c := newChoice(&l)
	if c.env != nil && p.Work.Envs > 0 {
		return c.predict(m, p, l, play(m, p, &l, o))
	}
	return c.predict(m, p, l, c.generate(m, p))
}

// Estimate predicts an iteration by a closed form, without a run in virtual time. It is fast enough to compare
// thousands of layouts.
func Estimate(m *Machine, p *Profile, l Placement) Prediction {
	c := newChoice(&l)
	return c.predict(m, p, l, c.generate(m, p))
}

// generate estimates the rollouts by a closed form.
func (c *choice) generate(m *Machine, p *Profile) rolloutRun {
	switch w := &p.Work; {
	case w.Envs > 0 && c.env != nil:
		return c.estimateSteps(m, p)
	case w.Prompts > 0 && c.rollout != nil:
		return c.answer(m, p)
	}
	return rolloutRun{}
}

// predict predicts an iteration with the rollouts g.
func (c *choice) predict(m *Machine, p *Profile, l Placement, g rolloutRun) Prediction {
	pred := Prediction{Layout: l, Events: g.events, Spent: g.spent}
	phases, seconds := c.phases(m, p, g)
	pred.Phases, pred.Seconds = phases[:], seconds
	pred.Memory, pred.Node = c.memory(&p.Work)
	return pred
}

// phases returns the phases of an iteration with the rollouts g, and the seconds of the whole iteration.
func (c *choice) phases(m *Machine, p *Profile, g rolloutRun) (list [4]PhaseEstimate, seconds float64) {
	w, r := &p.Work, &p.Real
	weights, how := c.weights(m, w)
	rollouts := PhaseEstimate{GenerateRollouts, g.seconds + c.trip(m, w), g.bound}
	if c.inference != nil && w.Envs > 0 { // after the last step
		inferred := c.inference.crowd(m, p, OpLogProbs, w.share(c.inference))
		if rollouts.Seconds += inferred; inferred > g.seconds {
			rollouts.Bound = "inference workers, which add log-probs"
		}
	}
	list = [4]PhaseEstimate{
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

// overlap returns the seconds of an iteration in which rollouts go on while actors train. This is the time of the
// rollouts, or of the training if that is longer. With staleness n, it is also at least the sum of all phases divided
// by n+1. overlap sets the phase of rollouts in list to the time that actors wait for rollouts.
func overlap(list *[4]PhaseEstimate, staleness int) (seconds float64) {
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
