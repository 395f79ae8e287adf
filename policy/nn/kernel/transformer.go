package kernel

import "math"

// RMSNorm sets y [m,n] to w∘x·inv, row by row, and inv [m] to 1/√(mean x² + eps), for x [m,n] and w
// [n]. Zhang and Sennrich 2019, arXiv:1910.07467. y may be x.
func RMSNorm(y, inv, x, w []float32, m, n int, eps float64) {
	checkLen("rms norm", "y", len(y), m, n)
	checkLen("rms norm", "inv", len(inv), m, 1)
	checkLen("rms norm", "x", len(x), m, n)
	checkLen("rms norm", "w", len(w), 1, n)
	if vectors(x) {
		rmsNormSIMD(&y[0], &inv[0], &x[0], &w[0], m, n, eps)
		return
	}
	for i := range m {
		row, out := x[i*n:(i+1)*n], y[i*n:(i+1)*n]
		var lanes [sumLanes]float64
		for j, v := range row {
			lanes[j%sumLanes] += float64(v) * float64(v) // the product is exact, fused or not
		}
		r := float32(1 / math.Sqrt(foldLanes(&lanes)/float64(n)+eps))
		inv[i] = r
		for j, v := range row {
			out[j] = float32(v*r) * w[j]
		}
	}
}

// foldLanes returns the sum of the lanes, added as a tree of halves. It overwrites l.
func foldLanes[T Float](l *[sumLanes]T) T {
	for half := sumLanes / 2; half > 0; half /= 2 {
		for i := range half {
			l[i] += l[i+half]
		}
	}
	return l[0]
}

// RMSNormGrad is the backward pass of y = RMSNorm(x). dy [m,n] is the gradient of y, and inv [m] comes from the forward
// pass. RMSNormGrad sets dx [m,n] to the gradient of x, or adds this gradient to dx with acc. Unless dw [n] is nil,
// RMSNormGrad adds Σ dy∘x·inv to dw. The sum is over the rows in order. dx may be dy.
func RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n int, acc bool) {
	checkLen("rms norm grad", "dx", len(dx), m, n)
	checkLen("rms norm grad", "dy", len(dy), m, n)
	checkLen("rms norm grad", "x", len(x), m, n)
	checkLen("rms norm grad", "w", len(w), 1, n)
	checkLen("rms norm grad", "inv", len(inv), m, 1)
	if dw != nil {
		checkLen("rms norm grad", "dw", len(dw), 1, n)
	}
	if vectors(x) {
		g := normGrad{dx: &dx[0], dw: address(dw), dy: &dy[0], x: &x[0], w: &w[0], inv: &inv[0], m: m, n: n}
		if acc {
			g.acc = 1
		}
		rmsNormGradSIMD(&g)
		return
	}
	for i := range m {
		row, d, out, r := x[i*n:(i+1)*n], dy[i*n:(i+1)*n], dx[i*n:(i+1)*n], inv[i]
		var lanes [sumLanes]float64
		for j, v := range row {
			lanes[j%sumLanes] += float64(float32(w[j]*d[j])) * float64(v)
		}
		mean := float32(foldLanes(&lanes) * float64(r) * float64(r) / float64(n))
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

// A normGrad holds the arguments of RMSNormGrad in the layout of the assembly.
type normGrad struct {
	dx, dw, dy, x, w, inv *float32
	m, n, acc             int
}

// Rotate rotates the pairs of elements j and half+j in all heads of x [rows, heads, 2·half], and multiplies the
// elements by scale. cos and sin [rows, half] hold the cosines and sines of the angles. With inverse, Rotate rotates by
// the negative angles. Su et al. 2021, arXiv:2104.09864.
func Rotate(x, cos, sin []float32, rows, heads, half int, scale float32, inverse bool) {
	checkLen("rotate", "x", len(x), rows*heads, 2*half)
	checkLen("rotate", "cos", len(cos), rows, half)
	checkLen("rotate", "sin", len(sin), rows, half)
	if vectors(x) {
		r := rotation{x: &x[0], cos: &cos[0], sin: &sin[0], rows: rows, heads: heads, half: half, scale: scale}
		if inverse {
			r.sign = float32(math.Copysign(0, -1))
		}
		rotateSIMD(&r)
		return
	}
	for i := range rows {
		c, s := cos[i*half:(i+1)*half], sin[i*half:(i+1)*half]
		for h := range heads {
			head := x[(i*heads+h)*2*half:][:2*half]
			for j := range half {
				a, b, sj := head[j], head[half+j], s[j]
				if inverse {
					sj = -sj
				}
				head[j] = float32(float32(a*c[j])-float32(b*sj)) * scale
				head[half+j] = float32(float32(b*c[j])+float32(a*sj)) * scale
			}
		}
	}
}

// A rotation holds the arguments of Rotate in the layout of the assembly. If inverse is set, sign is -0; otherwise it
// is 0.
type rotation struct {
	x, cos, sin       *float32
	rows, heads, half int
	sign, scale       float32
}

// SwiGLU sets y to gate·σ(gate)·up, with σ the logistic function. Shazeer 2020, arXiv:2002.05202.
func SwiGLU(y, gate, up []float32) {
	checkSame("swiglu", "gate", len(gate), len(y))
	checkSame("swiglu", "up", len(up), len(y))
	if vectors(y) {
		swigluSIMD(&y[0], &gate[0], &up[0], len(y), 0)
		return
	}
	sigmoid(y, gate)
	for i, s := range y {
		y[i] = float32(gate[i]*s) * up[i]
	}
}

// SwiGLUGrad replaces gate and up with their gradients, and sets y to the result of SwiGLU. dy is the gradient of this
// result. dy and y overlap nothing.
func SwiGLUGrad(y, gate, up, dy []float32) {
	checkSame("swiglu grad", "gate", len(gate), len(y))
	checkSame("swiglu grad", "up", len(up), len(y))
	checkSame("swiglu grad", "dy", len(dy), len(y))
	if vectors(y) {
		swigluGradSIMD(&y[0], &gate[0], &up[0], &dy[0], len(y))
		return
	}
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

// SoftmaxBlock is one step of a softmax over blocks of columns (Milakov and Gimelshein 2018, arXiv:1805.02867). Row r
// of x is x[r·step:][:width]. The first count + r·perRow elements of row r are scores, and the other elements are
// masked. For each row SoftmaxBlock updates top, which is the largest score so far, and sum, which is the sum of
// exponentials:
//
//	top' = max(top, scores),    decay = e^(top - top'),    sum' = sum·decay + Σ e^(score - top')
//
// It replaces each score with e^(score - top'), and each masked element with 0. For the first block, top is -Inf, sum
// is 0, and decay may be nil. In a later block, a row without scores keeps top and sum.
//
// Each row must have room for width elements, rounded up to a multiple of 16. SoftmaxBlock overwrites all of this room.
func SoftmaxBlock(x []float32, step, rows, width, count, perRow int, top, sum, decay []float32) {
	if rows == 0 || width == 0 {
		return
	}
	checkRows("softmax", x, step, rows, width)
	var sums, logs [softmaxRows]float32
	for ; rows > 0; rows -= softmaxRows {
		n := min(rows, softmaxRows)
		if vectors(x) {
			s := newSoftmax(x, step, n, width, count, perRow)
			s.top, s.sum, s.d = &top[:n][0], &sums[0], &logs[0]
			softmaxSIMD(&s)
		} else {
			softmaxPlain(x, step, n, width, count, perRow, top, sums[:], logs[:])
		}
		if decay == nil {
			copy(sum, sums[:n])
		} else {
			Exp(decay[:n], logs[:n])
			for r := range n {
				sum[r] = float32(sum[r]*decay[r]) + sums[r]
			}
			decay = decay[n:]
		}
		if rows > n {
			x, count, top, sum = x[n*step:], count+n*perRow, top[n:], sum[n:]
		}
	}
}

// softmaxRows is the number of rows of a softmax that are processed at a time.
const softmaxRows = 32

// checkRows panics unless each row has room for whole vectors.
func checkRows(op string, x []float32, step, rows, width int) {
	room := (width + sumLanes - 1) / sumLanes * sumLanes
	if rows > 1 && step < room || len(x) < (rows-1)*step+room {
		panic("kernel: " + op + ": rows without room for whole vectors")
	}
}

// A softmax holds the arguments of SoftmaxBlock or SoftmaxBlockGrad in the layout of the assembly. step is in bytes,
// and bytes is the width in bytes. For SoftmaxBlock, d is decay. For SoftmaxBlockGrad, d is dp, top is lse and sum is
// mean.
type softmax struct {
	x, top, sum, d                        *float32
	step, rows, width, bytes, first, more int
}

// newSoftmax returns a softmax without top, sum and d.
func newSoftmax(x []float32, step, rows, width, first, more int) softmax {
	return softmax{x: &x[0], step: 4 * step, rows: rows, width: width, bytes: 4 * width, first: first, more: more}
}

// softmaxPlain is SoftmaxBlock in plain loops. But it sets decay to the logarithm of the decay, and sums to the sum of
// each row.
func softmaxPlain(x []float32, step, rows, width, count, perRow int, top, sums, decay []float32) {
	for r := range rows {
		row := x[r*step:][:width]
		scores := min(max(count+r*perRow, 0), width)
		high := top[r]
		for _, v := range row[:scores] {
			high = max(high, v)
		}
		decay[r], top[r] = top[r]-high, high
		for j, v := range row[:scores] {
			row[j] = v - high
		}
		Exp(row[:scores], row[:scores])
		clear(row[scores:])
		var lanes [sumLanes]float32
		for j, v := range row {
			lanes[j%sumLanes] += v
		}
		sums[r] = foldLanes(&lanes)
	}
}

// SoftmaxBlockGrad replaces the scores x with the probabilities p = e^(x - lse). It replaces dp, which is the gradient
// of the probabilities, with p·(dp - mean), which is the gradient of the scores. x and dp have the layout of x in
// SoftmaxBlock. Masked elements become 0. lse and mean have an element for each row; mean is Σ p·dp over all columns.
func SoftmaxBlockGrad(x, dp []float32, step, rows, width, count, perRow int, lse, mean []float32) {
	if rows == 0 || width == 0 {
		return
	}
	checkRows("softmax grad", x, step, rows, width)
	checkRows("softmax grad", dp, step, rows, width)
	if vectors(x) {
		s := newSoftmax(x, step, rows, width, count, perRow)
		s.top, s.sum, s.d = &lse[:rows][0], &mean[:rows][0], &dp[0]
		softmaxGradSIMD(&s)
		return
	}
	for r := range rows {
		row, d := x[r*step:][:width], dp[r*step:][:width]
		scores := min(max(count+r*perRow, 0), width)
		for j, v := range row[:scores] {
			row[j] = v - lse[r]
		}
		Exp(row[:scores], row[:scores])
		clear(row[scores:])
		for j, p := range row[:scores] {
			d[j] = float32(p * (d[j] - mean[r]))
		}
		clear(d[scores:])
	}
}

// SumExp returns top, the largest element of x, and two sums: Σ e^(x - top) and Σ e^(x - top)·(x - top). The order of
// the sums depends only on the length of x, which must be at least 1.
func SumExp(x []float32) (top, sum, weighted float32) {
	if vectors(x) {
		var sums [3]float32
		sumExpSIMD(&sums, &x[0], len(x))
		return sums[0], sums[1], sums[2]
	}
	var sums, weights [sumLanes]float32
	top = x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	var z, e [256]float32
	for len(x) > 0 {
		n := min(len(x), len(z))
		for j, v := range x[:n] {
			z[j] = v - top
		}
		Exp(e[:n], z[:n])
		for j, v := range e[:n] {
			sums[j%sumLanes] += v
			if v != 0 {
				weights[j%sumLanes] += float32(v * z[j])
			}
		}
		x = x[n:]
	}
	return top, foldLanes(&sums), foldLanes(&weights)
}

// ExpLess sets dst to e^(x-a). dst may be x.
func ExpLess(dst, x []float32, a float32) {
	checkSame("exp less", "x", len(x), len(dst))
	if vectors(dst) {
		expLessSIMD(&dst[0], &x[0], nil, len(dst), a)
		return
	}
	for i, v := range x {
		dst[i] = v - a
	}
	Exp(dst, dst)
}

// Dot returns Σ x·y, in an order that depends only on the length.
func Dot[T Float](x, y []T) T {
	checkSame("dot", "y", len(y), len(x))
	if vectors(x) {
		var sum float32
		dotSIMD(&sum, address(x), address(y), len(x))
		return T(sum)
	}
	var lanes [sumLanes]T
	for i, v := range x {
		lanes[i%sumLanes] += T(v * y[i])
	}
	return foldLanes(&lanes)
}
