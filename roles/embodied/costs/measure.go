package costs

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// Profile measures the operations of the job of p.
func Profile(ctx context.Context, p *plan.Plan, a planner.ProbeOptions) (*planner.Profile, error) {
	f := &planner.Profile{Work: WorkOf(p)}
	if f.Work.Envs > 0 {
		if err := rollouts(ctx, p, a, f); err != nil {
			return nil, err
		}
	}
	if err := updates(ctx, p, a, f); err != nil {
		return nil, err
	}
	return f, probe.AddSums(ctx, f, p.Actors, a.World)
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// outside reports whether the environments of the job of p are programs of their own.
func outside(p *plan.Plan) bool { return p.Config.Env.Train.ID() == env.ExternalID }

// sizesOf returns at most three numbers of environments to measure, in ascending order: the smallest number that a plan
// for this many ranks would use, a number in the middle, and all environments. Each number divides envs, and is a
// multiple of the group size.
func sizesOf(envs, groupSize, ranks int) []int {
	var possible []int
	for n := groupSize; n <= envs; n += groupSize {
		if envs%n == 0 {
			possible = append(possible, n)
		}
	}
	least := 0
	for least+1 < len(possible) && possible[least] < envs/(4*ranks) {
		least++
	}
	possible = possible[least:]
	if len(possible) <= 3 {
		return possible
	}
	return []int{possible[0], possible[len(possible)/2], envs}
}

// shareOf returns the number of environments that each of n workers has: the largest multiple of the group size that
// divides envs and is at most envs/n. It is at least one group.
func shareOf(envs, groupSize, n int) int {
	share := max(groupSize, envs/n/groupSize*groupSize)
	for envs%share != 0 {
		share -= groupSize
	}
	return share
}

// rollouts measures steps and inferences. First it measures them alone at three sizes. Then it measures them on all
// cores at the same time. Each core has a share of the environments.
func rollouts(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile) error {
	w := &f.Work
	sizes := sizesOf(w.Envs, w.Group, a.Ranks)
	each := a.Budget / 3 / time.Duration(len(sizes)+2)
	players := make([]*player, 0, len(sizes)+a.Cores)
	defer func() {
		for _, x := range players {
			_ = x.close() // an error does not matter, because the measurements are complete
		}
	}()
	measured := make([]calls, len(sizes))
	share := shareOf(w.Envs, w.Group, a.Cores)
	for _, n := range append(slices.Clone(sizes), slices.Repeat([]int{share}, a.Cores)...) {
		x, err := newPlayer(p, n)
		if err != nil {
			return err
		}
		players = append(players, x)
	}
	if outside(p) {
		if err := startSimulators(players, w); err != nil {
			return err
		}
	}
	var slower []float64 // the factors by which a step is slower while other players play
	const rounds = 5
	for range rounds { // sizes take turns, so that all of them meet the same load of the machine
		for i := range sizes {
			if err := run(ctx, players[i], each/rounds, &measured[i]); err != nil {
				return err
			}
		}
		one, err := playTogether(ctx, players[len(sizes):len(sizes)+1], each/rounds)
		if err != nil {
			return err
		}
		all, err := playTogether(ctx, players[len(sizes):], each/rounds)
		if err != nil {
			return err
		}
		slower = append(slower, all/one)
	}
	for i, n := range sizes {
		f.Costs = append(f.Costs, measured[i].step.Cost(planner.OpStep, n), measured[i].infer.Cost(planner.OpInfer, n))
		if p.Rewards > 0 {
			f.Costs = append(f.Costs, measured[i].score.Cost(planner.OpScore, n))
		}
	}
	if a.Cores > 1 {
		f.Crowd = append(f.Crowd, planner.Crowd{Op: planner.OpInfer, Cores: a.Cores,
			Factor: max(1, probe.Median(slower))})
	}
	return nil
}

// startSimulators takes the first step of all players, so that their simulators start. Then it measures the memory of
// the simulators.
func startSimulators(players []*player, w *planner.Workload) error {
	before, envs := probe.ChildrenMemory(), 0
	for _, x := range players {
		envs += x.stage.Vec.Len()
	}
	_, err := probe.Together(len(players), func(i int) (float64, error) {
		_, err := players[i].step()
		return 0, err
	})
	w.Bytes.Simulator = max(0, probe.ChildrenMemory()-before) / int64(envs)
	return err
}

// run plays for about the time d, but at least 8 and at most 2000 steps. It adds the times of the steps to c.
func run(ctx context.Context, x *player, d time.Duration, c *calls) error {
	const least, most = 8, 2000
	if outside(x.plan) { // simulators of other players use processors, too
		outside, steps := probe.ChildrenTime(), len(c.step.Samples)
		defer func() {
			if len(c.step.Samples) > steps {
				c.step.Busy += (probe.ChildrenTime() - outside).Seconds() / float64(max(x.beside, 1))
			}
		}()
	}
	return probe.Repeat(ctx, least, most, d, func(int) error {
		busy := processorTime()
		spent, err := x.step()
		if err != nil {
			return err
		}
		busy = processorTime() - busy
		if x.taken < 3 { // the first steps run with cold caches
			return nil
		}
		c.step.Add(spent.step)
		c.infer.Add(spent.infer)
		c.score.Add(spent.score)
		// Inference and rewards are always busy. The rest of the processor time belongs to the environments' step.
		c.step.Busy += max(0, busy.Seconds()-spent.infer.Seconds()-spent.score.Seconds())
		return nil
	})
}

// playTogether lets players play at the same time, and returns the mean working time of a step, in seconds. A median
// would leave out steps that waited for a core.
func playTogether(ctx context.Context, players []*player, d time.Duration) (step float64, err error) {
	return probe.Together(len(players), func(i int) (float64, error) {
		var c calls
		players[i].beside = len(players)
		err := run(ctx, players[i], d, &c)
		wait := c.step.Cost(planner.OpStep, 1)
		n := float64(len(c.step.Samples))
		return (c.step.Total+c.infer.Total)/n - (wait.Seconds - wait.Busy), err
	})
}

// updates measures the update of one actor on its share of the samples, alone and while other actors update.
func updates(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile) error {
	var learners []*learner
	budget := a.Budget / 3
	for range max(1, min(a.Cores, f.Work.Actors)) {
		x, err := newLearner(p, f.Work.Envs)
		if err != nil {
			return err
		}
		defer x.close()
		if err := x.warm(ctx, f.Work.Warmup, budget); err != nil {
			return err
		}
		learners = append(learners, x)
	}
	first := learners[0]
	var alone, crowd, prepare, infer probe.CallSamples
	err := probe.Repeat(ctx, 2, 20, budget, func(int) error {
		err := first.learn(&infer, &prepare, &alone)
		if err == nil && len(learners) > 1 {
			err = learnTogether(learners, &crowd)
		}
		return err
	})
	if err != nil {
		return err
	}
	w, c := &f.Work, &first.counter
	samples := w.Samples / w.Actors
	f.Costs = append(f.Costs, alone.Cost(planner.OpUpdate, samples), prepare.Cost(planner.OpAdvantages, samples))
	if len(p.Inferred()) > 0 {
		f.Costs = append(f.Costs, infer.Cost(planner.OpLogProbs, samples))
	}
	if n := float64(first.updates); n > 0 {
		w.OptimiserSteps, w.SmallSums = int(float64(c.Gradients)/n+0.5), int(float64(c.Small)/n+0.5)
		w.Backward = min(1, 0.6*c.Backward.Seconds()/first.spent.Seconds())
	}
	w.GradientBytes = c.Bytes
	if len(learners) > 1 {
		f.Crowd = append(f.Crowd, crowd.Crowd(planner.OpUpdate, len(learners), &alone))
	}
	return nil
}

// A learner is one actor with its share of the environments.
type learner struct {
	counter probe.Counter
	player  *player // nil if the algorithm learns from demonstrations alone
	policy  policy.Policy
	work    policy.Work // memory for the work of inference workers
	algo    algo.Algorithm
	batch   tensor.Dict
	updates int           // number of updates after the warm-up
	spent   time.Duration // time of these updates
}

func newLearner(p *plan.Plan, envs int) (*learner, error) {
	pol, err := p.NewPolicy(tensor.Heap)
	if err != nil {
		return nil, err
	}
	x := &learner{counter: probe.Counter{Actors: p.Actors}, policy: pol}
	if x.algo, err = p.NewAlgorithm(algo.Setup{Policy: pol, Replicas: &x.counter}); err != nil || envs == 0 {
		return x, err
	}
	if len(p.Inferred()) > 0 {
		x.work = pol.NewWork(envs / p.Actors)
	}
	x.player, err = newPlayerOf(p, pol, envs/p.Actors)
	return x, err
}

func (x *learner) close() {
	if x.player != nil {
		_ = x.player.close() // an error does not matter, because the measurements are complete
	}
}

// warm makes n iterations to fill the replay buffer, and two more with optimiser steps. It stops early after the time
// d.
func (x *learner) warm(ctx context.Context, n int, d time.Duration) error {
	var none probe.CallSamples
	err := probe.Repeat(ctx, 2, n+2, d, func(int) error { return x.learn(&none, &none, &none) })
	x.counter.Reset()
	x.updates, x.spent = 0, 0
	return err
}

// learn makes a rollout and an update. It measures the inference of log-probs, the preparation and the update.
func (x *learner) learn(infer, prepare, update *probe.CallSamples) error {
	if err := x.rollout(infer); err != nil {
		return err
	}
	return x.train(prepare, update)
}

// rollout makes a rollout, and adds the tensors that inference workers would add.
func (x *learner) rollout(infer *probe.CallSamples) error {
	if x.player == nil {
		return nil
	}
	if err := x.player.rollout(); err != nil {
		return err
	}
	x.batch = x.player.dict
	p, start := x.player.plan, time.Now()
	for _, name := range p.Inferred() {
		if err := algo.LogProbs(x.batch.Must(name), x.policy, x.work, x.batch,
			p.Config.Algorithm.SequenceLength); err != nil {
			return err
		}
	}
	infer.Add(time.Since(start))
	return nil
}

func (x *learner) train(prepare, update *probe.CallSamples) error {
	start := time.Now()
	if x.player != nil {
		if err := x.algo.Prepare(&x.batch); err != nil {
			return err
		}
		prepare.Add(time.Since(start))
	}
	start = time.Now()
	if _, err := x.algo.Update(x.batch); err != nil {
		return err
	}
	took := time.Since(start)
	update.Add(took)
	x.updates++
	x.spent += took
	return nil
}

// learnTogether lets learners update at the same time, and adds the mean of their times.
func learnTogether(learners []*learner, update *probe.CallSamples) error {
	var none probe.CallSamples
	for _, x := range learners {
		if err := x.rollout(&none); err != nil {
			return err
		}
	}
	return update.AddTogether(len(learners), func(i int) (float64, error) {
		var none, took probe.CallSamples
		err := learners[i].train(&none, &took)
		return took.Total, err
	})
}
