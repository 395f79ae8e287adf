package job

import "math"

// Async reports whether rollouts go on while actors train.
func (j *Job) Async() bool { return j.Config.Runner.Async && j.Config.Trains() }

// Bounded reports whether rollouts may lie behind by a number of iterations, and no more.
func (j *Job) Bounded() bool { return j.Config.Algorithm.StalenessThreshold >= 0 }

// TooOld reports whether a rollout that lies behind by so many iterations is not to be learnt from.
func (j *Job) TooOld(age int64) bool {
	return j.Bounded() && age > int64(j.Config.Algorithm.StalenessThreshold)
}

// OldestWeights returns the oldest version of the weights with which the n-th rollout of an
// environment may begin. Where each iteration takes one of them, the n-th iteration takes it, with
// weights that are of version n: the bound is kept, and nothing is made to be dropped, nor for
// iterations after the last.
func (j *Job) OldestWeights(n uint64) int64 {
	if j.OffPolicy || !j.Bounded() {
		return 0
	}
	if n >= uint64(j.MaxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(j.Config.Algorithm.StalenessThreshold))
}

// QueuedRollouts returns how many rollouts of a shard may wait for their actor. Where each
// iteration takes at least one of them, of which another may be under way and a third in training,
// none that begins with the newest weights grows too old.
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
// many actions for an env worker. In an asynchronous run all routes of a worker share one; as many
// fit there as they can send (two observations between rollouts), so that nobody waits for who
// waits for him.
func (j *Job) QueuedSteps() (shown, told int) {
	if !j.Async() {
		return 1, 1
	}
	lanes := len(j.Train.Routes)
	return 2 * lanes / j.rollouts, lanes / j.simulators
}
