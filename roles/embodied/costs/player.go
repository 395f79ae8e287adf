package costs

import (
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// A player makes rollouts in some of the job's environments, as an env worker and a rollout worker do.
type player struct {
	plan  *plan.Plan
	stage *play.Stage
	rec   *play.RolloutBuilder
	dict  tensor.Dict // the trajectory
	at    int         // the index of the next step in the present rollout
	taken uint64      // number of steps of each environment, over all rollouts

	beside int // number of players that play at the same time

	rule        reward.Rule // the rule of reward workers; nil if there are none
	transitions tensor.Dict
	batch       reward.Batch
	scores      []float32
}

// newPlayer returns a player with its own policy, in the first environments of the job. rows is the number of
// environments.
func newPlayer(p *plan.Plan, rows int) (*player, error) {
	pol, err := p.NewPolicy(tensor.Heap)
	if err != nil {
		return nil, err
	}
	return newPlayerOf(p, pol, rows)
}

func newPlayerOf(p *plan.Plan, pol policy.Policy, rows int) (*player, error) {
	stage, err := play.NewStage(p.Registries.Envs, p.Config.Env.Train, env.Train, 0, rows, p.Chunks)
	if err != nil {
		return nil, err
	}
	if p.Labelled {
		stage.Label()
	}
	x := &player{plan: p, stage: stage}
	x.rec = play.NewRolloutBuilder(pol, p.Config.Actor.Seed, 0, rows, []int{0, rows}, p.BootstrapAll)
	x.rec.Idles = !p.AutoReset
	if p.Labelled {
		x.rec.Mixture = &play.Mixture{Schedule: p.Config.Algorithm.OffPolicy.Dagger}
	}
	layout := p.TrajectoryLayout(rows)
	x.dict = layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	if p.Rewards == 0 {
		return x, nil
	}
	layout = p.TransitionLayout(plan.Route{Hi: rows})
	x.transitions = layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	x.batch, x.scores = plan.Transitions(x.transitions), make([]float32, rows)
	x.rule, err = p.NewRule(rows)
	return x, err
}

// calls are the measured times of environment steps, inferences with recording, and rewards.
type calls struct{ step, infer, score probe.CallSamples }

// stepTimes has the times that the environments, inference with recording, and rewards took in one step.
type stepTimes struct{ step, infer, score time.Duration }

// step takes one step in all environments, and returns its times.
func (x *player) step() (spent stepTimes, err error) {
	p, t := x.plan, x.at
	if t == 0 {
		x.rec.Begin([]tensor.Dict{x.dict}, x.taken)
	}
	fresh := t%p.Steps == 0
	if fresh {
		if err := x.stage.Begin(); err != nil {
			return spent, err
		}
	}
	start := time.Now()
	act, err := x.rec.Act(t, x.stage.Now.Obs, fresh)
	if err != nil {
		return spent, err
	}
	act.Feed(x.rec.Space, x.stage.Action.Must(algo.FieldAction))
	acted := time.Now()
	if err := x.stage.Step(); err != nil {
		return spent, err
	}
	done := time.Now()
	if err := x.rec.Observe(t, x.stage.Now); err != nil {
		return spent, err
	}
	spent.infer, spent.step = acted.Sub(start)+time.Since(done), done.Sub(acted)
	if x.rule != nil {
		x.rec.Transition(x.transitions, t, x.stage.Now)
		start := time.Now()
		if err := x.rule(x.scores, &x.batch); err != nil {
			return spent, err
		}
		spent.score = time.Since(start)
		x.rec.SetReward(t, x.scores)
	}
	if (t+1)%p.Steps == 0 {
		if err := x.rec.Finish(t, x.stage.Now.Obs, !p.AutoReset); err != nil {
			return spent, err
		}
	}
	x.taken++
	x.at = (t + 1) % (p.Epochs * p.Steps)
	return spent, nil
}

// rollout plays to the end of the present rollout.
func (x *player) rollout() error {
	for {
		if _, err := x.step(); err != nil || x.at == 0 {
			return err
		}
	}
}

// close ends the environments.
func (x *player) close() error { return x.stage.Vec.Close() }
