package algo

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// A temperature is α, the weight of the policy's entropy in SAC (Haarnoja et al. 2018,
// arXiv:1812.05905, §5): a network of one parameter.
type temperature struct {
	cfg   EntropyConfig
	train *trainState
}

func newTemperature(s *Setup, cfg EntropyConfig) (*temperature, error) {
	p := new(nn.Params[float32])
	p.Group("alpha")
	p.Add("alpha", 1)
	if err := p.Alloc(s.Alloc); err != nil {
		return nil, err
	}
	p.Data[0] = rawAlpha(cfg)
	train, err := s.newTrainState(p, cfg.Optim)
	return &temperature{cfg: cfg, train: train}, err
}

// temperatureKeys declares the keys of the temperature.
func temperatureKeys(k *Keys, c *EntropyConfig) {
	k.Read("entropy_tuning.alpha_type", "entropy_tuning.initial_alpha", "entropy_tuning.target_entropy")
	if c.AlphaType != AlphaFixed {
		k.ReadOptim("entropy_tuning.optim", &c.Optim)
	}
}

// alpha returns the temperature.
func (t *temperature) alpha() float64 { return alphaOf(t.cfg.AlphaType, t.raw()) }

// raw returns the parameter from which alpha is computed.
func (t *temperature) raw() float64 { return float64(t.train.params.Data[0]) }

// update makes one step that lowers -α (log π + target entropy). So α grows while the entropy is below its target.
// logProbs is the sum of log π over n samples of this replica. perSample is the weight of a sample in the mean over all
// replicas.
func (t *temperature) update(iteration int, logProbs, n float64, perSample float32) error {
	if t.cfg.AlphaType == AlphaFixed {
		return nil
	}
	t.train.open()
	excess := logProbs + n*float64(t.cfg.TargetEntropy)
	t.train.params.Grad[0] = float32(-alphaSlope(t.cfg.AlphaType, t.raw()) * excess * float64(perSample))
	return t.train.step(iteration)
}

// alphaOf returns α for the parameter x: log(1 + eˣ) with softplus, eˣ with exp, x with fixed_alpha.
func alphaOf(alphaType string, x float64) float64 {
	switch alphaType {
	case AlphaSoftplus:
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	case AlphaExp:
		return math.Exp(x)
	}
	return x
}

// alphaSlope returns dα/dx.
func alphaSlope(alphaType string, x float64) float64 {
	if alphaType == AlphaSoftplus {
		return 1 / (1 + math.Exp(-x))
	}
	return math.Exp(x)
}

// rawAlpha returns the x that gives the initial α.
func rawAlpha(c EntropyConfig) float32 {
	alpha := float64(c.InitialAlpha)
	switch c.AlphaType {
	case AlphaSoftplus:
		return float32(alpha + math.Log(-math.Expm1(-alpha))) // log(eᵅ - 1)
	case AlphaExp:
		return float32(math.Log(alpha))
	}
	return float32(alpha)
}
