package algo

import "math"

// A SurrogateKind is one of the policy's objectives.
type SurrogateKind uint8

// In the following, A is the advantage of an action. log π, old and prox are the log-probs of the action under three
// policies. log π is under the policy that learns. old is under the policy that took the action. prox is under the
// policy around which ratios are clipped. old and prox are usually equal.
const (
	// Clipped is the objective of PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7, with separate
	// bounds and the dual clip of Ye et al. 2020, arXiv:1912.09729, eq. 5:
	//
	//	ρ = exp(log π - prox),    L = max(-A ρ, -A clip(ρ, 1-low, 1+high)),    for A < 0: L ← min(L, c |A|)
	Clipped SurrogateKind = iota
	// Decoupled is for samples of an older policy (Hilton et al. 2022, arXiv:2110.00641; Fu et al. 2025,
	// arXiv:2505.24298): importance weights account for the policy that took the actions. Decoupled equals Clipped if
	// prox = old:
	//
	//	ρ = exp(log π - prox),    w = exp(prox - old),    L = w max(-A ρ, -A clip(ρ, 1-low, 1+high)),    w a constant
	Decoupled
	// PolicyGradient is the plain policy gradient (Williams 1992; Mnih et al. 2016,
	// arXiv:1602.01783, for A2C). It is right only for samples of the policy that learns:
	//
	//	L = -A log π
	PolicyGradient
)

// A Surrogate is the policy's objective: a pure function of the log-probs and advantages of
// samples, which are the steps of environments or the tokens of texts.
type Surrogate struct {
	Kind SurrogateKind
	Clip Clip // for Clipped and Decoupled
	// MaxWeight is for Decoupled: log-probs with w > MaxWeight have no loss and no gradient, but
	// still count in the mean. 0 means no bound.
	MaxWeight float32
}

// A Clip has the bounds in the surrogate objective. A Dual of 0 sets no bound.
type Clip struct {
	Low, High      float32 // the ratio is clipped to [1-Low, 1+High]
	Dual           float32 // c > 1: the loss of a sample with negative advantage is at most c·|A|
	LogMin, LogMax float32 // bounds of the log ratio; no bounds if both are 0
}

// Samples is the input of a Surrogate: flat slices with L log-probs for each of len(Adv) samples. The L log-probs of a
// sample share its advantage.
type Samples struct {
	LogProb []float32 // log π
	Old     []float32 // not read by PolicyGradient
	Prox    []float32 // nil means Old
	Adv     []float32
	Weight  []float32 // factor of each sample's gradient; samples of weight 0 are in no sum; nil means 1 everywhere
}

// SurrogateSums holds sums over the log-probs of samples.
type SurrogateSums struct {
	Count       float64 // number of log-probs
	Loss        float64 // L
	Scaled      float64 // scale · weight · L
	LossAbs     float64 // |L|
	Ratio       float64 // ρ; 1 for PolicyGradient
	RatioAbs    float64 // |ρ - 1|
	Clipped     float64 // ρ clamped to the clip range
	DualClipped float64 // ρ if the dual clip bounds the loss, else 0
	KL          float64 // (ρ - 1) - log ρ, whose mean estimates KL(old‖new) without bias and is never negative
	Outside     float64 // number of log-probs whose ρ is outside the clip range

	// The following sums are only for Decoupled.
	Behave        float64 // w
	BehaveKL      float64 // (w - 1) - log w, whose mean estimates KL(behaviour‖proximal)
	BehaveClipped float64 // number of log-probs with w > MaxWeight
}

// Loss returns the sums over x. It writes the gradient of scale·Σ L with respect to each log-prob
// to dLogProb, which has the length of x.LogProb. It allocates nothing.
func (o *Surrogate) Loss(dLogProb []float32, x Samples, scale float32) SurrogateSums {
	n := len(x.Adv)
	if n == 0 || len(x.LogProb)%n != 0 || len(dLogProb) != len(x.LogProb) || x.Weight != nil && len(x.Weight) != n ||
		o.Kind != PolicyGradient && len(x.Old) != len(x.LogProb) || x.Prox != nil && len(x.Prox) != len(x.LogProb) {
		panic("algo: Surrogate: length mismatch")
	}
	if x.Prox == nil {
		x.Prox = x.Old
	}
	var s SurrogateSums
	var t term
	per := len(x.LogProb) / n
	for i, a := range x.Adv {
		row := i * per
		if idle(x.Weight, i) {
			clear(dLogProb[row : row+per])
			continue
		}
		scale := weighted(scale, x.Weight, i)
		for j := row; j < row+per; j++ {
			switch a, logProb := float64(a), float64(x.LogProb[j]); o.Kind {
			case Clipped:
				t.clip(&o.Clip, a, logProb-float64(x.Prox[j]))
			case Decoupled:
				t.clip(&o.Clip, a, logProb-float64(x.Prox[j]))
				t.loss, t.slope = s.behave(&t, float64(x.Prox[j])-float64(x.Old[j]), float64(o.MaxWeight))
			case PolicyGradient:
				t = term{loss: -a * logProb, slope: -a, ratio: 1, clipped: 1}
			}
			dLogProb[j] = float32(scale * t.slope)
			s.Scaled += scale * t.loss
			s.add(&t)
		}
		s.Count += float64(per)
	}
	return s
}

// A term is the objective of one log-prob.
type term struct {
	loss, slope    float64 // L, and its derivative with respect to the new log-prob
	logRatio       float64 // after clamping
	ratio, clipped float64 // ρ, and ρ within the clip range
	dual           bool    // whether the dual clip bounds the loss
}

// clip sets x to the clipped objective of a log-prob whose sample has advantage a.
func (x *term) clip(c *Clip, a, logRatio float64) {
	flows := true // whether the loss depends on the log-prob
	if c.LogMin != 0 || c.LogMax != 0 {
		bounded := min(max(logRatio, float64(c.LogMin)), float64(c.LogMax))
		flows = bounded == logRatio
		logRatio = bounded
	}
	x.logRatio, x.ratio, x.dual, x.slope = logRatio, math.Exp(logRatio), false, 0
	x.clipped = min(max(x.ratio, 1-float64(c.Low)), 1+float64(c.High))
	x.loss = -a * x.ratio
	if bound := -a * x.clipped; bound > x.loss {
		x.loss, flows = bound, false
	}
	if limit := -a * float64(c.Dual); c.Dual > 0 && a < 0 && x.loss > limit {
		x.loss, flows, x.dual = limit, false, true
	}
	if flows || math.IsNaN(x.loss) { // a NaN must reach the gradient, where it is found and named
		x.slope = x.loss // dρ/dlogProb = ρ, so dL/dlogProb = -A ρ = L
	}
}

// behave adds the importance weight exp(logW) to the sums. It returns the loss and slope of x times this weight. Both
// are 0 if the weight exceeds limit. A limit of 0 means no limit.
func (s *SurrogateSums) behave(x *term, logW, limit float64) (loss, slope float64) {
	w := math.Exp(logW)
	s.Behave += w
	s.BehaveKL += w - 1 - logW
	if limit > 0 && w > limit {
		s.BehaveClipped++
		return 0, 0
	}
	return x.loss * w, x.slope * w
}

// add adds the term of one log-prob to all sums except Count.
func (s *SurrogateSums) add(x *term) {
	s.Loss += x.loss
	s.LossAbs += math.Abs(x.loss)
	s.Ratio += x.ratio
	s.RatioAbs += math.Abs(x.ratio - 1)
	s.Clipped += x.clipped
	s.KL += x.ratio - 1 - x.logRatio
	if x.dual {
		s.DualClipped += x.ratio
	}
	if x.ratio != x.clipped {
		s.Outside++
	}
}
