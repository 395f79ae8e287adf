package roles

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A RolloutWorker chooses actions for the environments of its lanes, and owns their trajectories
// until the actors have them.
type RolloutWorker struct {
	m      *spmd.Member
	job    *job
	policy policy.Policy // its parameters are a view of the weights
	trace  *tracer
	lanes  []*rolloutLane
	evals  []*evalLane

	running []*runningLane // the lanes of an asynchronous run
	obsIn   *spmd.Receiver // what their environments show

	training, evaluation *collectives.WeightsReader // evaluation: nil where evaluations use the rollouts' weights
	// the rollouts' weights, which the policy goes back to after an evaluation with newer ones
	state   []byte
	version int64 // theirs; -1: none yet
}

// A rolloutLane is a lane as its rollout worker sees it.
type rolloutLane struct {
	lane
	rec     *recorder
	obs     *spmd.Receiver
	act     *spmd.Sender
	out     []*spmd.Sender // a shard each
	layouts []*tensor.Layout
	items   []*spmd.Item // the trajectories being recorded
	dicts   []tensor.Dict
	actions *tensor.Layout
	steps   stepViews
	shard   *shard  // the environments themselves, where this worker steps them: see job.runsInline
	scorer  *scorer // nil: rewards are the environments' own
}

// NewRolloutWorker returns the worker of member m. It gives up the memory of its policy's parameters
// with the first weights. envs are the env workers of the same rank: it steps those of their
// environments itself that job.runsInline names.
func NewRolloutWorker(m *spmd.Member, j *job, ws *weights, envs []*EnvWorker) *RolloutWorker {
	pol := ws.rollouts[m.Index()]
	r := &RolloutWorker{m: m, job: j, policy: pol, state: pol.Params().State(), version: -1, trace: newTracer(j, m),
		training: ws.training.Reader(m.Index())}
	if ws.evaluation != nil {
		r.evaluation = ws.evaluation.Reader(m.Index())
	}
	for _, l := range j.train.lanes {
		if l.rollout == m.Index() {
			r.lanes = append(r.lanes, newRolloutLane(l, j, pol, inlineEnvs(envs, l, env.Train)))
		}
	}
	if j.async() {
		for _, l := range r.lanes {
			r.running = append(r.running, newRunningLane(l, pol))
		}
	}
	for _, l := range j.eval.lanes {
		if l.rollout == m.Index() {
			r.evals = append(r.evals, &evalLane{lane: l, performer: newPerformer(pol, l.hi-l.lo),
				actions: j.actionLayout(l), shard: inlineEnvs(envs, l, env.Eval)})
		}
	}
	return r
}

func newRolloutLane(l lane, j *job, pol policy.Policy, inline *shard) *rolloutLane {
	cuts := []int{0}
	rl := &rolloutLane{lane: l, actions: j.actionLayout(l), shard: inline}
	for _, s := range l.segments {
		cuts = append(cuts, s.hi-l.lo)
		rl.layouts = append(rl.layouts, j.trajectoryLayout(s.hi-s.lo))
	}
	rl.items, rl.dicts = make([]*spmd.Item, len(l.segments)), make([]tensor.Dict, len(l.segments))
	rl.rec = newRecorder(pol, j.cfg.Actor.Seed, l.lo, l.hi-l.lo, cuts, j.bootstrapAll)
	rl.rec.idles = !j.autoReset
	if j.labelled {
		rl.rec.mixture = &mixture{schedule: j.cfg.Algorithm.OffPolicy.Dagger}
	}
	if j.rewards > 0 {
		rl.scorer = newScorer(l, j)
	}
	return rl
}

// SyncModelFromActor lets the policy compute with that version of the weights, or a newer one, from
// now on.
func (r *RolloutWorker) SyncModelFromActor(ctx context.Context, version int64) error {
	state, version, err := r.training.Adopt(ctx, version)
	if err != nil {
		return err
	}
	r.useWeights(state, version)
	return nil
}

// CopyModelFromActor does so with a copy, in an asynchronous run: actors publish while rollouts go on.
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

// SyncModelForEvaluation lets the policy compute with that version of the weights, or a newer one,
// for the next evaluation alone.
func (r *RolloutWorker) SyncModelForEvaluation(ctx context.Context, version int64) error {
	state, _, err := r.evaluation.Adopt(ctx, version)
	if err == nil {
		r.policy.Params().View(state)
	}
	return err
}

// Generate chooses actions for what comes through obs, sends them through act, and the trajectories
// of the iteration through out. Where there are reward workers, it asks them through scores for the
// rewards. step is the number of steps that every environment has taken before.
func (r *RolloutWorker) Generate(ctx context.Context, obs, act, out *spmd.Channel, scores RewardChannels,
	step uint64) error {
	for _, l := range r.lanes {
		if err := l.scorer.open(r.m, scores); err != nil {
			return fmt.Errorf("environments %d-%d: %w", l.lo, l.hi-1, err)
		}
		if err := l.open(ctx, r.m, obs, act, out, r.job.nextOf, step); err != nil {
			return fmt.Errorf("environments %d-%d: %w", l.lo, l.hi-1, err)
		}
	}
	for e := range r.job.epochs {
		for _, l := range r.lanes {
			if l.shard != nil {
				if err := l.play(ctx, e*r.job.steps, r.job.steps); err != nil {
					return fmt.Errorf("environments %d-%d: %w", l.lo, l.hi-1, err)
				}
			}
		}
		for t := range r.job.steps + 1 {
			for _, l := range r.lanes {
				if l.shard != nil {
					continue
				}
				if err := l.step(ctx, r, e, t); err != nil {
					return fmt.Errorf("environments %d-%d, step %d: %w", l.lo, l.hi-1, t, err)
				}
			}
		}
	}
	for _, l := range r.lanes {
		if err := l.scorer.settle(ctx, l.rec); err != nil {
			return fmt.Errorf("environments %d-%d: %w", l.lo, l.hi-1, err)
		}
		if err := l.deliver(ctx, r.version); err != nil {
			return err
		}
	}
	return nil
}

// deliver hands the trajectories on, which were made with that version of the weights.
func (l *rolloutLane) deliver(ctx context.Context, version int64) error {
	for i, s := range l.segments {
		l.items[i].Lo, l.items[i].Hi, l.items[i].Version = s.lo, s.hi, version
		if err := l.out[i].Put(ctx, l.items[i]); err != nil {
			return fmt.Errorf("trajectories of environments %d-%d: %w", s.lo, s.hi-1, err)
		}
	}
	return nil
}

// open takes memory for the trajectories, and once the ends of the channels.
func (l *rolloutLane) open(ctx context.Context, m *spmd.Member, obs, act, out *spmd.Channel, next func(segment) int,
	step uint64) (err error) {
	if l.obs == nil {
		if l.obs, err = obs.Receiver(m, spmd.Key{To: l.rollout, Name: l.name()}); err != nil {
			return err
		}
	}
	if err := l.connect(m, act, l.name(), out, next); err != nil {
		return err
	}
	for i := range l.segments {
		if l.items[i], err = l.out[i].Take(ctx, l.layouts[i]); err != nil {
			return err
		}
		l.dicts[i] = l.items[i].Dict
	}
	l.rec.begin(l.dicts, step)
	return nil
}

// connect makes the ends of the channels that the lane sends through, once: actions under key.
func (l *rolloutLane) connect(m *spmd.Member, act *spmd.Channel, key string, out *spmd.Channel,
	next func(segment) int) (err error) {
	if l.out != nil {
		return nil
	}
	if l.act, err = act.Sender(m, spmd.Key{To: l.env, Name: key}); err != nil {
		return err
	}
	for _, s := range l.segments {
		o, err := out.Sender(m, spmd.Key{To: next(s), Name: s.name()})
		if err != nil {
			return err
		}
		l.out = append(l.out, o)
	}
	return nil
}

// play plays n steps of an epoch, from time first on, in the lane's own environments.
func (l *rolloutLane) play(ctx context.Context, first, n int) error {
	if err := l.shard.begin(); err != nil {
		return err
	}
	var observed func(t int) error
	if l.scorer != nil {
		observed = func(t int) error { return l.scorer.ask(ctx, l.rec, t, l.shard.now) }
	}
	return playEpoch(l.rec, l.shard, first, n, observed)
}

// step receives what the environments show at time t of epoch e, and answers with actions unless
// the epoch ends there.
func (l *rolloutLane) step(ctx context.Context, r *RolloutWorker, e, t int) error {
	item, err := l.obs.Get(ctx)
	if err != nil {
		return err
	}
	defer l.obs.Release(item)
	start := r.trace.start()
	j := r.job
	at := e*j.steps + t // in the trajectory
	st := l.steps.of(item)
	if t > 0 {
		if err := l.rec.observe(at-1, st); err != nil {
			return err
		}
		if err := l.scorer.ask(ctx, l.rec, at-1, st); err != nil {
			return err
		}
	}
	if t == j.steps {
		return l.rec.finish(at-1, st.Obs, !j.autoReset)
	}
	act, err := l.rec.act(at, st.Obs, t == 0)
	if err != nil {
		return err
	}
	r.trace.done("infer", start)
	return sendAction(ctx, l.act, l.actions, l.rec.space, act)
}

// sendAction sends the actions of act to the environments of a lane.
func sendAction(ctx context.Context, to *spmd.Sender, layout *tensor.Layout, space env.Space, act policy.Act) error {
	item, err := to.Take(ctx, layout)
	if err != nil {
		return err
	}
	act.Feed(space, item.Dict.Must("action"))
	return to.Put(ctx, item)
}

// An evalLane is a lane of evaluation: the policy's mode, nothing recorded.
type evalLane struct {
	lane
	performer *performer
	obs       *spmd.Receiver
	act       *spmd.Sender
	actions   *tensor.Layout
	steps     stepViews
	shard     *shard
	over      bool
}

// Evaluate chooses the policy's most likely actions for what comes through obs, until every lane's
// environments are done. Then the policy is back at the rollouts' weights.
func (r *RolloutWorker) Evaluate(ctx context.Context, obs, act *spmd.Channel) error {
	defer r.policy.Params().View(r.state)
	left := len(r.evals)
	for _, l := range r.evals {
		if l.over = l.shard != nil; l.over {
			left--
			if err := l.performer.playEpisodes(l.shard); err != nil {
				return fmt.Errorf("evaluate environments %d-%d: %w", l.lo, l.hi-1, err)
			}
			continue
		}
		l.performer.begin()
		if l.obs == nil {
			var err error
			if l.obs, err = obs.Receiver(r.m, spmd.Key{To: l.rollout, Name: l.name()}); err != nil {
				return err
			}
			if l.act, err = act.Sender(r.m, spmd.Key{To: l.env, Name: l.name()}); err != nil {
				return err
			}
		}
	}
	for left > 0 {
		for _, l := range r.evals {
			if l.over {
				continue
			}
			if err := l.step(ctx); err != nil {
				return fmt.Errorf("evaluate environments %d-%d: %w", l.lo, l.hi-1, err)
			}
			if l.over {
				left--
			}
		}
	}
	return nil
}

func (l *evalLane) step(ctx context.Context) error {
	item, err := l.obs.Get(ctx)
	if err != nil {
		return err
	}
	defer l.obs.Release(item)
	if l.over = item.Version == lastOfEvaluation; l.over {
		return nil
	}
	act, err := l.performer.act(l.steps.of(item).Obs)
	if err != nil {
		return err
	}
	_, space := l.performer.policy.Spaces()
	return sendAction(ctx, l.act, l.actions, space, act)
}

// lastOfEvaluation is the version of the item that tells a lane that all its environments are done.
const lastOfEvaluation = -1

// stepViews binds the items of a lane, whose memory comes round again, as an env.Step each; once
// per piece of memory.
type stepViews struct {
	items []*spmd.Item
	steps []*env.Step
}

func (v *stepViews) of(item *spmd.Item) *env.Step {
	for i := range v.items {
		if v.items[i] == item {
			return v.steps[i]
		}
	}
	d := item.Dict
	status, _ := d.Get("status")
	info, _ := d.Get("info")
	v.items = append(v.items, item)
	v.steps = append(v.steps, &env.Step{
		Obs: d.Sub("observation"), FinalObs: d.Sub("final_observation"),
		Reward: d.Must("reward"), Terminated: d.Must("terminated"), Truncated: d.Must("truncated"),
		Status: status, Info: info,
	})
	return v.steps[len(v.steps)-1]
}
