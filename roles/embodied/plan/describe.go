package plan

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
)

// Describe returns a few lines that describe one iteration.
func (p *Plan) Describe() []string {
	c, actors, rollouts, envs := p.Config, p.Actors, p.rollouts, p.simulators
	split := func(name string, n, stages, steps int) string {
		staged := ""
		if stages > 1 {
			staged = fmt.Sprintf(" in %d stages of %d", stages, n/envs/stages)
		}
		return fmt.Sprintf("%s: %d environments, %d on each of %d env workers%s, %d at a time for each of %d rollout "+
			"workers; %d steps each", name, n, n/envs, envs, staged, n/stages/rollouts, rollouts, steps)
	}
	var lines []string
	batch := c.Actor.GlobalBatchSize
	if p.Offline && c.Trains() {
		lines = append(lines, fmt.Sprintf("update: %d optimiser steps per iteration, on %d demonstrated transitions "+
			"(%d on each actor, %d at a time)", c.Algorithm.UpdateEpoch, batch, batch/actors, c.Actor.MicroBatchSize))
	} else if c.Trains() {
		t := &c.Env.Train
		samples, steps := c.Samples()
		lines = append(lines, split("rollout", t.TotalNumEnvs, c.Rollout.PipelineStageNum,
			t.MaxStepsPerRolloutEpoch*t.RolloutEpoch),
			fmt.Sprintf("samples: %d per iteration (%d steps × %d environments), %d for each of %d actors",
				samples, steps, t.TotalNumEnvs, samples/actors, actors))
		if p.OffPolicy {
			b := &c.Algorithm.OffPolicy.ReplayBuffer
			held := config.Product(samples, b.SampleWindowSize)
			lines = append(lines,
				fmt.Sprintf("replay buffer: the samples of %d iterations = %d, %d on each actor", b.SampleWindowSize,
					held, held/actors),
				fmt.Sprintf("update: %d optimiser steps per iteration from iteration %d on, on %d samples (%d on "+
					"each actor, %d at a time)",
					c.Algorithm.UpdateEpoch, max(b.MinBufferSize, 1), batch, batch/actors, c.Actor.MicroBatchSize))
			if n := c.Algorithm.OffPolicy.Demos.SampleWindowSize; n > 0 && p.Spec.Intervene {
				room := config.Product(samples, n)
				lines = append(lines, fmt.Sprintf("demonstrations: half of each batch; room for %d transitions of "+
					"people, %d on each actor", room, room/actors))
			}
			if h := b.Hindsight; h.GoalSelectionStrategy != "" {
				lines = append(lines, fmt.Sprintf("hindsight: %d of %d samples have a goal that their episode "+
					"achieved (%s)", h.NSampledGoal, h.NSampledGoal+1, h.GoalSelectionStrategy))
			}
		} else {
			minibatches := samples / batch
			lines = append(lines,
				fmt.Sprintf("update: %d epochs × %d minibatches of %d samples (%d on each actor, %d at a time) = %d "+
					"optimiser steps per iteration",
					c.Algorithm.UpdateEpoch, minibatches, batch, batch/actors, c.Actor.MicroBatchSize,
					c.Algorithm.UpdateEpoch*minibatches))
		}
	}
	lines = append(lines, p.describeNetworks()...)
	if lr, criticLR, ok := p.rates(); ok {
		lines = append(lines, fmt.Sprintf("learning rates: %g, critics %g", lr, criticLR))
	}
	if c.Evaluates() {
		e := &c.Env.Eval
		steps := e.MaxStepsPerRolloutEpoch
		if steps == 0 { // the limit is the task's own limit, or the length of a rollout
			steps = max(p.EvalSpec.MaxSteps, p.EvalEnv.MaxEpisodeSteps)
		}
		line := split("evaluation", e.TotalNumEnvs, 1, steps) + " at most"
		if e.RolloutEpoch > 1 {
			line += fmt.Sprintf(", %d times", e.RolloutEpoch)
		}
		if repeated := p.repeatedStates(); repeated != "" {
			line += ": " + repeated
		}
		lines = append(lines, line)
	}
	return append(lines, p.describePictures()...)
}

// describeNetworks returns lines about the networks of algorithms that learn from transitions, where they differ from
// the usual ones.
func (p *Plan) describeNetworks() (lines []string) {
	c := p.Config
	if !c.Trains() || !p.OffPolicy && !p.Offline {
		return nil
	}
	if p.encodes {
		line := "encoder: the loss of the critics trains it"
		switch {
		case p.Labelled || !c.Algorithm.LooksAhead():
			line = "encoder: the loss of the actor trains it"
		case c.Actor.Model.QHeadType == policy.QHeadCrossQ:
		case c.Algorithm.OffPolicy.TargetUpdateType == algo.TargetAll:
			line += "; targets have a copy that follows it"
		default:
			line += "; targets read it, too"
		}
		lines = append(lines, line)
	}
	if (c.Actor.Model.LayerNorm || p.frozenBytes > 0) && !p.Labelled && c.Algorithm.LooksAhead() {
		lines = append(lines, "critics: hidden layers with LayerNorm")
	}
	switch {
	case p.kept != nil:
		lines = append(lines, "images: ResNet-10, which stays frozen, computes each frame once; rollouts and replay "+
			"buffers keep its feature maps")
	case p.frozenBytes > 0:
		lines = append(lines, "images: rollouts and replay buffers keep pixels, because enable_drq shifts them; "+
			"ResNet-10, which stays frozen, computes each batch anew")
	}
	if c.Actor.EnableDrQ {
		lines = append(lines, "images: each batch shifts them by up to 4 pixels")
	}
	return lines
}

// rates returns the learning rates of the policy and of the critics. ok is false if no critic learns, or if critics
// have no rate of their own.
func (p *Plan) rates() (lr, criticLR float32, ok bool) {
	c := p.Config
	lr = c.Actor.Optim.LR
	switch {
	case !c.Trains() || p.Labelled || !c.Algorithm.LooksAhead():
		return 0, 0, false
	case (p.OffPolicy || p.Offline) && p.Spec.Action.Kind == env.Box:
		return lr, c.Actor.CriticOptim.CriticLR(), true
	}
	criticLR = c.Actor.Optim.CriticLR()
	return lr, criticLR, criticLR != lr && c.Actor.Model.AddValueHead
}

// repeatedStates returns the numbers of episodes and of initial states of an evaluation. It returns "" if each episode
// has an initial state of its own.
func (p *Plan) repeatedStates() string {
	e := &p.Config.Env.Eval
	episodes, states := e.TotalNumEnvs*e.RolloutEpoch, e.InitialStates(e.TotalNumEnvs, e.RolloutEpoch)
	if !p.Config.Evaluates() || states == episodes {
		return ""
	}
	return fmt.Sprintf("%d episodes from %d initial states", episodes, states)
}
