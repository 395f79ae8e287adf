package policy

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
)

// sde is generalised state-dependent exploration (Raffin, Kober and Stulp 2021, arXiv:2005.05719). An action is the
// mean μ(s) plus a linear function of φ(s). μ(s) are the outputs of the head, and φ(s) are its F inputs:
//
//	a_k = μ_k(s) + Σ_j φ_j(s) Z_jk S_jk,    Z ~ N(0, 1),    S = exp(log_std), [F,D]
//
// Z stays the same for sample_freq steps of an environment, so that exploration is smooth in time. For a given s and
// random Z, a_k is normal:
//
//	a_k ~ N(μ_k, v_k),    v_k = Σ_j φ_j² S_jk² + ε
type sde[T nn.Float] struct {
	p             *nn.Params[T]
	logStd        int // field of p, [F,D]
	feats, dims   int
	initial       float64
	freq          uint64
	learnFeatures bool // whether the gradient of v flows back into φ
}

// sdeVariance is ε. It keeps the density finite where all features are 0.
const sdeVariance = 1e-6

func newSDE[T nn.Float](p *nn.Params[T], name string, feats, dims int, initial float64, freq int,
	learnFeatures bool) *sde[T] {
	return &sde[T]{
		p: p, logStd: p.Add(name+".log_std", feats, dims), feats: feats, dims: dims,
		initial: initial, freq: uint64(freq), learnFeatures: learnFeatures,
	}
}

var _ distribution[float32] = (*sde[float32])(nil)

func (s *sde[T]) Outputs() int { return s.dims }

func (s *sde[T]) Init() { fill(s.p.Of(s.logStd), T(s.initial)) }

func (s *sde[T]) NewWork(maxRows int) distributionWork[T] {
	size := s.feats * s.dims
	return &sdeWork[T]{
		sde:      s,
		std:      nn.Vector[T](size),
		std2:     nn.Vector[T](size),
		dStd2:    nn.Vector[T](size),
		scratch:  nn.Vector[T](size),
		square:   nn.Vector[T](maxRows * s.feats),
		dSquare:  nn.Vector[T](maxRows * s.feats),
		variance: nn.Vector[T](maxRows * s.dims),
		u:        nn.Vector[T](maxRows * s.dims),
		matrices: make([]noiseMatrix[T], maxRows),
	}
}

type sdeWork[T nn.Float] struct {
	*sde[T]
	std, std2       []T // [F,D]: S and S²
	dStd2, scratch  []T // [F,D]
	square, dSquare []T // [n,F]: φ²
	variance        []T // [n,D]: v, then the gradient with respect to v
	u               []T // [n,D]: (a - μ)/√v
	matrices        []noiseMatrix[T]
}

// A noiseMatrix is the noise matrix Z of one row, kept for all steps of a period.
type noiseMatrix[T nn.Float] struct {
	seed, env, period uint64
	z                 []T // [F,D]; nil until it is first drawn
}

func (w *sdeWork[T]) Choose(a actions[T], logProb []T, in inputs[T], mode Mode, noise Noise) {
	w.variances(in)
	copy(a.box, in.out[:in.n*w.dims])
	if mode == Sample {
		for row := range in.n {
			x, phi := a.box[row*w.dims:(row+1)*w.dims], in.features[row*w.feats:(row+1)*w.feats]
			z := w.matrix(row, noise)
			for j, f := range phi {
				for k := range x {
					x[k] += f * w.std[j*w.dims+k] * z[j*w.dims+k]
				}
			}
		}
	}
	w.logProbs(logProb, nil, a, in)
}

func (w *sdeWork[T]) Evaluate(logProb, entropy []T, a actions[T], in inputs[T]) {
	w.variances(in)
	w.logProbs(logProb, entropy, a, in)
}

// Backward uses these derivatives. a is an action, μ its mean, v its variance, and u = (a - μ)/√v. φ are the features,
// and S the standard deviations of the noise matrix:
//
//	∂ log p / ∂μ = u/√v,    ∂ log p / ∂v = (u² - 1)/(2v),    ∂H / ∂v = 1/(2v),    ∂v_k / ∂ log S_jk = 2 φ_j² S_jk²
func (w *sdeWork[T]) Backward(dOut, dLogProb, dEntropy []T, _ actions[T], in inputs[T]) {
	dv := w.variance[:in.n*w.dims]
	for i, v := range dv {
		u, dl := w.u[i], dLogProb[i]
		dOut[i] = dl * u / sqrt(v)
		dv[i] = (dl*(u*u-1) + dEntropy[i]) / (2 * v)
	}
	w.p.Ops().Gradient(w.dStd2, w.square[:in.n*w.feats], dv, w.feats, w.dims, in.n, false)
	grad := w.p.GradOf(w.logStd)
	for i, d := range w.dStd2 {
		grad[i] += 2 * d * w.std2[i]
	}
}

// BackwardFeatures adds the gradient through the variance, ∂v_k / ∂φ_j = 2 φ_j S_jk², if learnFeatures is true.
func (w *sdeWork[T]) BackwardFeatures(dFeatures []T, in inputs[T]) {
	if !w.learnFeatures {
		return
	}
	dv, dSquare := w.variance[:in.n*w.dims], w.dSquare[:in.n*w.feats]
	w.p.Ops().Transpose(w.scratch, w.std2, w.feats, w.dims, 1)
	w.p.Ops().Product(dSquare, dv, w.scratch, nil, in.n, w.feats, w.dims, false)
	for i, f := range in.features[:in.n*w.feats] {
		dFeatures[i] += 2 * f * dSquare[i]
	}
}

// variances sets std, std2, square and variance.
func (w *sdeWork[T]) variances(in inputs[T]) {
	w.p.Ops().Exp(w.std, w.p.Of(w.logStd))
	for i, s := range w.std {
		w.std2[i] = s * s
	}
	square, variance := w.square[:in.n*w.feats], w.variance[:in.n*w.dims]
	for i, f := range in.features[:in.n*w.feats] {
		square[i] = f * f
	}
	fill(variance, sdeVariance)
	w.p.Ops().Product(variance, square, w.std2, nil, in.n, w.dims, w.feats, true)
}

func (w *sdeWork[T]) logProbs(logProb, entropy []T, a actions[T], in inputs[T]) {
	for i, v := range w.variance[:in.n*w.dims] {
		u, logStd := (a.box[i]-in.out[i])/sqrt(v), T(0.5*math.Log(float64(v)))
		w.u[i] = u
		logProb[i] = normalLogProb(u, logStd)
		if entropy != nil {
			entropy[i] = normalEntropy(logStd)
		}
	}
}

// matrix returns the noise matrix Z of a row, for the current period of the row's environment.
func (w *sdeWork[T]) matrix(row int, noise Noise) []T {
	m := &w.matrices[row]
	env, period := noise.Env[row], noise.Step[row]/w.freq
	if m.z != nil && m.seed == noise.Seed && m.env == env && m.period == period {
		return m.z
	}
	if m.z == nil {
		m.z = nn.Vector[T](w.feats * w.dims)
	}
	m.seed, m.env, m.period = noise.Seed, env, period
	s := philox.New(noise.Seed, philox.Exploration, env, period)
	Normals(m.z, &s)
	return m.z
}

func sqrt[T nn.Float](x T) T { return T(math.Sqrt(float64(x))) }
