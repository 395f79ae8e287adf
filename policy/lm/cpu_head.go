package lm

import "github.com/rlinf/rlinf/policy/nn/kernel"

func (t *team) CrossEntropy(sums, logits []float32, targets []Target, first, width, blocks, block int) {
	per := 3*blocks + 1
	for r, target := range targets {
		row, to := logits[r*width:(r+1)*width], sums[r*per:(r+1)*per]
		for b := range blocks {
			p := sumBlock(row[min(b*block, width):min((b+1)*block, width)])
			to[3*b], to[3*b+1], to[3*b+2] = float32(p.top), float32(p.sum), float32(p.weighted)
		}
		if token := int(target.Token) - first; 0 <= token && token < width {
			to[per-1] = row[token]
		}
	}
}

func (t *team) CrossEntropyGrad(logits []float32, dists []Distribution, dlogp, dentropy []float32, targets []Target,
	first, width int) {
	for r, target := range targets {
		entropy := float32(0)
		if dentropy != nil {
			entropy = dentropy[r]
		}
		row := logits[r*width : (r+1)*width]
		logitsGrad(row, dists[r], dlogp[r], entropy)
		if token := int(target.Token) - first; 0 <= token && token < width {
			row[token] += dlogp[r]
		}
	}
}

func (t *team) Values(values, hidden, weight, bias []float32, rows []int32) {
	for i, row := range rows {
		sum := float64(bias[0])
		for j, h := range hidden[int(row)*len(weight):][:len(weight)] {
			sum += float64(weight[j]) * float64(h)
		}
		values[i] = float32(sum)
	}
}

func (t *team) Largest(best, logits []float32, n, width int) {
	for r := range n {
		row, at := logits[r*width:(r+1)*width], 0
		for i, x := range row {
			if x > row[at] {
				at = i
			}
		}
		best[2*r], best[2*r+1] = row[at], float32(at)
	}
}

// logitsGrad replaces x, the logits of a row, with the gradient of the loss with respect to x, without the term 1_t
// below. d is the distribution of the row, p are its probabilities and H is its
// entropy:
//
//	∂logp_t/∂x = 1_t - p,   ∂H/∂x = -p·(log p + H)
func logitsGrad(x []float32, d Distribution, dlogp, dentropy float32) {
	h, shift := float32(d.Entropy), float32(d.LSE)
	if dentropy == 0 {
		kernel.ExpLess(x, x, shift)
		kernel.Scale(x, -dlogp)
		return
	}
	var logs [256]float32
	for lo := 0; lo < len(x); lo += len(logs) {
		part := x[lo:min(lo+len(logs), len(x))]
		for j, v := range part {
			logs[j] = v - shift
		}
		kernel.ExpLess(part, part, shift)
		for j, p := range part {
			if p == 0 {
				part[j] = 0
				continue
			}
			part[j] = -p * (dlogp + float32(dentropy*(logs[j]+h)))
		}
	}
}
