package nn

import "math"

// groupNorm normalises each group of channels of an image x. μ and σ² are the mean and the variance over the channels
// and pixels of the group (Wu and He 2018, arXiv:1803.08494):
//
//	y = γ x̂ + β,    x̂ = (x - μ)/√(σ² + 1e-5)
type groupNorm[T Float] struct {
	p           *Params[T]
	in          Image
	channels    int // number of channels in a group
	gamma, beta int // fields of p
}

func newGroupNorm[T Float](p *Params[T], name string, in Image, groups int) *groupNorm[T] {
	return &groupNorm[T]{p: p, in: in, channels: in.C / groups, gamma: p.Add(name+".weight", in.C),
		beta: p.Add(name+".bias", in.C)}
}

func (u *groupNorm[T]) Init(uint64) {
	gamma := u.p.Of(u.gamma)
	for i := range gamma {
		gamma[i] = 1
	}
	clear(u.p.Of(u.beta))
}

func (u *groupNorm[T]) NewWork(w *NetWork[T]) unitWork[T] {
	c := u.in.C
	return &groupNormWork[T]{groupNorm: u, unit: w.rows(u.in.Len()), y: w.rows(u.in.Len()), inv: w.rows(c),
		mean: Vector[T](c), sum: make([]float64, c), along: make([]float64, c)}
}

type groupNormWork[T Float] struct {
	*groupNorm[T]
	unit, y    []T       // [rows,H,W,C]: x̂ and the output
	inv        []T       // [rows,C]: 1/√(σ² + 1e-5) of each channel's group
	mean       []T       // [C]: mean of each channel's group in the present image
	sum, along []float64 // [C]: sums over the pixels of an image
}

func (w *groupNormWork[T]) Forward(b *Batch[T], x []T) []T {
	gamma, beta, each, c := w.p.Of(w.gamma), w.p.Of(w.beta), w.in.Len(), w.in.C
	for i := range b.Rows {
		img, inv := x[i*each:(i+1)*each], w.inv[i*c:(i+1)*c]
		clear(w.sum)
		for lo := 0; lo < each; lo += c {
			for k, v := range img[lo : lo+c] {
				w.sum[k] += float64(v)
			}
		}
		w.average(w.sum)
		for k, m := range w.sum {
			w.mean[k] = T(m)
		}
		clear(w.along)
		for lo := 0; lo < each; lo += c {
			for k, v := range img[lo : lo+c] {
				d := float64(v) - w.sum[k]
				w.along[k] += d * d
			}
		}
		w.average(w.along)
		for k, v := range w.along {
			inv[k] = T(1 / math.Sqrt(v+layerNormVariance))
		}
		for lo := 0; lo < each; lo += c {
			unit, y := w.unit[i*each+lo:][:c], w.y[i*each+lo:][:c]
			for k, v := range img[lo : lo+c] {
				unit[k] = (v - w.mean[k]) * inv[k]
				y[k] = T(gamma[k]*unit[k]) + beta[k]
			}
		}
	}
	return w.y[:b.Rows*each]
}

// average replaces the sums over the pixels of each channel with the mean of the channel's group.
func (u *groupNorm[T]) average(sums []float64) {
	for lo := 0; lo < len(sums); lo += u.channels {
		group, all := sums[lo:lo+u.channels], 0.
		for _, s := range group {
			all += s
		}
		for k := range group {
			group[k] = all / float64(u.channels*u.in.H*u.in.W)
		}
	}
}

// Backward computes dx = (g - mean(g) - x̂ mean(g x̂))/√(σ² + 1e-5), with g = γ dy and means over the group.
func (w *groupNormWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	gamma, dGamma, dBeta := w.p.Of(w.gamma), w.p.GradOf(w.gamma), w.p.GradOf(w.beta)
	each, c := w.in.Len(), w.in.C
	for i := range b.Rows {
		clear(w.sum)
		clear(w.along)
		for lo := i * each; lo < (i+1)*each; lo += c {
			unit := w.unit[lo:][:c]
			for k, v := range dy[lo : lo+c] {
				w.sum[k] += float64(v)
				w.along[k] += float64(v) * float64(unit[k])
			}
		}
		for k, g := range gamma {
			dBeta[k] += T(w.sum[k])
			dGamma[k] += T(w.along[k])
			w.sum[k] *= float64(g)
			w.along[k] *= float64(g)
		}
		if dx == nil {
			continue
		}
		w.average(w.sum)
		w.average(w.along)
		inv := w.inv[i*c : (i+1)*c]
		for lo := i * each; lo < (i+1)*each; lo += c {
			unit, to := w.unit[lo:][:c], dx[lo:][:c]
			for k, v := range dy[lo : lo+c] {
				to[k] = T((float64(gamma[k])*float64(v) - w.sum[k] - float64(unit[k])*w.along[k]) * float64(inv[k]))
			}
		}
	}
	ready(w.p.Range(w.gamma, w.beta))
	return dx
}
