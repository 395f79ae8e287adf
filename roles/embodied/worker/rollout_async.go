package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// An asyncRoute makes one rollout after the other, independently of the actors. Each rollout uses a copy of the newest
// weights at its start, so a rollout delays neither actors nor other routes. A call of Produce can end between any two
// steps, and the next call continues with the next step.
type asyncRoute struct {
	*rolloutRoute
	weights []byte      // a copy of the weights of the present rollout
	version int64       // version of weights; -1 if there is none yet
	first   uint64      // rollouts made before this run
	begun   uint64      // rollouts begun in this run
	taken   int         // number of shards of the next rollout that have a channel item
	open    bool        // a rollout has begun and not ended
	at      int         // number of actions recorded in this rollout
	acting  bool        // the result of the last action has not arrived
	item    *spmd.Item  // observations that wait for actions; nil while the environments step
	moved   tensor.Dict // an unfinished rollout from before a move; goOn continues it
	backlog *backlog    // nil unless the environments are robots
	paused  bool        // the environments wait for the next call of Produce
}

// Produce makes rollouts until stop is cancelled. It receives observations, sends actions, and sends trajectories to
// actors.
func (r *RolloutWorker) Produce(ctx, stop context.Context, obs, act, out *spmd.Channel) error {
	for _, l := range r.running {
		if err := l.connect(r.m, act, anyRoute, out, r.plan.NextOf); err != nil {
			return l.located(err)
		}
		if err := l.goOn(r.plan); err != nil {
			return l.located(err)
		}
	}
	if l := r.running[0]; l.stage != nil {
		return l.play(ctx, stop, r)
	}
	if r.obsIn == nil {
		var err error
		if r.obsIn, err = obs.Receiver(r.m, spmd.Key{To: r.m.Index(), Name: anyRoute}); err != nil {
			return err
		}
	}
	return r.serve(ctx, stop)
}

// anyRoute is the key that all routes of a worker share in an asynchronous run. So observations and actions are handled
// in the order of arrival. Item.Lo identifies the route.
const anyRoute = "any route"

// play makes rollouts in environments that this worker steps, until stop is cancelled.
func (l *asyncRoute) play(ctx, stop context.Context, r *RolloutWorker) error {
	defer r.playing.Begin().End(0, 0)
	for stop.Err() == nil {
		l.parts.divide(l.stage, l.rec)
		if err := l.flush(ctx); err != nil {
			return l.located(err)
		}
		if ready, err := l.begin(stop, r, true); err != nil || !ready {
			return l.located(err)
		}
		if l.at%r.plan.Steps == 0 {
			if err := l.stage.Begin(); err != nil {
				return l.located(err)
			}
		}
		act, err := l.choose(r, l.stage.Now.Obs)
		if err != nil {
			return l.located(err)
		}
		act.Feed(l.rec.Space, l.stage.Action.Must(algo.FieldAction))
		if err := l.stage.Step(); err != nil {
			return l.located(err)
		}
		if err := l.observe(ctx, r, l.stage.Now); err != nil {
			return l.located(err)
		}
		l.stage.At = l.at % r.plan.Steps
	}
	return nil
}

// serve makes rollouts in environments of env workers, in the order in which observations arrive. It returns when
// stop is cancelled and all environments are paused.
func (r *RolloutWorker) serve(ctx, stop context.Context) error {
	for _, l := range r.running {
		l.paused = false
	}
	for {
		var waiting *asyncRoute // the waiting route with the fewest rollouts; it needs a free item or newer weights
		paused, unanswered := 0, 0
		for _, l := range r.running {
			if l.item != nil && !l.paused {
				if err := l.answer(ctx, stop, r); err != nil {
					return l.located(err)
				}
			}
			switch {
			case l.paused: // the next call handles its observations
				paused++
			case l.item != nil:
				unanswered++
				if waiting == nil || l.begun < waiting.begun {
					waiting = l
				}
			}
		}
		switch {
		case paused == len(r.running):
			return nil
		case paused+unanswered == len(r.running): // no environment is stepping, so no observations will arrive
			if _, err := waiting.begin(stop, r, true); err != nil {
				return waiting.located(err)
			}
		default:
			if err := r.receive(ctx); err != nil {
				return err
			}
		}
	}
}

// receive waits for observations of any route.
func (r *RolloutWorker) receive(ctx context.Context) error {
	item, err := r.obsIn.Get(ctx)
	if err != nil {
		return fmt.Errorf("observations: %w", err)
	}
	i := slices.IndexFunc(r.running, func(l *asyncRoute) bool { return l.Lo == item.Lo })
	if i < 0 {
		return fmt.Errorf("observations of environments %d-%d, which belong to another worker", item.Lo, item.Hi-1)
	}
	l := r.running[i]
	if l.acting {
		if err := l.observe(ctx, r, l.steps.viewOf(item, stepOf)); err != nil {
			return l.located(err)
		}
		if l.at%r.plan.Steps == 0 { // the first observations of the next episodes follow
			r.obsIn.Release(item)
			return nil
		}
	}
	l.item = item
	return nil
}

// answer sends actions for the received observations. It does nothing if the next rollout cannot begin yet. If stop is
// cancelled, it pauses the environments instead.
func (l *asyncRoute) answer(ctx, stop context.Context, r *RolloutWorker) error {
	if stop.Err() != nil {
		l.paused = true
		return l.sendActions(ctx, r, nil)
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	if ready, err := l.begin(stop, r, false); err != nil || !ready {
		return err
	}
	r.infer.Begin()
	act, err := l.choose(r, l.steps.viewOf(l.item, stepOf).Obs)
	r.infer.End(0, 0)
	if err != nil {
		return err
	}
	return l.sendActions(ctx, r, &act)
}

// sendActions sends actions to the environments. If act is nil, it pauses the environments.
func (l *asyncRoute) sendActions(ctx context.Context, r *RolloutWorker, act *policy.Act) error {
	item, err := l.act.Take(ctx, l.actions)
	if err != nil {
		return err
	}
	item.Lo, item.Hi = l.Lo, l.Hi
	if act == nil {
		item.Version = pauseStage
	} else {
		act.Feed(l.rec.Space, item.Dict.Must(algo.FieldAction))
	}
	r.obsIn.Release(l.item)
	l.item = nil
	return l.act.Put(ctx, item)
}

// pauseStage is the version of the item that pauses a stage until the next call of Simulate.
const pauseStage = -1

// begin starts a rollout unless one is running: it takes channel items, and copies the newest weights. It returns false
// if there is no free item, or if the weights are too old. If wait is true, begin waits for items and newer weights
// instead. It then returns false only if stop is cancelled.
func (l *asyncRoute) begin(stop context.Context, r *RolloutWorker, wait bool) (bool, error) {
	if l.open {
		return true, nil
	}
	oldest := r.plan.OldestWeights(l.first + l.begun)
	if !wait && r.training.Newest() < oldest {
		return false, nil
	}
	if l.backlog != nil {
		copy(l.dicts, l.backlog.begin())
	}
	for ; l.backlog == nil && l.taken < len(l.Shards); l.taken++ {
		i := l.taken
		item, err := l.out[i].TryTake(l.layouts[i])
		if err == spmd.ErrFull && wait {
			item, err = l.out[i].Take(stop, l.layouts[i])
		}
		if err == spmd.ErrFull || err != nil && stop.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		l.items[i], l.dicts[i] = item, item.Dict
	}
	version, err := r.training.Copy(stop, oldest, l.weights, l.version)
	if err != nil {
		if stop.Err() != nil {
			err = nil
		}
		return false, err
	}
	l.version = version
	l.rec.Begin(l.dicts, (l.first+l.begun)*uint64(r.plan.Epochs*r.plan.Steps))
	l.begun++
	l.open = true
	return true, nil
}

// choose chooses actions for observations, and records the observations and the actions.
func (l *asyncRoute) choose(r *RolloutWorker, obs tensor.Dict) (policy.Act, error) {
	r.policy.Params().View(l.weights)
	act, err := l.rec.Act(l.at, obs, l.at%r.plan.Steps == 0)
	l.at++
	l.acting = true
	return act, err
}

// observe records the result of the actions. After the last step of a rollout it sends the trajectories.
func (l *asyncRoute) observe(ctx context.Context, r *RolloutWorker, st *env.Step) error {
	r.policy.Params().View(l.weights)
	if err := l.rec.Observe(l.at-1, st); err != nil {
		return err
	}
	l.acting = false
	if l.at%r.plan.Steps != 0 {
		return nil
	}
	if err := l.rec.Finish(l.at-1, st.Obs, !r.plan.AutoReset); err != nil {
		return err
	}
	if l.at < r.plan.Epochs*r.plan.Steps {
		return nil
	}
	l.at, l.open = 0, false
	if l.backlog != nil {
		l.backlog.end(l.version)
		return l.flush(ctx)
	}
	l.taken = 0
	return l.deliver(ctx, l.version)
}

// Finished adds to byRoute[i] the number of rollouts that this worker has finished on route i in the whole run.
func (r *RolloutWorker) Finished(byRoute []float64) {
	for _, l := range r.running {
		byRoute[l.ID] += float64(l.first + l.begun)
		if l.open {
			byRoute[l.ID]--
		}
		if b := l.backlog; b != nil { // a move loses what waits
			byRoute[l.ID] -= float64(b.dropped) + float64(len(b.waiting))
		}
	}
}

// pack returns the state of a paused route: its counters, and its unfinished rollout.
func (l *asyncRoute) pack() (d tensor.Dict, err error) {
	if l.moved.Len() > 0 { // Produce has not run since the last move
		return l.moved, nil
	}
	numbers := []int64{int64(l.first), int64(l.begun), l.version, int64(l.at), 0}
	if l.open {
		numbers[4] = 1
		d.Set("weights", tensor.FromU8(l.weights, len(l.weights)))
		d.Set("ended", l.rec.Ended())
		for i := range l.Shards {
			merge(&d, fmt.Sprintf("shard%d.", i), l.dicts[i])
		}
	}
	d.Set("numbers", tensor.FromI64(numbers, len(numbers)))
	return d, nil
}

// unpack restores the state that pack returned. The function goOn continues the unfinished rollout when the senders are
// open.
func (l *asyncRoute) unpack(d tensor.Dict) error {
	numbers := d.Must("numbers").I64()
	l.first, l.begun = uint64(numbers[0]), uint64(numbers[1])
	if numbers[4] == 1 {
		l.version, l.at, l.open, l.moved = numbers[2], int(numbers[3]), true, d
		copy(l.weights, d.Must("weights").U8())
	}
	return nil
}

// goOn continues an unfinished rollout from before a move, if there is one.
func (l *asyncRoute) goOn(p *plan.Plan) (err error) {
	if l.moved.Len() == 0 {
		return nil
	}
	if l.backlog != nil {
		copy(l.dicts, l.backlog.begin())
	}
	for i := range l.Shards {
		if l.backlog == nil {
			if l.items[i], err = l.out[i].TryTake(l.layouts[i]); err != nil {
				return err
			}
			l.dicts[i] = l.items[i].Dict
		}
		l.dicts[i].CopyFrom(l.moved.Sub(fmt.Sprint("shard", i)))
	}
	step := (l.first + l.begun - 1) * uint64(p.Epochs*p.Steps)
	l.rec.GoOn(l.dicts, step, l.at, l.moved.Must("ended"))
	if l.moved = (tensor.Dict{}); l.backlog == nil {
		l.taken = len(l.Shards)
	}
	return nil
}
