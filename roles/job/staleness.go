package job

import "math"

// Async reports whether rollouts are made while actors train.
func (j *Job) Async() bool { return j.Config.Runner.Async && j.Config.Trains() }

// Bounded reports whether there is a bound on how many iterations a rollout may lie behind.
func (j *Job) Bounded() bool { return j.Config.Algorithm.StalenessThreshold >= 0 }

// TooOld reports whether a rollout that lies so many iterations behind must be dropped.
func (j *Job) TooOld(age int64) bool {
	return j.Bounded() && age > int64(j.Config.Algorithm.StalenessThreshold)
}

// OldestWeights returns the oldest version of the weights with which the n-th rollout of an
// environment may begin. If each iteration takes one rollout, the n-th iteration takes the n-th,
// with weights of version n: so the bound is kept, and no rollout is dropped or made for an
// iteration after the last.
func (j *Job) OldestWeights(n uint64) int64 {
	if j.OffPolicy || !j.Bounded() {
		return 0
	}
	if n >= uint64(j.MaxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(j.Config.Algorithm.StalenessThreshold))
}

// QueuedRollouts returns how many rollouts of a shard may wait for their actor. Each iteration
// takes at least one; another may be in production and a third in training. So no rollout that
// begins with the newest weights grows too old.
func (j *Job) QueuedRollouts() int {
	threshold := j.Config.Algorithm.StalenessThreshold
	switch {
	case !j.Async():
		return 1
	case !j.OffPolicy:
		return threshold + 1 // OldestWeights holds them back
	case j.Bounded():
		return max(1, threshold-int(j.SyncInterval))
	}
	return min(j.Config.Actor.RecvDrainMaxTrajectories, j.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
}

// QueuedSteps returns how many observations may wait for a rollout worker under one key, and how
// many actions for an env worker. In an asynchronous run all routes of a worker share a key, which
// has room for everything that they can send (two observations between rollouts), so that workers
// cannot deadlock.
func (j *Job) QueuedSteps() (shown, told int) {
	if !j.Async() {
		return 1, 1
	}
	routes := len(j.Train.Routes)
	return 2 * routes / j.rollouts, routes / j.simulators
}
