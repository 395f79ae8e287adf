package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/spmd"
)

// Arrivals counts the rollouts that an actor has received in an asynchronous run. The age of a rollout is the number of
// iterations since its weights were the newest.
type Arrivals struct {
	Rollouts int64 // rollouts of each environment, received in the whole run

	// The other fields are about this iteration. They count a rollout of n environments as n rollouts.
	Taken, Dropped float64
	ages           float64   // sum of the ages of all taken rollouts
	Oldest         float64   // largest age
	byAge          []float64 // byAge[n] is the number of rollouts of age n; nil without a bound on the age
}

func newArrivals(p *plan.Plan) *Arrivals {
	r := new(Arrivals)
	if p.Bounded() {
		r.byAge = make([]float64, p.Config.Algorithm.StalenessThreshold+1)
	}
	return r
}

// RecvRollouts waits for a rollout of every environment of this actor, and drops rollouts that are too old. The
// rollouts of an environment arrive in the order in which they were made. For an algorithm with a replay buffer
// RecvRollouts then receives more of the rollouts that have arrived. All actors receive the same number. version is the
// version of the actor's weights.
func (a *ActorWorker) RecvRollouts(ctx context.Context, out *spmd.Channel, version int64) error {
	if err := a.listen(out); err != nil {
		return err
	}
	a.arrivals.begin()
	for n := range a.plan.Config.Actor.RecvDrainMaxTrajectories {
		complete, err := a.take(ctx, version, n == 0)
		if err != nil {
			return err
		}
		if n > 0 {
			all := []float64{0}
			if complete {
				all[0] = 1
			}
			if err := a.replicas.Sum(all); err != nil {
				return err
			}
			if all[0] < float64(a.plan.Actors) {
				return nil
			}
		}
		lost := 0 // rollouts that the backlogs of robots have dropped before these
		for _, in := range a.inputs {
			in.item, in.next = in.next, nil
			a.arrivals.add(version-in.item.Version, in.Hi-in.Lo)
			a.arrivals.Dropped += float64(in.item.Weight * (in.Hi - in.Lo))
			lost += in.item.Weight
			stamp(in.item)
		}
		a.arrivals.Rollouts++
		a.assemble()
		if !a.plan.OffPolicy {
			return nil
		}
		if x, ok := a.algo.(algo.Interruptible); ok && lost > 0 { // no return of several steps goes over the gap
			x.Interrupt()
		}
		if err := a.algo.Prepare(&a.batch); err != nil {
			return err
		}
		a.release()
	}
	return nil
}

// Arrivals returns the numbers of received rollouts in an asynchronous run. The result is nil in other runs.
func (a *ActorWorker) Arrivals() *Arrivals { return a.arrivals }

// TakenRollouts returns the number of rollouts of each environment that this actor has received in the whole run.
// counted is false if the run is not asynchronous, because then each iteration has one rollout.
func (a *ActorWorker) TakenRollouts() (n int64, counted bool) {
	if a.arrivals == nil {
		return 0, false
	}
	return a.arrivals.Rollouts, true
}

// take receives one rollout of each shard, and drops rollouts that are too old. complete is true if all shards have a
// rollout. If wait is true, take waits until they have one.
func (a *ActorWorker) take(ctx context.Context, version int64, wait bool) (complete bool, err error) {
	complete = true
	for _, in := range a.inputs {
		for {
			if in.next == nil {
				in.next, err = in.get(ctx, wait)
			}
			if err == spmd.ErrEmpty {
				complete, err = false, nil
				break
			}
			if err != nil {
				return false, fmt.Errorf("trajectories of %s: %w", in.Name(), err)
			}
			if !a.plan.TooOld(version - in.next.Version) {
				break
			}
			a.arrivals.Dropped += float64(in.Hi - in.Lo)
			in.release(in.next)
			in.next = nil
		}
	}
	return complete, nil
}

func (r *Arrivals) begin() {
	clear(r.byAge)
	r.Taken, r.Dropped, r.ages, r.Oldest = 0, 0, 0, 0
}

func (r *Arrivals) add(age int64, envs int) {
	n := float64(envs)
	r.Taken += n
	r.ages += n * float64(age)
	r.Oldest = max(r.Oldest, float64(age))
	if r.byAge != nil {
		r.byAge[age] += n
	}
}

// describe adds metrics over all actors to m: rollout/staleness_mean, rollout/staleness_max (only of this actor) and
// rollout/dropped. With a bound on the age it also adds the share of rollouts of each age, data_staleness_{age}/ratio.
func (r *Arrivals) describe(m *algo.Metrics, all algo.Replicas) error {
	sums := append([]float64{r.Taken, r.ages, r.Dropped}, r.byAge...)
	if err := all.Sum(sums); err != nil {
		return err
	}
	put := func(name string, value float64) { m.Names, m.Values = append(m.Names, name), append(m.Values, value) }
	put("rollout/staleness_mean", sums[1]/sums[0])
	put("rollout/staleness_max", r.Oldest)
	put("rollout/dropped", sums[2])
	for age, n := range sums[3:] {
		put(fmt.Sprintf("data_staleness_%d/ratio", age), n/sums[0])
	}
	return nil
}
