package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// An envStage has the environments of one stage of an env worker. These environments step together.
type envStage struct {
	*play.Stage
	routes []*envRoute
	inline bool // the rollout worker steps the environments: see plan.Plan.RunsInline

	simulate spmd.Span
	count    algo.Progress // reports steps and episodes
}

// An envRoute is a route, with the env worker's sender and receiver.
type envRoute struct {
	plan.Route
	obs    *spmd.Sender
	act    *spmd.Receiver
	layout *tensor.Layout
	row    int // the first row of the route in the stage
}

// advance receives actions over every route, and takes a step.
func (s *envStage) advance(ctx context.Context) error {
	if _, err := s.receive(ctx); err != nil {
		return err
	}
	return s.step()
}

// receive receives actions over every route. ok is false if a rollout worker answers that the evaluation has failed.
func (s *envStage) receive(ctx context.Context) (ok bool, err error) {
	ok = true
	for _, l := range s.routes {
		item, err := l.act.Get(ctx)
		if err != nil {
			return false, fmt.Errorf("actions for environments %d-%d: %w", l.Lo, l.Hi-1, err)
		}
		if item.Version == failedEvaluation {
			ok = false
		} else {
			s.accept(l, item.Dict)
		}
		l.act.Release(item)
	}
	return ok, nil
}

// step takes a step, and records its time.
func (s *envStage) step() error {
	s.simulate.Begin()
	err := s.Step()
	s.simulate.End(0, 0)
	return err
}

// accept copies the actions d to the rows of route l.
func (s *envStage) accept(l *envRoute, d tensor.Dict) {
	a := d.Must(algo.FieldAction).Bytes()
	copy(s.Action.Must(algo.FieldAction).Bytes()[l.row*len(a)/(l.Hi-l.Lo):], a)
}

// send sends the result of the last step over every route.
func (s *envStage) send(ctx context.Context, version int64) error {
	for _, l := range s.routes {
		item, err := l.obs.Take(ctx, l.layout)
		if err != nil {
			return fmt.Errorf("observations of environments %d-%d: %w", l.Lo, l.Hi-1, err)
		}
		item.Lo, item.Hi, item.Version = l.Lo, l.Hi, version
		l.fill(item.Dict, s.Now)
		if err := l.obs.Put(ctx, item); err != nil {
			return fmt.Errorf("observations of environments %d-%d: %w", l.Lo, l.Hi-1, err)
		}
	}
	return nil
}

// fill copies the rows of route l from a step to a Dict with the layout plan.StepLayout.
func (l *envRoute) fill(to tensor.Dict, from *env.Step) {
	for i := range to.Len() {
		name, dst := to.Entry(i)
		copy(dst.Bytes(), stepField(from, name).Bytes()[l.row*len(dst.Bytes())/(l.Hi-l.Lo):])
	}
}

// stepField returns a tensor of a step. name is the tensor's name in plan.StepLayout.
func stepField(s *env.Step, name string) tensor.Tensor {
	if obs, ok := strings.CutPrefix(name, algo.Observations+"."); ok {
		return s.Obs.Must(obs)
	}
	if obs, ok := strings.CutPrefix(name, algo.FinalObservations+"."); ok {
		return s.FinalObs.Must(obs)
	}
	switch name {
	case algo.FieldReward:
		return s.Reward
	case algo.FieldTerminated:
		return s.Terminated
	case algo.FieldTruncated:
		return s.Truncated
	case algo.FieldStatus:
		return s.Status
	case algo.FieldIntervened:
		return s.Intervened
	case algo.FieldTaken:
		return s.Taken
	case algo.FieldInfo:
		return s.Info
	case algo.FieldSteps:
		return s.Steps
	}
	panic("worker: a step has no " + name)
}
