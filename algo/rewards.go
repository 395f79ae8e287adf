package algo

import (
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// A rewardScale divides rewards by the deviation of the discounted return, which keeps the critic's
// targets near 1 in any task (Engstrom et al. 2020, arXiv:2005.12729, §3). It learns from the
// rollouts of all replicas. The scale for a rollout includes the returns of this rollout. The
// moments are the same on every replica. Each environment has its own running return.
type rewardScale struct {
	gamma, clip float64
	running     tensor.Tensor // F64 [N]: Σ γ^k r of the episode so far
	moments     tensor.Tensor // F64 [3]: count, mean and Σ (x-mean)² of the returns x at all steps so far
	sums        [3]float64
}

func newRewardScale(gamma, clip float32, envs int) *rewardScale {
	return &rewardScale{
		gamma: float64(gamma), clip: float64(clip),
		running: tensor.New(tensor.F64, envs), moments: tensor.New(tensor.F64, 3),
	}
}

// rewardKeys declares the keys of reward normalisation.
func rewardKeys(s *Setup, k *Keys) {
	k.Read("normalize_rewards")
	k.ReadIf(s.Config.NormalizeRewards, "normalize_rewards", "reward_clip", "gamma")
}

// learn computes the discounted return at each step of tr, and updates the moments with these returns. It skips samples
// with mask 0.
func (s *rewardScale) learn(tr *Trajectory, mask []uint8, r Replicas) error {
	running, m := s.running.F64(), s.moments.F64()
	s.sums = [3]float64{}
	for i, reward := range tr.Reward {
		env := i % tr.N
		if mask == nil || mask[i] != 0 {
			ret := s.gamma*running[env] + float64(reward)
			d := ret - m[1] // sums of differences from the old mean lose few digits
			s.sums[0]++
			s.sums[1] += d
			s.sums[2] += d * d
			running[env] = ret
		}
		if tr.Terminated[i]|tr.Truncated[i] != 0 { // even if the mask is 0: the episode may have been lost
			running[env] = 0
		}
	}
	if err := r.Sum(s.sums[:]); err != nil {
		return err
	}
	if n := s.sums[0]; n > 0 { // Chan, Golub and LeVeque 1979: moments of a union
		shift := s.sums[1] / n
		all := m[0] + n
		m[2] += s.sums[2] - n*shift*shift + shift*shift*m[0]*n/all
		m[1] += shift * n / all
		m[0] = all
	}
	return nil
}

// scale sets dst to reward / √(variance + 1e-8), clipped to ±clip.
func (s *rewardScale) scale(dst, reward []float32) {
	inv := 1.0
	if d := returnDeviation(s.moments.F64()); d > 0 {
		inv = 1 / d
	}
	for i, r := range reward {
		x := float64(r) * inv
		if s.clip > 0 {
			x = min(max(x, -s.clip), s.clip)
		}
		dst[i] = float32(x)
	}
}

// returnDeviation returns √(variance + 1e-8) for the moments m, or 0 if no return was added.
func returnDeviation(m []float64) float64 {
	if m[0] == 0 {
		return 0
	}
	return math.Sqrt(max(m[2], 0)/m[0] + 1e-8)
}

// RewardScale returns the number by which an algorithm divides rewards. state is a saved state of the algorithm. The
// result is 0 if the state has no such number.
func RewardScale(state tensor.Dict) float64 {
	if m, ok := state.Get(momentsName); ok && m.DType() == tensor.F64 && m.Len() == 3 {
		return returnDeviation(m.F64())
	}
	return 0
}

const momentsName = "reward.moments"

// save adds views of the state to d, under names that begin with "reward." and "env.".
func (s *rewardScale) save(d *tensor.Dict) {
	d.Set(momentsName, s.moments)
	d.Set("env.return", s.running)
}
