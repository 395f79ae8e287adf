// Command paced is rlinf with emulated durations: its environments and its training sleep. A channel of its own carries
// films from an env worker to an actor. The types of environments and of losses choose a fault.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/classic"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A plan describes how the environments of one name behave.
type plan struct {
	slow  int           // percent by which each step of member 1 takes longer
	stall time.Duration // extra time of one step of member 1
	at    int           // the number of that step, from 1; a rollout has four
	room  int           // room of the channel of films, in items; 0: no films
}

// pace is the time of a step of an env worker.
const pace = 40 * time.Millisecond

var plans = map[string]plan{
	"CartPole-paced": {},
	"CartPole-slow":  {slow: 20},
	"CartPole-stall": {stall: 700 * time.Millisecond, at: 23},
	"CartPole-film":  {room: 1},
	"CartPole-films": {room: frames},
}

// trainings has the durations of updates for each type of loss. Successive updates use the durations in turn.
var trainings = map[string][]time.Duration{
	"paced":  {10 * time.Millisecond},
	"bursts": {320 * time.Millisecond, 0},
	"even":   {130 * time.Millisecond},
}

func main() {
	envs, algorithms := all.Registry(), algo.Builtin()
	for name, p := range plans {
		envs.Add(name, func(cfg env.Config, n int) (env.Vec, error) {
			vec, err := classic.NewCartPole(cfg, n)
			return &paced{Vec: vec, plan: p, member: int(making.Load())}, err
		})
	}
	for name, times := range trainings {
		algorithms.Add("gae", name, func(s algo.Setup) (algo.Algorithm, error) {
			s.Config.LossType = "actor_critic"
			ppo, err := algo.NewPPO(s)
			return &training{Algorithm: ppo, times: times}, err
		})
	}
	os.Exit(roles.Run(os.Args, roles.Registries{Envs: envs, Policies: policies.Registry(), Algorithms: algorithms,
		Rewards: reward.Builtin()}, train))
}

// making is the member of the component env that is making its environments. The member holds lock meanwhile, because
// goroutine ranks make their environments at the same time.
var (
	lock   sync.Mutex
	making atomic.Int64
)

func newEnvWorker(ctx context.Context, c *roles.Cluster, m *spmd.Member) (*roles.EnvWorker, error) {
	lock.Lock()
	defer lock.Unlock()
	making.Store(int64(m.Index()))
	return roles.NewEnvWorker(ctx, c, m)
}

// A pacer sleeps. After a sleep that was a little too long, the next sleep is shorter, so a busy machine hardly changes
// the sum. If a sleep was much too long, the machine stalled, and the program says so.
type pacer struct{ late time.Duration }

// until sleeps until the time d after start.
func (p *pacer) until(start time.Time, d time.Duration) {
	time.Sleep(d - time.Since(start) - p.late)
	late := time.Since(start) - d
	if late > pace {
		fmt.Fprintln(os.Stderr, "paced: the machine stalled")
	}
	p.late = min(max(p.late+late, 0), pace/4)
}

// paced are environments whose steps take time.
type paced struct {
	env.Vec
	plan   plan
	member int
	steps  int
	pacer  pacer
}

// Step takes a step, and sleeps until the emulated time of a step is over.
func (p *paced) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	start, d := time.Now(), pace
	p.steps++
	if p.member == 1 {
		d += pace * time.Duration(p.plan.slow) / 100
		if p.steps == p.plan.at {
			d += p.plan.stall
		}
	}
	err := p.Vec.Step(action, seeds, out)
	p.pacer.until(start, d)
	return err
}

// A training is an algorithm whose updates take time.
type training struct {
	algo.Algorithm
	times   []time.Duration // in turns
	updates int
	pacer   pacer
}

// Update updates the policy, and sleeps until the emulated time of an update is over.
func (t *training) Update(rollout tensor.Dict) (algo.Metrics, error) {
	start, d := time.Now(), t.times[t.updates%len(t.times)]
	t.updates++
	m, err := t.Algorithm.Update(rollout)
	t.pacer.until(start, d)
	return m, err
}

// train runs on every rank.
func train(ctx context.Context, c *roles.Cluster) error {
	place := roles.NewHybridComponentPlacement(c)
	actor, err := roles.Launch(ctx, c, place.Strategy("actor"), roles.NewActorWorker)
	if err != nil {
		return err
	}
	rollout, err := roles.Launch(ctx, c, place.Strategy("rollout"), roles.NewRolloutWorker)
	if err != nil {
		return err
	}
	envs, err := roles.Launch(ctx, c, place.Strategy("env"), newEnvWorker)
	if err != nil {
		return err
	}
	var films *spmd.Channel
	if room := plans[c.Config().Env.Train.EnvType].room; room > 0 {
		films, err = spmd.NewChannel(c.World(), spmd.ChannelSpec{Name: "films", From: envs.Spec(), To: actor.Spec(),
			MaxSize: room, ItemBytes: frame.Size()})
		if err != nil {
			return err
		}
	}
	runner, err := roles.NewEmbodiedRunner(c, roles.Groups{Actor: actor, Rollout: rollout, Env: envs})
	if err != nil {
		return err
	}
	if err := runner.InitWorkers(ctx); err != nil {
		return err
	}
	if films == nil {
		return runner.Run(ctx)
	}
	for {
		more, err := runner.Next(ctx)
		if err != nil || !more {
			return err
		}
		for _, phase := range []func(context.Context) error{runner.UpdateRolloutWeights, runner.GenerateRollouts,
			runner.ComputeAdvantagesAndReturns, runner.RunTraining} {
			if err := phase(ctx); err != nil {
				return err
			}
		}
		sent := spmd.Call(envs, ctx, "film", func(ctx context.Context, w *roles.EnvWorker) (any, error) {
			return nil, film(ctx, films, w.Member())
		})
		_, err = spmd.Call(actor, ctx, "watch", func(ctx context.Context, a *roles.ActorWorker) (any, error) {
			return nil, watch(ctx, films, a.Member())
		}).Wait(ctx)
		if err != nil {
			return err
		}
		if _, err := sent.Wait(ctx); err != nil {
			return err
		}
	}
}

// All frames of a film arrive at once. Watching a film takes as long as making one. With room for all frames, making
// and watching overlap.
const (
	films  = 2 // in an iteration
	frames = 8 // in a film

	filming  = 60 * time.Millisecond // time of a film before its first frame
	framing  = 2 * time.Millisecond  // time to make a frame
	watching = 10 * time.Millisecond // time to watch a frame
)

var frame = tensor.NewLayout(tensor.Field{Name: "frame", DType: tensor.F32, Shape: []int{1}})

// film sends films from an env worker to the actor.
func film(ctx context.Context, ch *spmd.Channel, m *spmd.Member) error {
	to, err := ch.Sender(m, spmd.Key{To: 0})
	if err != nil {
		return err
	}
	var p pacer
	for range films {
		p.work(m, "film", filming)
		for range frames {
			p.work(m, "film", framing)
			item, err := to.Take(ctx, frame)
			if err != nil {
				return err
			}
			if err := to.Put(ctx, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch receives the films.
func watch(ctx context.Context, ch *spmd.Channel, m *spmd.Member) error {
	from, err := ch.Receiver(m, spmd.Key{To: 0})
	if err != nil {
		return err
	}
	var p pacer
	for range films * frames {
		item, err := from.Get(ctx)
		if err != nil {
			return err
		}
		p.work(m, "watch", watching)
		from.Release(item)
	}
	return nil
}

// work sleeps, and records the time as work of a member.
func (p *pacer) work(m *spmd.Member, name string, d time.Duration) {
	defer m.Span(name).Begin().End(0, 0)
	p.until(time.Now(), d)
}
