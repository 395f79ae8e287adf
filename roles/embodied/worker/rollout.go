package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A RolloutWorker chooses actions for the environments of its routes, and records their trajectories for the actors.
type RolloutWorker struct {
	base
	policy policy.Policy // the policy's parameters are a view of the weights
	routes []*rolloutRoute
	evals  []*evalRoute

	running []*asyncRoute  // the routes of an asynchronous run
	obsIn   *spmd.Receiver // receives the observations of all running routes

	infer      spmd.Span
	playing    spmd.Span // steps and actions in turn
	training   *collectives.WeightsReader
	evaluation *collectives.WeightsReader // nil if evaluations use the rollouts' weights
	state      []byte                     // the rollouts' weights; evaluations may use other weights
	version    int64                      // version of state; -1 if there is none yet
}

// A rolloutRoute is a route, with the rollout worker's senders and receiver.
type rolloutRoute struct {
	plan.Route
	rec     *play.RolloutBuilder
	obs     *spmd.Receiver
	act     *spmd.Sender
	out     []*spmd.Sender // one for each shard
	layouts []*tensor.Layout
	items   []*spmd.Item // the trajectories that are being recorded
	dicts   []tensor.Dict
	actions *tensor.Layout
	steps   views[env.Step]
	stage   *play.Stage   // the environments, if this worker steps them: see plan.Plan.RunsInline
	parts   playParts     // the parts of the time of play
	count   algo.Progress // reports steps
	scorer  *scorer       // nil if the environments' own rewards are used
}

// NewRolloutWorker returns the worker of member m, for loop.Launch. InitWorker completes the worker.
func NewRolloutWorker(_ context.Context, c *loop.Cluster, m *spmd.Member) (*RolloutWorker, error) {
	b, shared, err := newBase(c, m)
	if err != nil {
		return nil, err
	}
	p := b.plan
	pol := shared.policies["rollout"][m.Index()]
	r := &RolloutWorker{base: b, policy: pol, state: pol.Params().State(), version: -1,
		infer: m.Span("infer"), playing: m.Span(playWork), training: shared.training.Reader(m)}
	if shared.evaluation != nil {
		r.evaluation = shared.evaluation.Reader(m)
	}
	for _, l := range p.Train.Routes {
		if l.Rollout == m.Index() {
			route := newRolloutRoute(l, p, pol, loop.ProgressOf(c, m))
			route.parts = playParts{simulate: m.Part("simulate", playWork, "env"), infer: m.Part("infer", playWork, "")}
			r.routes = append(r.routes, route)
		}
	}
	if p.Async() {
		for _, l := range r.routes {
			weights := tensor.New(tensor.U8, len(r.state)).Bytes()
			r.running = append(r.running, &asyncRoute{rolloutRoute: l, weights: weights, version: -1,
				backlog: newBacklog(p, l.layouts)})
		}
	}
	for _, l := range p.Eval.Routes {
		if l.Rollout == m.Index() {
			player := play.NewEvalPlayer(pol, l.Hi-l.Lo, p.Config.Env.Eval.Seed, l.Lo)
			r.evals = append(r.evals, &evalRoute{Route: l, player: player, actions: p.ActionLayout(l),
				count: loop.ProgressOf(c, m)})
		}
	}
	return r, nil
}

// playWork is the name of the work of a rollout worker that steps environments itself.
const playWork = "play"

// playParts divide the time of play into three parts: the simulator, the policy, and the rest, which keeps records.
type playParts struct {
	simulate, infer     spmd.Span
	simulated, inferred int64 // nanoseconds recorded so far
}

// divide records the time since the last call. Call it within a span of play.
func (p *playParts) divide(s *play.Stage, rec *play.RolloutBuilder) {
	simulated, inferred := s.Simulated(), rec.Inferred
	p.simulate.Divide(simulated - p.simulated)
	p.infer.Divide(inferred - p.inferred)
	p.simulated, p.inferred = simulated, inferred
}

// InitWorker completes the worker before other calls. envs are the env workers on the same rank. The rollout worker
// itself steps the environments of the routes for which plan.Plan.RunsInline is true.
func (r *RolloutWorker) InitWorker(envs []*EnvWorker) {
	for _, l := range r.routes {
		if l.stage = inlineEnvs(envs, l.Route, env.Train); l.stage != nil {
			l.parts.simulated = l.stage.Simulated() // after a move there is an earlier time
		}
	}
	for _, l := range r.evals {
		l.stage = inlineEnvs(envs, l.Route, env.Eval)
	}
}

func newRolloutRoute(l plan.Route, p *plan.Plan, pol policy.Policy, count algo.Progress) *rolloutRoute {
	cuts := []int{0}
	rl := &rolloutRoute{Route: l, count: count, actions: p.ActionLayout(l)}
	for _, s := range l.Shards {
		cuts = append(cuts, s.Hi-l.Lo)
		rl.layouts = append(rl.layouts, p.TrajectoryLayout(s.Hi-s.Lo))
	}
	rl.items, rl.dicts = make([]*spmd.Item, len(l.Shards)), make([]tensor.Dict, len(l.Shards))
	rl.rec = play.NewRolloutBuilder(pol, p.Config.Actor.Seed, l.Lo, l.Hi-l.Lo, cuts, p.BootstrapAll)
	rl.rec.Idles = !p.AutoReset
	if _, unseen := p.Config.PolicySpec(p.Spec); unseen != "" {
		rl.rec.Witness(unseen)
	}
	if p.Labelled {
		rl.rec.Mixture = &play.Mixture{Schedule: p.Config.Algorithm.OffPolicy.Dagger}
	}
	if p.Rewards > 0 {
		rl.scorer = &scorer{Route: l, worker: p.RewardWorker(l), layout: p.TransitionLayout(l), asked: -1}
	}
	return rl
}

// SyncModelFromActor makes the policy use this version of the weights, or a newer version.
func (r *RolloutWorker) SyncModelFromActor(ctx context.Context, version int64) error {
	state, version, err := r.training.Adopt(ctx, version)
	if err != nil {
		return err
	}
	r.useWeights(state, version)
	return nil
}

// CopyModelFromActor does the same as SyncModelFromActor with a copy of the weights. Asynchronous runs need a copy,
// because actors publish weights while rollouts are made.
func (r *RolloutWorker) CopyModelFromActor(ctx context.Context, version int64) error {
	version, err := r.training.Copy(ctx, version, r.state, r.version)
	if err != nil {
		return err
	}
	r.useWeights(r.state, version)
	return nil
}

func (r *RolloutWorker) useWeights(state []byte, version int64) {
	r.state, r.version = state, version
	r.policy.Params().View(state)
}

// SyncModelForEvaluation makes the policy use this version of the weights, or a newer version, in the next evaluation
// only.
func (r *RolloutWorker) SyncModelForEvaluation(ctx context.Context, version int64) error {
	state, _, err := r.evaluation.Adopt(ctx, version)
	if err == nil {
		r.policy.Params().View(state)
	}
	return err
}

// Generate makes one rollout. It receives observations, sends actions, and sends trajectories to actors or inference
// workers. With reward workers, Generate exchanges transitions and rewards through scores. step is the number of steps
// that every environment has taken before.
func (r *RolloutWorker) Generate(ctx context.Context, obs, act, out *spmd.Channel, scores RewardChannels,
	step uint64) error {
	for _, l := range r.routes {
		if l.stage != nil {
			l.stage.CountSteps(l.count, r.plan.Epochs*r.plan.Steps)
		}
		if err := l.scorer.open(r.m, scores); err != nil {
			return l.located(err)
		}
		if err := l.open(ctx, r.m, obs, act, out, r.plan.NextOf, step); err != nil {
			return l.located(err)
		}
	}
	for e := range r.plan.Epochs {
		for _, l := range r.routes {
			if l.stage == nil {
				continue
			}
			r.playing.Begin()
			err := l.play(ctx, e*r.plan.Steps, r.plan.Steps)
			l.parts.divide(l.stage, l.rec)
			r.playing.End(0, 0)
			if err != nil {
				return l.located(err)
			}
		}
		for t := range r.plan.Steps + 1 {
			for _, l := range r.routes {
				if l.stage != nil {
					continue
				}
				if err := l.step(ctx, r, e, t); err != nil {
					return fmt.Errorf("environments %d-%d, step %d: %w", l.Lo, l.Hi-1, t, err)
				}
			}
		}
	}
	for _, l := range r.routes {
		if err := l.scorer.settle(ctx, l.rec); err != nil {
			return l.located(err)
		}
		if err := l.deliver(ctx, r.version); err != nil {
			return err
		}
	}
	return nil
}

// located adds the numbers of the route's environments to err. It returns nil if err is nil.
func (l *rolloutRoute) located(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("environments %d-%d: %w", l.Lo, l.Hi-1, err)
}

// deliver sends the trajectories, which were made with this version of the weights.
func (l *rolloutRoute) deliver(ctx context.Context, version int64) error {
	for i, s := range l.Shards {
		l.items[i].Lo, l.items[i].Hi, l.items[i].Version = s.Lo, s.Hi, version
		if err := l.out[i].Put(ctx, l.items[i]); err != nil {
			return fmt.Errorf("trajectories of %s: %w", s.Name(), err)
		}
	}
	return nil
}

// open takes channel items for the trajectories. The first call also opens the senders and receivers.
func (l *rolloutRoute) open(ctx context.Context, m *spmd.Member, obs, act, out *spmd.Channel,
	next func(plan.ActorShard) int, step uint64) (err error) {
	if l.obs == nil {
		if l.obs, err = obs.Receiver(m, spmd.Key{To: l.Rollout, Name: l.Name()}); err != nil {
			return err
		}
	}
	if err := l.connect(m, act, l.Name(), out, next); err != nil {
		return err
	}
	for i := range l.Shards {
		if l.items[i], err = l.out[i].Take(ctx, l.layouts[i]); err != nil {
			return err
		}
		l.dicts[i] = l.items[i].Dict
	}
	l.rec.Begin(l.dicts, step)
	return nil
}

// connect opens the senders of a route. Later calls do nothing. key is the name of the actions' queue.
func (l *rolloutRoute) connect(m *spmd.Member, act *spmd.Channel, key string, out *spmd.Channel,
	next func(plan.ActorShard) int) (err error) {
	if l.out != nil {
		return nil
	}
	if l.act, err = act.Sender(m, spmd.Key{To: l.Env, Name: key}); err != nil {
		return err
	}
	for _, s := range l.Shards {
		o, err := out.Sender(m, spmd.Key{To: next(s), Name: s.Name()})
		if err != nil {
			return err
		}
		l.out = append(l.out, o)
	}
	return nil
}

// play plays the steps [t0, t0+n) of an epoch in environments that this worker steps.
func (l *rolloutRoute) play(ctx context.Context, t0, n int) error {
	if err := l.stage.Begin(); err != nil {
		return err
	}
	var observed func(t int) error
	if l.scorer != nil {
		observed = func(t int) error { return l.scorer.ask(ctx, l.rec, t, l.stage.Now) }
	}
	return play.PlayEpoch(l.rec, l.stage, t0, n, observed)
}

// step receives the observations at time t of epoch e. It sends actions, except at the end of the epoch.
func (l *rolloutRoute) step(ctx context.Context, r *RolloutWorker, e, t int) error {
	item, err := l.obs.Get(ctx)
	if err != nil {
		return err
	}
	defer l.obs.Release(item)
	st := l.steps.viewOf(item, stepOf)
	r.infer.Begin()
	act, last, err := l.decide(ctx, r.plan, e, t, st)
	r.infer.End(0, 0)
	if err != nil || last {
		return err
	}
	return sendAction(ctx, l.act, l.actions, l.rec.Space, act)
}

// decide records the step st at time t of epoch e, and chooses actions. At the end of the epoch it chooses no actions,
// and ended is true.
func (l *rolloutRoute) decide(ctx context.Context, p *plan.Plan, e, t int, st *env.Step) (act policy.Act, ended bool,
	err error) {
	at := e*p.Steps + t // time in the trajectory
	ended = t == p.Steps
	if t > 0 {
		if err := l.rec.Observe(at-1, st); err != nil {
			return act, ended, err
		}
		if ended { // before rewards are requested, because Finish decides which episodes end here
			if err := l.rec.Finish(at-1, st.Obs, !p.AutoReset); err != nil {
				return act, ended, err
			}
		}
		if err := l.scorer.ask(ctx, l.rec, at-1, st); err != nil {
			return act, ended, err
		}
	}
	if !ended {
		act, err = l.rec.Act(at, st.Obs, t == 0)
	}
	return act, ended, err
}

// sendAction sends the actions of act over a route.
func sendAction(ctx context.Context, to *spmd.Sender, layout *tensor.Layout, space env.Space, act policy.Act) error {
	item, err := to.Take(ctx, layout)
	if err != nil {
		return err
	}
	act.Feed(space, item.Dict.Must(algo.FieldAction))
	return to.Put(ctx, item)
}

// stepOf returns d as a step. d has the layout plan.StepLayout.
func stepOf(d tensor.Dict) env.Step {
	status, _ := d.Get(algo.FieldStatus)
	info, _ := d.Get(algo.FieldInfo)
	steps, _ := d.Get(algo.FieldSteps)
	intervened, _ := d.Get(algo.FieldIntervened)
	taken, _ := d.Get(algo.FieldTaken)
	return env.Step{Obs: d.Sub(algo.Observations), FinalObs: d.Sub(algo.FinalObservations),
		Reward: d.Must(algo.FieldReward), Terminated: d.Must(algo.FieldTerminated),
		Truncated: d.Must(algo.FieldTruncated), Status: status, Info: info, Steps: steps,
		Intervened: intervened, Taken: taken}
}

// views caches a view of each received item, as a step or as transitions. Senders reuse a few items. Routes of
// different lengths can share an item, so an item has a view for each number of rows.
type views[V any] []view[V]

type view[V any] struct {
	item *spmd.Item
	rows int
	data *V
}

// viewOf returns the view of an item. The first call for an item makes the view with read.
func (vs *views[V]) viewOf(item *spmd.Item, read func(tensor.Dict) V) *V {
	rows := item.Hi - item.Lo
	for _, v := range *vs {
		if v.item == item && v.rows == rows {
			return v.data
		}
	}
	data := read(item.Dict)
	*vs = append(*vs, view[V]{item, rows, &data})
	return &data
}
