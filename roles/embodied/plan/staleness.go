package plan

import "math"

// Bounded reports whether there is a bound on how many iterations a rollout may lie behind.
func (p *Plan) Bounded() bool { return p.Config.Algorithm.StalenessThreshold >= 0 }

// TooOld reports whether a rollout that lies so many iterations behind must be dropped.
func (p *Plan) TooOld(age int64) bool {
	return p.Bounded() && age > int64(p.Config.Algorithm.StalenessThreshold)
}

// OldestWeights returns the oldest version of the weights with which the n-th rollout of an
// environment may begin. If each iteration takes one rollout, the n-th iteration takes the n-th,
// with weights of version n: so the bound is kept, and no rollout is dropped or made for an
// iteration after the last.
func (p *Plan) OldestWeights(n uint64) int64 {
	if p.OffPolicy || !p.Bounded() {
		return 0
	}
	if n >= uint64(p.MaxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(p.Config.Algorithm.StalenessThreshold))
}

// QueuedRollouts returns how many rollouts of a shard may wait for their actor. Each iteration
// takes at least one; another may be in production and a third in training. So no rollout that
// begins with the newest weights grows too old.
func (p *Plan) QueuedRollouts() int {
	threshold := p.Config.Algorithm.StalenessThreshold
	switch {
	case !p.Async():
		return 1
	case !p.OffPolicy:
		return threshold + 1 // OldestWeights holds them back
	case p.Bounded():
		return max(1, threshold-int(p.SyncInterval))
	}
	return min(p.Config.Actor.RecvDrainMaxTrajectories, p.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
}

// QueuedSteps returns how many observations may wait for a rollout worker under one key, and how
// many actions for an env worker. In an asynchronous run all routes of a worker share a key, which
// has room for everything that they can send (two observations between rollouts), so that workers
// cannot deadlock.
func (p *Plan) QueuedSteps() (shown, told int) {
	if !p.Async() {
		return 1, 1
	}
	routes := len(p.Train.Routes)
	return 2 * routes / p.rollouts, routes / p.simulators
}
