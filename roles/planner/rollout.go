package planner

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// Options are the options of a run in virtual time.
type Options struct {
	// If Noise is true, the duration of each call is drawn at random from the profile's quantiles. Otherwise calls of
	// equal size take equal times. Seed is the seed of the draws.
	Noise bool
	Seed  uint64
	// A part of the world is a set of nodes whose members exchange items. If Whole is true, every part runs. Otherwise
	// only one of several equal parts runs.
	Whole bool
	// Steps is the maximum number of steps of an epoch that run. The time of a longer epoch is extrapolated from the
	// second half of these steps. If Steps is 0, all steps run.
	Steps int
}

// Steady returns the options with which a search compares layouts: noise, and enough steps to reach a steady state.
func Steady() Options { return Options{Noise: true, Seed: 1, Steps: 48} }

// A rolloutRun has the predicted time of an iteration's rollouts.
type rolloutRun struct {
	seconds float64
	bound   string
	share   float64 // fraction of the time in which the bound is busy
	events  int
	spent   Spent
}

// play runs the rollouts of l in virtual time.
func play(m *Machine, p *Profile, l *Placement, o Options) rolloutRun {
	steps := p.Work.Steps
	if o.Steps <= 0 || steps <= o.Steps {
		return playSteps(m, p, l, o, steps)
	}
	long, short := playSteps(m, p, l, o, o.Steps), playSteps(m, p, l, o, o.Steps/2)
	more := float64(steps-o.Steps) / float64(o.Steps-o.Steps/2)
	long.spent = long.spent.plus(more, long.spent.plus(-1, short.spent))
	long.seconds += more * (long.seconds - short.seconds)
	long.events += short.events
	return long
}

// playSteps runs the rollouts with this many steps per epoch.
func playSteps(m *Machine, p *Profile, l *Placement, o Options, steps int) (all rolloutRun) {
	scene := &scene{m: m, p: p, l: l, o: o, steps: steps, routes: RoutesOf(p.Work.Envs, l),
		parts: newUnion(len(l.Nodes))}
	for _, r := range scene.routes {
		scene.parts.join(l.Nodes[l.Env[r.Env]], l.Nodes[l.Rollout[r.Rollout]])
		if reward := scene.reward(r); reward >= 0 {
			scene.parts.join(l.Nodes[l.Env[r.Env]], l.Nodes[l.Reward[reward]])
		}
	}
	byPart := map[int][]Route{}
	var order []int
	for _, r := range scene.routes {
		part := scene.parts.find(l.Nodes[l.Env[r.Env]])
		if byPart[part] == nil {
			order = append(order, part)
		}
		byPart[part] = append(byPart[part], r)
	}
	seen := map[string]Spent{}
	for _, part := range order {
		shape := scene.shape(byPart[part])
		if spent, ok := seen[shape]; ok && !o.Whole {
			all.spent = all.spent.plus(1, spent)
			continue
		}
		one := scene.run(byPart[part])
		seen[shape], all.spent = one.spent, all.spent.plus(1, one.spent)
		all.events += one.events
		if one.seconds > all.seconds {
			all.seconds, all.bound, all.share = one.seconds, one.bound, one.share
		}
	}
	return all
}

// A scene is a run in virtual time. Its parts are described at Options.Whole.
type scene struct {
	m      *Machine
	p      *Profile
	l      *Placement
	o      Options
	steps  int
	routes []Route
	parts  *union
}

// reward returns the index of the reward worker of a route. It returns -1 if the job has none.
func (s *scene) reward(r Route) int {
	if len(s.l.Reward) == 0 {
		return -1
	}
	return r.First * len(s.l.Reward) / s.p.Work.Envs
}

// shape describes a part. Parts with the same shape take the same time.
func (s *scene) shape(list []Route) string {
	number := func() func(int) int {
		seen := map[int]int{}
		return func(x int) int {
			if _, ok := seen[x]; !ok {
				seen[x] = len(seen)
			}
			return seen[x]
		}
	}
	env, rollout, reward, rank, node := number(), number(), number(), number(), number()
	var b []byte
	for _, r := range list {
		er, rr := s.l.Env[r.Env], s.l.Rollout[r.Rollout]
		for _, x := range []int{env(r.Env), rollout(r.Rollout), r.Stage, r.Rows, rank(er), rank(rr),
			node(s.l.Nodes[er]), node(s.l.Nodes[rr])} {
			b = append(strconv.AppendInt(b, int64(x), 36), ' ')
		}
		if w := s.reward(r); w >= 0 {
			b = append(strconv.AppendInt(b, int64(reward(w)), 36), ' ')
			b = append(strconv.AppendInt(b, int64(rank(s.l.Reward[w])), 36), ' ')
			b = append(strconv.AppendInt(b, int64(node(s.l.Nodes[s.l.Reward[w]])), 36), ' ')
		}
	}
	return string(b)
}

// slowdown returns the factor by which k concurrent computations on a node are slower than a single one. They slow each
// other down as calls of op do.
func slowdown(m *Machine, p *Profile, op string, k int) float64 {
	n, cores := float64(k), float64(m.Cores)
	return max(1, n/cores) * p.Factor(op, min(n, cores))
}

// crowded returns slowdown as a function of k. The function caches its values.
func crowded(m *Machine, p *Profile, op string) func(k int) float64 {
	var table []float64
	return func(k int) float64 {
		for len(table) <= k {
			table = append(table, slowdown(m, p, op, len(table)))
		}
		return table[k]
	}
}

// run runs the routes of one part.
func (s *scene) run(list []Route) rolloutRun {
	nodes, ranks := map[int]int{}, map[int]int{}
	number := func(seen map[int]int, x int) int {
		if _, ok := seen[x]; !ok {
			seen[x] = len(seen)
		}
		return seen[x]
	}
	at := func(rank int) (n, r int) { return number(nodes, s.l.Nodes[rank]), number(ranks, rank) }
	for _, r := range list {
		at(s.l.Env[r.Env])
		at(s.l.Rollout[r.Rollout])
		if w := s.reward(r); w >= 0 {
			at(s.l.Reward[w])
		}
	}
	e := newEngine(len(nodes), len(ranks), crowded(s.m, s.p, OpInfer))
	start := func(rank int, x body) {
		n, r := at(rank)
		e.start(n, r, x)
	}
	envs, rollouts, rewards := s.members(e, list)
	var kinds []string
	for _, member := range slices.Sorted(maps.Keys(envs)) {
		x := envs[member]
		if len(x.sections) > 0 {
			x.draw = drawer{s.o.Noise, s.o.Seed, uint64(member)}
			start(s.l.Env[member], x)
			kinds = append(kinds, "env")
		}
	}
	for _, member := range slices.Sorted(maps.Keys(rollouts)) {
		x := rollouts[member]
		x.draw = drawer{s.o.Noise, s.o.Seed, 1<<32 | uint64(member)}
		start(s.l.Rollout[member], x)
		kinds = append(kinds, "rollout")
	}
	for _, member := range slices.Sorted(maps.Keys(rewards)) {
		start(s.l.Reward[member], rewards[member])
		kinds = append(kinds, "reward")
	}
	result := rolloutRun{seconds: e.run(math.MaxInt), events: e.events}
	s.judge(e, kinds, &result)
	return result
}

// members returns the programs of the env and rollout workers on the routes in list, and the servers of the reward
// workers. The keys are the numbers of the members.
func (s *scene) members(e *engine, list []Route) (envs, rollouts map[int]*program, rewards map[int]*server) {
	w := &s.p.Work
	envs, rollouts, rewards = map[int]*program{}, map[int]*program{}, map[int]*server{}
	type stage struct {
		rows      int
		gets, put []action
	}
	stages := map[[2]int]*stage{}
	var order [][2]int
	type serving struct{ cycle, rewarded, values []action }
	served := map[int]*serving{}
	for _, r := range list {
		if rollouts[r.Rollout] == nil {
			rollouts[r.Rollout] = &program{epochs: w.Epochs}
		}
		if envs[r.Env] == nil {
			envs[r.Env] = &program{epochs: w.Epochs}
		}
		step, infer := s.call(OpStep, r.Rows), s.call(OpInfer, r.Rows)
		ask, rewarded := s.ask(e, rewards, r)
		to := rollouts[r.Rollout]
		if r.Inline {
			alone := step.wait == 0 && infer.wait == 0 && ask == nil
			step.what, infer.what = opPlay, opPlay
			to.sections = append(to.sections, section{slices.Concat(ask, []action{infer, step}, rewarded), s.steps,
				alone}, section{[]action{infer}, 1, false})
			continue
		}
		link := s.m.between(s.l.Env[r.Env], s.l.Rollout[r.Rollout], s.l.Nodes)
		obs, act := e.queue(2), e.queue(2) // a channel has room for one item, and a second item can be in transit
		key := [2]int{r.Env, r.Stage}
		if stages[key] == nil {
			stages[key] = &stage{}
			order = append(order, key)
		}
		st := stages[key]
		st.rows += r.Rows
		st.gets = append(st.gets, action{kind: get, queue: act})
		st.put = append(st.put, action{kind: put, queue: obs,
			delay: s.p.Real.Hop + link.Time(float64(w.Bytes.Observation)*float64(r.Rows))})
		if served[r.Rollout] == nil {
			served[r.Rollout] = &serving{}
		}
		v, seen := served[r.Rollout], action{kind: get, queue: obs}
		v.cycle = append(append(append(v.cycle, seen), ask...), infer, action{kind: put, queue: act,
			delay: s.p.Real.Hop + link.Time(float64(w.Bytes.Action)*float64(r.Rows))})
		v.rewarded, v.values = append(v.rewarded, rewarded...), append(v.values, seen, infer)
	}
	for member, v := range served {
		to := rollouts[member]
		to.sections = append(to.sections, section{append(v.cycle, v.rewarded...), s.steps, false},
			section{v.values, 1, false})
	}
	for _, key := range order {
		to, st := envs[key[0]], stages[key]
		if to.sections == nil {
			to.sections = []section{{nil, 1, false}, {nil, s.steps, false}}
		}
		to.sections[0].actions = append(to.sections[0].actions, st.put...)
		to.sections[1].actions = slices.Concat(to.sections[1].actions, st.gets, []action{s.call(OpStep, st.rows)},
			st.put)
	}
	return envs, rollouts, rewards
}

// ask adds a route to its reward worker. It returns two lists of actions for the rollout worker: ask requests the
// rewards of a step, and rewarded waits for them. Without reward workers both lists are nil.
func (s *scene) ask(e *engine, rewards map[int]*server, r Route) (ask, rewarded []action) {
	w := s.reward(r)
	if w < 0 {
		return nil, nil
	}
	if rewards[w] == nil {
		rewards[w] = &server{engine: e, in: e.inbox(len(s.routes)),
			draw: drawer{s.o.Noise, s.o.Seed, 2<<32 | uint64(w)}}
	}
	to, answer := rewards[w], e.queue(2)
	link := s.m.between(s.l.Rollout[r.Rollout], s.l.Reward[w], s.l.Nodes)
	ask = []action{{kind: put, queue: to.in, tag: len(to.answers),
		delay: link.Time(float64(s.p.Work.Bytes.Transition) * float64(r.Rows))}}
	to.answers = append(to.answers, [2]action{s.call(OpScore, r.Rows), {kind: put, queue: answer, delay: link.Latency}})
	to.left += s.p.Work.Epochs * s.steps
	return ask, []action{{kind: get, queue: answer}}
}

// call returns the action for a call of op on this many rows.
func (s *scene) call(op string, rows int) action {
	c := curve(s.p.costsOf(op, 0))
	t := c.timeOf(float64(rows))
	return action{kind: compute, what: op, busy: min(t.Busy, t.Seconds), wait: max(0, t.Seconds-t.Busy),
		spread: c.spread(float64(rows))}
}

// judge sets r.spent from the ranks of e. It also sets r.bound to what bounds the run: the cores of a node, the workers
// of one component, or the latency of a step.
func (s *scene) judge(e *engine, kinds []string, r *rolloutRun) {
	if r.seconds <= 0 {
		return
	}
	busy := make([]float64, len(e.nodes))
	working := map[string]float64{}
	for i := range e.procs {
		p := &e.procs[i]
		busy[p.node] += p.busy
		working[kinds[i]] = max(working[kinds[i]], p.working/r.seconds)
	}
	for i := range e.ranks {
		r.spent = r.spent.plus(1, e.ranks[i].spent)
	}
	n := float64(s.m.Cores)
	cores := slices.Max(busy) * s.p.Factor(OpInfer, n) / n / r.seconds
	switch {
	case working["reward"] >= max(0.8, working["env"], working["rollout"]):
		r.bound, r.share = "reward workers, which serve all routes in turn", working["reward"]
	case cores >= 0.85:
		r.bound, r.share = "the cores of a node", cores
	case len(kinds) > 0 && !slices.Contains(kinds, "env"):
		r.bound, r.share = "steps and inferences in turn", working["rollout"]
	case working["env"] >= max(0.8, working["rollout"]):
		r.bound, r.share = "env workers, which step their stages in turn", working["env"]
	case working["rollout"] >= 0.8:
		r.bound, r.share = "rollout workers, which serve their routes in turn", working["rollout"]
	default:
		r.bound, r.share = "the way of a step: step, message, inference, message", 1
	}
}

// A union is a disjoint-set forest. It joins nodes whose members exchange items.
type union struct{ up []int }

func newUnion(n int) *union {
	u := &union{up: make([]int, n)}
	for i := range u.up {
		u.up[i] = i
	}
	return u
}

// find returns the representative of the set of x.
func (u *union) find(x int) int {
	for u.up[x] != x {
		u.up[x] = u.up[u.up[x]]
		x = u.up[x]
	}
	return x
}

// join joins the sets of a and b. The smaller of the two representatives represents the result.
func (u *union) join(a, b int) {
	a, b = u.find(a), u.find(b)
	u.up[max(a, b)] = min(a, b)
}
