package lm

import (
	"fmt"
	"math"
)

// A Rope describes the rotary embedding of queries and keys (Su et al. 2021, arXiv:2104.09864). It rotates elements j
// and j + HeadDim/2 by the angle f_j·position, with f_j = Theta^(-2j/HeadDim). Some values of Type change f_j for
// longer sequences.
type Rope struct {
	Theta  float64
	Type   RopeType
	Factor float64 // new length of sequences divided by Original

	LowFreqFactor, HighFreqFactor float64 // for llama3
	BetaFast, BetaSlow            float64 // for yarn: keep f_j above BetaFast rotations, divide f_j below BetaSlow
	AttentionFactor               float64 // for yarn: factor of cos and sin; if 0, it is computed from other fields
	MScale, MScaleAllDim          float64 // for yarn; 0 if not given
	Exact                         bool    // for yarn: do not round the ramp's ends to whole pairs (truncate: false)
	Original                      int     // for llama3 and yarn: the length of sequences in pre-training
}

// A RopeType names a rule that changes the frequencies.
type RopeType string

const (
	RopeDefault RopeType = "default"
	RopeLinear  RopeType = "linear" // f_j / Factor
	RopeLlama3  RopeType = "llama3" // a factor that depends on the wavelength
	RopeYarn    RopeType = "yarn"   // Peng et al. 2023, arXiv:2309.00071
)

func (r *Rope) check() error {
	if !(r.Theta > 1) {
		return fmt.Errorf("rope_theta is %g, must be above 1", r.Theta)
	}
	switch r.Type {
	case RopeDefault:
		return nil
	case RopeLinear, RopeLlama3, RopeYarn:
	default:
		return fmt.Errorf("rope_type is %q, must be one of %s, %s, %s, %s", r.Type, RopeDefault, RopeLinear, RopeLlama3,
			RopeYarn)
	}
	if !(r.Factor >= 1) {
		return fmt.Errorf("rope factor is %g, must be at least 1", r.Factor)
	}
	if r.Type == RopeLinear {
		return nil
	}
	if r.Original < 1 {
		return fmt.Errorf("rope original_max_position_embeddings is %d, must be at least 1", r.Original)
	}
	if r.Type == RopeLlama3 && !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor) {
		return fmt.Errorf("rope low_freq_factor is %g, high_freq_factor %g: the second must be larger", r.LowFreqFactor,
			r.HighFreqFactor)
	}
	if r.Type == RopeYarn && !(r.BetaSlow > 0 && r.BetaFast > r.BetaSlow) {
		return fmt.Errorf("rope beta_slow is %g, beta_fast %g: the second must be larger", r.BetaSlow, r.BetaFast)
	}
	return nil
}

// Frequencies returns f_j for heads of e elements, and the factor of cos and sin. The f_j are
// rounded to float32, as in the training of the checkpoints.
func (r *Rope) Frequencies(e int) (f []float32, scale float64) {
	f, scale = make([]float32, e/2), 1
	for j := range f {
		x := math.Pow(r.Theta, -2*float64(j)/float64(e))
		switch r.Type {
		case RopeLinear:
			x /= r.Factor
		case RopeLlama3:
			x = r.llama3(x)
		case RopeYarn:
			x = r.yarn(x, j, e)
		}
		f[j] = float32(x)
	}
	if r.Type == RopeYarn {
		scale = r.attentionFactor()
	}
	return f, scale
}

func (r *Rope) llama3(f float64) float64 {
	turns := float64(r.Original) * f / (2 * math.Pi) // rotations within the original length
	switch {
	case turns > r.HighFreqFactor:
		return f
	case turns < r.LowFreqFactor:
		return f / r.Factor
	}
	s := (turns - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
	return (1-s)*f/r.Factor + s*f
}

func (r *Rope) yarn(f float64, j, e int) float64 {
	corner := func(turns float64) float64 { // the pair with this number of rotations within the original length
		return float64(e) * math.Log(float64(r.Original)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	lo, hi := corner(r.BetaFast), corner(r.BetaSlow)
	if !r.Exact {
		lo, hi = math.Floor(lo), math.Ceil(hi)
	}
	lo, hi = max(lo, 0), min(hi, float64(e-1))
	if lo == hi {
		hi += 0.001
	}
	ramp := min(max((float64(j)-lo)/(hi-lo), 0), 1)
	return ramp*f/r.Factor + (1-ramp)*f
}

func (r *Rope) attentionFactor() float64 {
	m := func(scale float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*scale*math.Log(r.Factor) + 1
	}
	switch {
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.MScale != 0 && r.MScaleAllDim != 0:
		return m(r.MScale) / m(r.MScaleAllDim)
	}
	return m(1)
}

// A rotation holds the cosines and sines of the first positions.
type rotation struct {
	positions, half int       // half: pairs of elements in a head
	cos, sin        []float32 // [positions, half]
}

func newRotation(c *Config, positions int) rotation {
	f, scale := c.Rope.Frequencies(c.HeadDim)
	n := positions * len(f)
	r := rotation{positions, len(f), make([]float32, n), make([]float32, n)}
	for p := range positions {
		for j, x := range f {
			sin, cos := math.Sincos(float64(p) * float64(x))
			r.cos[p*r.half+j], r.sin[p*r.half+j] = float32(cos*scale), float32(sin*scale)
		}
	}
	return r
}

// prepareRotations computes rotations for at least the given number of positions. A table that is too small at least
// doubles, so a growing sequence rarely needs a new table.
func (w *Work) prepareRotations(positions int) error {
	if window := w.m.Config.Window; window > 0 && positions > window {
		return fmt.Errorf("a sequence of %d tokens is longer than sliding_window, %d: not supported", positions, window)
	}
	if positions > w.rotation.positions {
		w.rotation = newRotation(&w.m.Config, max(positions, 2*w.rotation.positions))
	}
	return nil
}

// gatherRotations collects the cosines and sines of all rows of a pass.
func (w *Work) gatherRotations() {
	r, n := &w.rotation, 0
	w.cos, w.sin = resize(w.cos, w.n*r.half), resize(w.sin, w.n*r.half)
	for _, s := range w.spans {
		from, to := s.first*r.half, (s.first+s.n)*r.half
		copy(w.cos[n:], r.cos[from:to])
		copy(w.sin[n:], r.sin[from:to])
		n += to - from
	}
	if w.onDevice {
		w.m.Params.Upload(w.cos)
		w.m.Params.Upload(w.sin)
	}
}

// rotate rotates the heads of queries and keys by the angles of their positions, and scales queries. If inverse is
// true, rotate turns the heads in the opposite direction, for the backward pass.
func (w *Work) rotate(q, keys []float32, inverse bool) {
	c, half := &w.m.local, w.rotation.half
	w.ops.Rotate(q[:w.n*c.Heads*2*half], keys[:w.n*c.KVHeads*2*half], w.cos, w.sin, w.n, c.Heads, c.KVHeads, half,
		queryScale(c), inverse)
}
