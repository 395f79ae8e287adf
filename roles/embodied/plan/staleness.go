package plan

import "math"

// Bounded reports whether algorithm.staleness_threshold bounds the age of a rollout, in iterations.
func (p *Plan) Bounded() bool { return p.Config.Algorithm.StalenessThreshold >= 0 }

// TooOld reports whether a rollout of this age must be dropped.
func (p *Plan) TooOld(age int64) bool {
	return p.Bounded() && age > int64(p.Config.Algorithm.StalenessThreshold)
}

// OldestWeights returns the oldest version of the weights with which an environment's n-th rollout may begin. If each
// iteration takes one rollout, iteration n takes the n-th rollout when the weights have version n. So no rollout
// becomes too old or is dropped, and there is no rollout for an iteration after the last.
func (p *Plan) OldestWeights(n uint64) int64 {
	if p.OffPolicy || !p.Bounded() {
		return 0
	}
	if n >= uint64(p.MaxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(p.Config.Algorithm.StalenessThreshold))
}

// QueuedRollouts returns how many rollouts of a shard may wait for their actor. Each iteration takes at least one
// rollout. Meanwhile one rollout is made, and another is trained on. So no rollout that begins with the newest weights
// becomes too old.
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

// QueuedSteps returns how many observations may wait for a rollout worker under one key, and how many actions for an
// env worker. In an asynchronous run all routes of a worker share a key. The queue of a key has room for everything
// that its routes can send (two observations between rollouts), so workers cannot deadlock.
func (p *Plan) QueuedSteps() (observations, actions int) {
	if !p.Async() {
		return 1, 1
	}
	routes := len(p.Train.Routes)
	return 2 * routes / p.rollouts, routes / p.simulators
}
