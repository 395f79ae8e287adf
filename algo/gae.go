package algo

// A Trajectory holds T steps of N environments. Every slice has T·N elements. The element for environment n at step t
// has index t·N + n.
type Trajectory struct {
	T, N       int
	Reward     []float32
	Value      []float32 // values of the observations before the steps
	Next       []float32 // values of the observations after the steps, before any auto-reset; finite everywhere
	Terminated []uint8   // the episode ended by itself; the return does not include Next
	Truncated  []uint8   // the episode was cut off from outside; the return includes Next
	// BootstrapAlways makes the returns of terminated episodes include Next, too (RLinf's bootstrap_type always). Next
	// must then also hold the values after the last steps of terminated episodes.
	BootstrapAlways bool
}

// generalised returns the estimator of adv_type gae.
func generalised(gamma, lambda float32) estimator {
	return func(adv, ret []float32, x *experience) error {
		GAE(adv, ret, x.Trajectory, gamma, lambda)
		return nil
	}
}

// gaeKeys declares the keys of generalised and of its Trajectory.
func gaeKeys(s *Setup, k *Keys) {
	k.Read("gamma", "gae_lambda", "normalize_advantages", "bootstrap_type")
	k.ReadIf(s.Config.UpdateEpoch > 1, severalEpochs, "recompute_advantages")
}

// GAE sets adv to generalised advantage estimates, and ret to the returns. adv and ret have T·N elements each, and must
// not overlap an input. GAE bootstraps unless an episode terminated, and carries advantages only within an episode.
// Schulman et al. 2016, arXiv:1506.02438, eq. 16; time limits are handled as in Pardo et al. 2018, arXiv:1712.00378:
//
//	δ_t = r_t + γ (1 - terminated_t) next_t - v_t
//	A_t = δ_t + γ λ (1 - done_t) A_{t+1},    ret_t = A_t + v_t
func GAE(adv, ret []float32, tr *Trajectory, gamma, lambda float32) {
	n := tr.T * tr.N
	if len(adv) != n || len(ret) != n || len(tr.Reward) != n || len(tr.Value) != n || len(tr.Next) != n ||
		len(tr.Terminated) != n || len(tr.Truncated) != n {
		panic("algo: GAE: length mismatch")
	}
	for i := n - 1; i >= 0; i-- { // A_{t+1} of the same environment has index i+N
		a := tr.Reward[i] - tr.Value[i]
		if tr.Terminated[i] == 0 || tr.BootstrapAlways {
			a += gamma * tr.Next[i]
		}
		if tr.Terminated[i]|tr.Truncated[i] == 0 && i+tr.N < n {
			a += gamma * lambda * adv[i+tr.N]
		}
		adv[i] = a
		ret[i] = a + tr.Value[i]
	}
}
