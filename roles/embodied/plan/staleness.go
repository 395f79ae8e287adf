package plan

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
)

// Bounded reports whether algorithm.staleness_threshold bounds the age of a rollout, in iterations.
func (p *Plan) Bounded() bool { return p.Config.Algorithm.StalenessThreshold >= 0 }

// TooOld reports whether a rollout of this age must be dropped.
func (p *Plan) TooOld(age int64) bool {
	return p.Bounded() && age > int64(p.Config.Algorithm.StalenessThreshold)
}

// OldestWeights returns the oldest version of the weights with which an environment's rollout n may begin. Iteration n
// trains version n of the weights on rollout n, so these rollouts are never too old. After the last iteration no
// rollout may begin. With a replay buffer, or without a bound on the age, any version is allowed.
func (p *Plan) OldestWeights(n uint64) int64 {
	if p.OffPolicy || !p.Bounded() {
		return 0
	}
	if n >= uint64(p.MaxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(p.Config.Algorithm.StalenessThreshold))
}

// QueuedRollouts returns the maximum number of rollouts of a shard that wait for their actor. If the age of rollouts is
// bounded, a rollout made with the newest weights does not become too old while it waits.
func (p *Plan) QueuedRollouts() int {
	threshold := p.Config.Algorithm.StalenessThreshold
	switch {
	case !p.Async():
		return 1
	case !p.OffPolicy:
		return threshold + 1 // OldestWeights delays further rollouts
	case p.Bounded():
		return max(1, threshold-int(p.SyncInterval))
	}
	return min(p.Config.Actor.RecvDrainMaxTrajectories, p.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
}

// Backlog returns the number of finished rollouts that may wait on a rollout worker for the actors, in an asynchronous
// run with robots and a replay buffer: a robot does not wait for the learner. It is 0 in other runs.
func (p *Plan) Backlog() int {
	if e := &p.Config.Env.Train; p.Async() && p.OffPolicy && e.ID() == env.ExternalID && external.IsRobot(e.External) {
		return 4
	}
	return 0
}

// QueuedSteps returns the capacities of a rollout worker's queue of observations and of an env worker's queue of
// actions. In an asynchronous run all routes of a worker share one queue. This queue has room for everything that the
// routes can send (two observations between rollouts), so workers cannot deadlock.
func (p *Plan) QueuedSteps() (observations, actions int) {
	if !p.Async() {
		return 1, 1
	}
	routes := len(p.Train.Routes)
	return 2 * routes / p.rollouts, routes / p.simulators
}
