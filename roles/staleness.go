package roles

import "math"

// async reports whether rollouts go on while actors train.
func (j *job) async() bool { return j.cfg.Runner.Async && j.cfg.Trains() }

// bounded reports whether rollouts may lie behind by a number of iterations, and no more.
func (j *job) bounded() bool { return j.cfg.Algorithm.StalenessThreshold >= 0 }

// tooOld reports whether a rollout that lies behind by so many iterations is not to be learnt from.
func (j *job) tooOld(age int64) bool {
	return j.bounded() && age > int64(j.cfg.Algorithm.StalenessThreshold)
}

// oldestWeights returns the oldest version of the weights with which the n-th rollout of an
// environment may begin. Where each iteration takes one of them, the n-th iteration takes it, with
// weights that are of version n: the bound is kept, and nothing is made to be dropped, nor for
// iterations after the last.
func (j *job) oldestWeights(n uint64) int64 {
	if j.offPolicy || !j.bounded() {
		return 0
	}
	if n >= uint64(j.maxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(j.cfg.Algorithm.StalenessThreshold))
}

// queuedRollouts returns how many rollouts of a shard may wait for their actor. Where each
// iteration takes at least one of them, of which another may be under way and a third in training,
// none that begins with the newest weights grows too old.
func (j *job) queuedRollouts() int {
	threshold := j.cfg.Algorithm.StalenessThreshold
	switch {
	case !j.async():
		return 1
	case !j.offPolicy:
		return threshold + 1 // oldestWeights holds them back
	case j.bounded():
		return max(1, threshold-int(j.syncInterval))
	}
	return min(j.cfg.Actor.RecvDrainMaxTrajectories, j.cfg.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
}

// queuedSteps returns how many observations may wait for a rollout worker under one key, and how
// many actions for an env worker. In an asynchronous run all lanes of a worker share one; as many
// fit there as they can send (two observations between rollouts), so that nobody waits for who
// waits for him.
func (j *job) queuedSteps() (shown, told int) {
	if !j.async() {
		return 1, 1
	}
	lanes := len(j.train.lanes)
	return 2 * lanes / j.rollouts, lanes / j.simulators
}
