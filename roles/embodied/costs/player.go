package costs

import (
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// A player makes rollouts in some of the job's environments, as an env worker and a rollout worker do.
type player struct {
	plan  *plan.Plan
	stage *play.Stage
	rec   *play.RolloutBuilder
	dict  tensor.Dict // the trajectory
	at    int         // the next step of the present rollout
	taken uint64      // steps of each environment in all rollouts
}

// newPlayer makes the first rows environments of the job, for a policy of its own.
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
	return x, nil
}

// step takes one step, and returns the time of the environments and that of inference and recording.
func (x *player) step() (stepped, inferred time.Duration, err error) {
	p, t := x.plan, x.at
	if t == 0 {
		x.rec.Begin([]tensor.Dict{x.dict}, x.taken)
	}
	fresh := t%p.Steps == 0
	if fresh {
		if err := x.stage.Begin(); err != nil {
			return 0, 0, err
		}
	}
	start := time.Now()
	act, err := x.rec.Act(t, x.stage.Now.Obs, fresh)
	if err != nil {
		return 0, 0, err
	}
	act.Feed(x.rec.Space, x.stage.Action.Must(algo.FieldAction))
	acted := time.Now()
	if err := x.stage.Step(); err != nil {
		return 0, 0, err
	}
	done := time.Now()
	if err := x.rec.Observe(t, x.stage.Now); err != nil {
		return 0, 0, err
	}
	inferred, stepped = acted.Sub(start)+time.Since(done), done.Sub(acted)
	if (t+1)%p.Steps == 0 {
		if err := x.rec.Finish(t, x.stage.Now.Obs, !p.AutoReset); err != nil {
			return 0, 0, err
		}
	}
	x.taken++
	x.at = (t + 1) % (p.Epochs * p.Steps)
	return stepped, inferred, nil
}

// rollout makes the rest of a rollout.
func (x *player) rollout() error {
	for {
		if _, _, err := x.step(); err != nil || x.at == 0 {
			return err
		}
	}
}

// close ends the environments.
func (x *player) close() error { return x.stage.Vec.Close() }
