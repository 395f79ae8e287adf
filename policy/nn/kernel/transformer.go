package kernel

import "math"

// RMSNorm sets y [m,n] to w∘x·inv, row by row, and inv [m] to 1/√(mean x² + eps), for x [m,n] and w
// [n]. Zhang and Sennrich 2019, arXiv:1910.07467. y may be x.
func RMSNorm(y, inv, x, w []float32, m, n int, eps float64) {
	checkLen("rms norm", "y", len(y), m, n)
	checkLen("rms norm", "inv", len(inv), m, 1)
	checkLen("rms norm", "x", len(x), m, n)
	checkLen("rms norm", "w", len(w), 1, n)
	for i := range m {
		row, out := x[i*n:(i+1)*n], y[i*n:(i+1)*n]
		r := float32(1 / math.Sqrt(SumSq(row)/float64(n)+eps))
		inv[i] = r
		for j, v := range row {
			out[j] = float32(v*r) * w[j]
		}
	}
}

// RMSNormGrad adds to dx [m,n] the derivative through y = RMSNorm(x), given dy [m,n] and the inv of
// the forward pass, or sets dx to it without acc. It adds Σ dy∘x·inv over the rows, in order, to dw
// [n] unless that is nil. dx may be dy.
func RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n int, acc bool) {
	checkLen("rms norm grad", "dx", len(dx), m, n)
	checkLen("rms norm grad", "dy", len(dy), m, n)
	checkLen("rms norm grad", "x", len(x), m, n)
	checkLen("rms norm grad", "w", len(w), 1, n)
	checkLen("rms norm grad", "inv", len(inv), m, 1)
	for i := range m {
		row, d, out, r := x[i*n:(i+1)*n], dy[i*n:(i+1)*n], dx[i*n:(i+1)*n], inv[i]
		var sum [4]float64
		for j, v := range row {
			sum[j&3] += float64(float32(w[j]*d[j])) * float64(v)
		}
		mean := float32(((sum[0] + sum[1]) + (sum[2] + sum[3])) * float64(r) * float64(r) / float64(n))
		if dw != nil {
			for j, v := range row {
				dw[j] += float32(d[j] * float32(v*r))
			}
		}
		for j, v := range row {
			g := float32(r * (float32(w[j]*d[j]) - float32(v*mean)))
			if acc {
				g += out[j]
			}
			out[j] = g
		}
	}
}

// SwiGLU sets y to gate·σ(gate)·up, with σ the logistic function. Shazeer 2020, arXiv:2002.05202.
func SwiGLU(y, gate, up []float32) {
	checkSame("swiglu", "gate", len(gate), len(y))
	checkSame("swiglu", "up", len(up), len(y))
	sigmoid(y, gate)
	for i, s := range y {
		y[i] = float32(gate[i]*s) * up[i]
	}
}

// SwiGLUGrad turns gate and up into the derivatives by them, given dy, and sets y to what SwiGLU
// gave. dy and y overlap nothing.
func SwiGLUGrad(y, gate, up, dy []float32) {
	checkSame("swiglu grad", "gate", len(gate), len(y))
	checkSame("swiglu grad", "up", len(up), len(y))
	checkSame("swiglu grad", "dy", len(dy), len(y))
	sigmoid(y, gate)
	for i, s := range y {
		g, u, d := gate[i], up[i], dy[i]
		silu := float32(g * s)
		y[i] = float32(silu * u)
		up[i] = float32(d * silu)
		gate[i] = float32(float32(d*u) * (s + float32(silu*(1-s))))
	}
}

// sigmoid sets y to 1/(1+e^-x).
func sigmoid(y, x []float32) {
	for i, v := range x {
		y[i] = -v
	}
	Exp(y, y)
	for i, e := range y {
		y[i] = 1 / (1 + e)
	}
}

// softmaxLanes is how many partial sums a softmax keeps: element i goes to sum i mod softmaxLanes.
const softmaxLanes = 16

// foldLanes adds partial sums, halves first.
func foldLanes(l *[softmaxLanes]float32) float32 {
	for half := softmaxLanes / 2; half > 0; half /= 2 {
		for i := range half {
			l[i] += l[i+half]
		}
	}
	return l[0]
}

// SoftmaxBlock is one step of a softmax over blocks of columns (Milakov and Gimelshein 2018,
// arXiv:1805.02867). Row r of x, x[r·step] and the width-1 elements that follow, holds scores of
// which the first first + r·more count, those within the width. For each row it moves top to the
// largest score so far, sets the row to e^(score - top), 0 where a score does not count, sets decay
// to e^(old top - top) and sum to sum·decay + Σ row. Start with top -Inf and sum 0. A row of whose
// scores none counts keeps top and sum, once it has had one.
func SoftmaxBlock(x []float32, step, rows, width, first, more int, top, sum, decay []float32) {
	inf := float32(math.Inf(-1))
	for r := range rows {
		row := x[r*step:][:width]
		count := min(max(first+r*more, 0), width)
		high := top[r]
		for _, v := range row[:count] {
			high = max(high, v)
		}
		for j, v := range row[:count] {
			row[j] = v - high
		}
		for j := range row[count:] {
			row[count+j] = inf
		}
		decay[r] = top[r] - high
		top[r] = high
		Exp(row, row)
	}
	Exp(decay[:rows], decay[:rows])
	for r := range rows {
		var lanes [softmaxLanes]float32
		for j, v := range x[r*step:][:width] {
			lanes[j%softmaxLanes] += v
		}
		sum[r] = float32(sum[r]*decay[r]) + foldLanes(&lanes)
	}
}

// SoftmaxBlockGrad turns scores x and the derivatives dp by their probabilities into probabilities
// e^(x - lse), in x, and derivatives by the scores, p·(dp - mean), in dp. Rows, width and what
// counts are as in SoftmaxBlock; lse and mean belong to the rows, where mean is Σ p·dp over all
// columns.
func SoftmaxBlockGrad(x, dp []float32, step, rows, width, first, more int, lse, mean []float32) {
	inf := float32(math.Inf(-1))
	for r := range rows {
		row, d := x[r*step:][:width], dp[r*step:][:width]
		count := min(max(first+r*more, 0), width)
		for j, v := range row[:count] {
			row[j] = v - lse[r]
		}
		for j := range row[count:] {
			row[count+j] = inf
		}
		Exp(row, row)
		for j, p := range row[:count] {
			d[j] = float32(p * (d[j] - mean[r]))
		}
		clear(d[count:])
	}
}

// SumExp returns the largest element of x, Σ e^(x - top) and Σ e^(x - top)·(x - top). The order of
// the sums depends on the length of x alone. x holds at least one element.
func SumExp(x []float32) (top, sum, weighted float32) {
	top = x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	var z, e [256]float32
	var sums, weights [softmaxLanes]float32
	for len(x) > 0 {
		n := min(len(x), len(z))
		for j, v := range x[:n] {
			z[j] = v - top
		}
		Exp(e[:n], z[:n])
		for j, v := range e[:n] {
			sums[j%softmaxLanes] += v
			if v != 0 {
				weights[j%softmaxLanes] += float32(v * z[j])
			}
		}
		x = x[n:]
	}
	return top, foldLanes(&sums), foldLanes(&weights)
}

// Dot returns Σ x·y, in an order that depends on the length alone.
func Dot(x, y []float32) float32 {
	checkSame("dot", "y", len(y), len(x))
	var lanes [softmaxLanes]float32
	for i, v := range x {
		lanes[i%softmaxLanes] += float32(v * y[i])
	}
	return foldLanes(&lanes)
}
