package algo

// An Overlong lowers the score of long episodes (soft overlong punishment of DAPO, Yu et al. 2025,
// arXiv:2503.14476, eq. 13, where Safe is L_max - L_cache). An episode of n steps gets
//
//	penalty = -Weight · min(max((n - Safe) / (Max - Safe), 0), 1)
//
// This is 0 up to Safe steps, and -Weight from Max steps on.
type Overlong struct {
	Weight    float64 // 0: no punishment
	Safe, Max int
}

// Penalty returns what is added to the score of an episode of n steps.
func (o Overlong) Penalty(n int) float64 {
	if o.Weight == 0 {
		return 0
	}
	return -o.Weight * min(max(float64(n-o.Safe)/float64(o.Max-o.Safe), 0), 1)
}
