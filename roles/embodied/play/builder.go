package play

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A RolloutBuilder lets a policy act in the n environments of one route, and writes trajectories [T, n] of T steps. For
// each step call Act with an observation, then Observe with the result of the step. At the end of an epoch call Finish.
type RolloutBuilder struct {
	Policy       policy.Policy // chooses actions
	work         policy.Work
	Hidden       HiddenState // hidden states of the environments
	noise        policy.Noise
	Mixture      *Mixture // lets an expert act in some steps; nil if only the policy acts
	critic       bool     // the last actions came with values
	bootstrapAll bool     // compute the value of the last observation of terminated episodes, too
	// Idles is true if environments do not reset themselves. After the end of an episode they idle until Stage.Begin.
	Idles     bool
	parts     []part    // the rows of each actor
	Space     env.Space // the space of actions
	names     []string  // names of observations, in the policy's order
	obs, next []string  // names of observations in transitions, before and after the step
	// witnessed is an observation that the policy does not see, or ""; witnessedNext is its name after a step.
	witnessed, witnessedNext string
	kept                     *keeping

	final    tensor.Dict   // the final observations for which values are computed
	finals   []tensor.Dict // finals[k] is a view of the first k rows of final
	rows     []int         // rows[i] is the environment of row i of final
	clock    clock
	Inferred int64 // nanoseconds that the policy has taken so far
}

// NewRolloutBuilder returns a builder for the environments [lo, lo+n). The noise of actions depends on seed, the number
// of the environment and the step. Actor i gets the rows cuts[i] to cuts[i+1]-1. The first cut is 0, and the last is n.
func NewRolloutBuilder(pol policy.Policy, seed uint64, lo, n int, cuts []int, bootstrapAll bool) *RolloutBuilder {
	r := &RolloutBuilder{Policy: pol, work: pol.NewWork(n), clock: newClock(), Hidden: NewHiddenState(pol, n),
		bootstrapAll: bootstrapAll}
	r.noise = policy.Noise{Seed: seed, Env: make([]uint64, n), Step: make([]uint64, n)}
	for i := range n {
		r.noise.Env[i] = uint64(lo + i)
	}
	for i := 1; i < len(cuts); i++ {
		r.parts = append(r.parts, part{lo: cuts[i-1], hi: cuts[i], over: make([]bool, cuts[i]-cuts[i-1]),
			ended: make([]bool, cuts[i]-cuts[i-1])})
	}
	obs, space := pol.Spaces()
	r.Space = space
	for _, f := range obs {
		r.names = append(r.names, f.Name)
		r.obs, r.next = append(r.obs, algo.Observations+"."+f.Name), append(r.next, algo.NextObservations+"."+f.Name)
		r.final.Set(f.Name, tensor.New(f.DType, append([]int{n}, f.Shape...)...))
	}
	if !r.Hidden.rows.IsZero() {
		r.final.Set(policy.HiddenState, tensor.New(tensor.F32, r.Hidden.rows.Shape()...))
	}
	for k := range n + 1 {
		r.finals = append(r.finals, r.final.Slice(0, k))
	}
	r.rows = make([]int, 0, n)
	return r
}

// Begin starts new trajectories. dicts[i] is the memory of actor i's trajectory. step is the number of steps that every
// environment has taken before.
func (r *RolloutBuilder) Begin(dicts []tensor.Dict, step uint64) {
	if r.kept == nil {
		r.kept = newKeeping(r.Policy, dicts[0], r.obs, len(r.noise.Env))
	}
	for i := range r.parts {
		p, d := &r.parts[i], dicts[i]
		p.obs, p.nextObs = p.obs[:0], p.nextObs[:0]
		for i := range r.names {
			p.obs = append(p.obs, seriesOf(d.Must(r.obs[i]), tensor.Tensor.Bytes))
			if next, ok := d.Get(r.next[i]); ok {
				p.nextObs = append(p.nextObs, seriesOf(next, tensor.Tensor.Bytes))
			}
		}
		must := func(name string) series[byte] { return seriesOf(d.Must(name), tensor.Tensor.Bytes) }
		may := func(name string) series[byte] {
			t, _ := d.Get(name)
			return seriesOf(t, tensor.Tensor.Bytes)
		}
		p.action, p.reward = must(algo.FieldAction), seriesOf(d.Must(algo.FieldReward), tensor.Tensor.F32)
		if len(p.nextObs) == 0 {
			p.logProb, p.value = must(algo.FieldLogProb), must(algo.FieldValue)
			p.next = seriesOf(d.Must(algo.FieldNextValue), tensor.Tensor.F32)
		}
		p.terminated, p.truncated = must(algo.FieldTerminated), must(algo.FieldTruncated)
		p.mask, p.status = may(algo.FieldMask), may(algo.FieldStatus)
		p.hidden, p.latent = may(policy.HiddenState), may(observedLatent)
		p.intervened = may(algo.FieldIntervened)
	}
	for i := range r.noise.Step {
		r.noise.Step[i] = step
	}
	if r.Mixture != nil {
		p := &r.parts[0]
		r.Mixture.begin(step / uint64(len(p.action.all)/p.action.each))
	}
}

// Witness adds an observation that the policy does not see to the results of steps in Transition.
func (r *RolloutBuilder) Witness(name string) {
	r.witnessed, r.witnessedNext = name, algo.NextObservations+"."+name
}

// Ended returns a tensor U8 [n]: 1 for each environment whose last step ended an episode, else 0. GoOn needs this
// tensor.
func (r *RolloutBuilder) Ended() tensor.Tensor {
	ended := tensor.New(tensor.U8, len(r.noise.Env))
	for _, p := range r.parts {
		for j, yes := range p.ended {
			if yes {
				ended.U8()[p.lo+j] = 1
			}
		}
	}
	return ended
}

// GoOn continues the trajectories in dicts at time t. Another builder has begun them with the same step. ended is the
// result of that builder's Ended.
func (r *RolloutBuilder) GoOn(dicts []tensor.Dict, step uint64, t int, ended tensor.Tensor) {
	r.Begin(dicts, step)
	for i := range r.noise.Step {
		r.noise.Step[i] += uint64(t)
	}
	for _, p := range r.parts {
		for j := range p.ended {
			p.ended[j] = ended.U8()[p.lo+j] == 1
		}
	}
}

// Act chooses actions for obs at time t, and records the actions and obs. If newEpisodes is set, new episodes begin
// with obs. Otherwise Act also records the values of obs as the next values of time t-1.
func (r *RolloutBuilder) Act(t int, obs tensor.Dict, newEpisodes bool) (policy.Act, error) {
	start := r.clock.now()
	seen, err := r.kept.act(obs)
	var act policy.Act
	if err == nil {
		act, err = r.Policy.Forward(r.work, r.Hidden.with(seen), policy.Sample, r.noise)
	}
	if r.Inferred += r.clock.now() - start; err != nil {
		return policy.Act{}, err
	}
	chosen := act.Action
	if r.Mixture != nil {
		chosen = obs.Must(env.ExpertAction)
		r.Mixture.replace(act, chosen, r.noise)
	}
	for i := range r.noise.Step {
		r.noise.Step[i]++
	}
	r.critic = !act.Value.IsZero() && len(r.parts[0].nextObs) == 0
	for i := range r.parts {
		p := &r.parts[i]
		for j := range p.obs {
			x := seen.Must(r.names[j])
			record(&p.obs[j], t, &x, p.lo)
		}
		record(&p.action, t, &chosen, p.lo)
		if p.logProb.exists() {
			record(&p.logProb, t, &act.LogProb, p.lo)
		}
		if r.critic {
			record(&p.value, t, &act.Value, p.lo)
			if !newEpisodes {
				r.completeNext(p, t-1, act.Value)
			}
		} else if p.value.exists() {
			clear(p.value.at(t))
		}
		if p.mask.exists() {
			p.markLive(t, newEpisodes, r.Idles)
		}
		if p.hidden.exists() {
			record(&p.hidden, t, &r.Hidden.rows, p.lo)
		}
		if p.latent.exists() {
			record(&p.latent, t, &act.Latent, p.lo)
		}
	}
	r.Hidden.keep(act)
	return act, nil
}

// Observe records the result of the actions of time t, and the values of the final observations of truncated episodes.
func (r *RolloutBuilder) Observe(t int, step *env.Step) error {
	rewards, term, trunc := step.Reward.F32(), step.Terminated.U8(), step.Truncated.U8()
	r.rows = r.rows[:0]
	k := step.Reward.Dim(1)
	for i := range r.parts {
		p := &r.parts[i]
		reward, terminated, truncated := p.reward.at(t), p.terminated.at(t), p.truncated.at(t)
		if p.next.exists() {
			clear(p.next.at(t))
		}
		clear(reward)
		clear(terminated)
		clear(truncated)
		each := len(reward) / len(p.ended) // rewards in a sample: k if each action has a reward, else 1
		for j := range p.ended {
			n := p.lo + j
			var ends, cut byte
			for c := range k {
				at, from := j*each+c*each/k, n*k+c
				reward[at] += rewards[from]
				terminated[at] |= term[from]
				truncated[at] |= trunc[from]
				ends |= term[from]
				cut |= trunc[from]
			}
			p.ended[j] = ends|cut != 0
			if status := step.StatusOf(n); p.status.exists() {
				p.status.at(t)[j] = status
			} else if status != env.Normal {
				p.abort(t, j)
			}
			if (cut != 0 || r.bootstrapAll && ends != 0) && !p.over[j] {
				r.rows = append(r.rows, n)
			}
		}
		p.intervene(t, step)
	}
	start := r.clock.now()
	now, final, err := r.kept.after(step, r.parts)
	if r.Inferred += r.clock.now() - start; err != nil {
		return err
	}
	for i := range r.parts {
		p := &r.parts[i]
		for o := range p.nextObs {
			p.copyNext(p.nextObs[o].at(t), now.Must(r.names[o]), final.Must(r.names[o]))
		}
	}
	if err := r.valueFinals(t, r.Hidden.with(r.finalOf(step))); err != nil {
		return err
	}
	for i := range r.parts {
		p := &r.parts[i]
		for j, ended := range p.ended {
			if ended {
				r.Hidden.forget(p.lo + j)
			}
		}
	}
	return nil
}

// finalOf returns the final observations of the episodes that ended in a step. In idle environments they are the
// current observations.
func (r *RolloutBuilder) finalOf(step *env.Step) tensor.Dict {
	if r.Idles {
		return step.Obs
	}
	return step.FinalObs
}

// Transition writes the transitions of a step into dst: the observations and actions of time t, and the result of the
// step. Reward workers receive transitions in this form.
func (r *RolloutBuilder) Transition(dst tensor.Dict, t int, step *env.Step) {
	final := r.finalOf(step)
	for i := range r.parts {
		p := &r.parts[i]
		rows := func(name string) []byte { return dst.Must(name).Slice(p.lo, p.hi).Bytes() }
		for o, name := range r.names {
			if images, ok := r.kept.images(name); ok {
				copy(rows(r.obs[o]), images.Slice(p.lo, p.hi).Bytes())
			} else {
				copy(rows(r.obs[o]), p.obs[o].at(t))
			}
			p.copyNext(rows(r.next[o]), step.Obs.Must(name), final.Must(name))
		}
		if name := r.witnessed; name != "" {
			p.copyNext(rows(r.witnessedNext), step.Obs.Must(name), final.Must(name))
		}
		copy(rows(algo.FieldAction), p.action.at(t))
		copy(dst.Must(algo.FieldReward).Slice(p.lo, p.hi).F32(), p.reward.at(t))
		copy(rows(algo.FieldTerminated), p.terminated.at(t))
		copy(rows(algo.FieldTruncated), p.truncated.at(t))
	}
	if all, ok := dst.Get(algo.FieldInfos); ok {
		all.CopyFrom(step.Info)
		last, width := dst.Must(algo.FieldInfo).F32(), step.Info.Dim(2)
		for n := range step.Info.Dim(0) {
			rows := step.InfoOf(n)
			copy(last[n*width:(n+1)*width], rows[len(rows)-width:])
		}
	}
}

// SetReward replaces the rewards of time t. reward has a number for each row. Idle environments get 0.
func (r *RolloutBuilder) SetReward(t int, reward []float32) {
	for i := range r.parts {
		p := &r.parts[i]
		dst := p.reward.at(t)
		copy(dst, reward[p.lo:p.hi])
		for j := range dst {
			if p.mask.exists() && p.mask.at(t)[j] == 0 {
				dst[j] = 0
			}
		}
	}
}

// valueFinals records the values of the final observations of the environments in r.rows.
func (r *RolloutBuilder) valueFinals(t int, final tensor.Dict) error {
	if len(r.rows) == 0 || !r.critic {
		return nil
	}
	for f := range r.final.Len() {
		name, dst := r.final.Entry(f)
		src := final.Must(name)
		size := src.Len() / src.Dim(0) * src.DType().Size()
		for i, n := range r.rows {
			copy(dst.Bytes()[i*size:(i+1)*size], src.Bytes()[n*size:(n+1)*size])
		}
	}
	start := r.clock.now()
	v, err := r.Policy.Value(r.work, r.finals[len(r.rows)])
	if r.Inferred += r.clock.now() - start; err != nil {
		return fmt.Errorf("value of final observations: %w", err)
	}
	values := v.Dim(1)
	for i, n := range r.rows {
		for j := range r.parts {
			if p := &r.parts[j]; n >= p.lo && n < p.hi {
				p.next.at(t)[n-p.lo] = v.F32()[i*values]
			}
		}
	}
	return nil
}

// Finish records the values of the observations after step t, the last step of an epoch. If truncate is set, the next
// epoch begins with new episodes, so Finish truncates the episodes that have not ended.
func (r *RolloutBuilder) Finish(t int, obs tensor.Dict, truncate bool) error {
	if r.critic {
		start := r.clock.now()
		v, err := r.Policy.Value(r.work, r.Hidden.with(obs))
		if r.Inferred += r.clock.now() - start; err != nil {
			return fmt.Errorf("value of the last observations: %w", err)
		}
		for i := range r.parts {
			r.completeNext(&r.parts[i], t, v)
		}
	}
	for i := range r.parts {
		if p := &r.parts[i]; truncate {
			truncated := p.truncated.at(t)
			each := len(truncated) / len(p.ended)
			for j, ended := range p.ended {
				if !ended {
					truncated[(j+1)*each-1] = 1
				}
			}
		}
	}
	if truncate {
		r.Hidden.Clear()
	}
	return nil
}

// completeNext sets the next values of time t for environments whose episode has not ended. v has the values of the
// observations after step t.
func (r *RolloutBuilder) completeNext(p *part, t int, v tensor.Tensor) {
	if t < 0 {
		return
	}
	next, value, values := p.next.at(t), v.F32(), v.Dim(1)
	for j, ended := range p.ended {
		if !ended {
			next[j] = value[(p.lo+j)*values]
		}
	}
}
