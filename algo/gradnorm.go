package algo

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
)

// normBlock is the number of elements of a block. The norm adds up the blocks in a fixed order, so it does not depend
// on the order in which ranges of the gradient become final.
const normBlock = 4096

// A gradNorm computes the Euclidean norm of the gradient of all trainable parameters. It sums each
// block as soon as the block is final, while the block is still in the cache.
type gradNorm struct {
	params *nn.Params[float32]
	lo, hi int       // the range of params.Grad; blocks begin at lo
	sums   []float64 // sum of squares of each block
	known  []bool    // whether sums has the sum of each block; cleared before a new gradient

	device *nn.SquareSums // sums of squares of the parts of all blocks; nil unless the gradient is on a device
	block  []int          // the index of the block of each of these parts
}

// newGradNorm returns a gradNorm for p.Grad[lo:hi]. onDevice tells that the gradient is in memory of p's device.
func newGradNorm(p *nn.Params[float32], lo, hi int, onDevice bool) (n gradNorm, err error) {
	blocks := (hi - lo + normBlock - 1) / normBlock
	n = gradNorm{params: p, lo: lo, hi: hi, sums: make([]float64, blocks), known: make([]bool, blocks)}
	if !onDevice {
		return n, nil
	}
	var pieces []int64
	for b := range blocks {
		n.parts(b, func(lo, hi int) {
			n.block, pieces = append(n.block, b), append(pieces, int64(lo), int64(hi))
		})
	}
	n.device, err = p.NewSquareSums(pieces)
	return n, err
}

// parts calls visit for each trainable group in block b, with the range of the group in this block.
func (n *gradNorm) parts(b int, visit func(lo, hi int)) {
	from := n.lo + b*normBlock
	for _, g := range n.params.Groups {
		if lo, hi := max(g.Lo, from), min(g.Hi, from+normBlock, n.hi); g.Trainable && lo < hi {
			visit(lo, hi)
		}
	}
}

// sumFinal sums the blocks that lie entirely in elements [lo, hi) of the range. These elements must be final. The
// method squares sums all other blocks.
func (n *gradNorm) sumFinal(lo, hi int) {
	for b := (lo + normBlock - 1) / normBlock; b < len(n.sums) && min((b+1)*normBlock, n.hi-n.lo) <= hi; b++ {
		n.sum(b)
	}
}

func (n *gradNorm) sum(b int) {
	n.sums[b], n.known[b] = 0, true
	n.parts(b, func(lo, hi int) { n.sums[b] += n.params.Host().SumSq(n.params.Grad[lo:hi]) })
}

// squares returns the sum of squares of the gradient, which must be final.
func (n *gradNorm) squares() float64 {
	if n.device != nil {
		clear(n.sums)
		for i, s := range n.params.SquareSums(n.device) {
			n.sums[n.block[i]] += s
			n.known[n.block[i]] = true
		}
	}
	var sum float64
	for b := range n.sums {
		if !n.known[b] {
			n.sum(b)
		}
		sum += n.sums[b]
	}
	return sum
}

// root returns √sum, where sum is the sum of squares of p's gradient. If the gradient has a NaN or Inf, root returns an
// error that names the tensor.
func root(sum float64, p *nn.Params[float32]) (float64, error) {
	if math.IsNaN(sum) || math.IsInf(sum, 0) { // sums of squares of finite float32s are finite in float64
		return 0, notFinite(p)
	}
	return math.Sqrt(sum), nil
}

// A DivergedError reports a gradient that is not finite. The gradient was summed over the replicas
// before the check, so all replicas get the error.
type DivergedError struct {
	What      string
	Elsewhere bool // the tensor is on another rank of a sharded model
}

// Error names the tensor and the element.
func (e *DivergedError) Error() string { return e.What }

// notFinite returns an error that names the first tensor whose gradient has a NaN or Inf. If the tensor itself has one,
// the error names that too.
func notFinite(p *nn.Params[float32]) error {
	for i, f := range p.Fields {
		grad, data := p.GradOf(i), p.Of(i)
		at := slices.IndexFunc(grad, bad)
		if at < 0 {
			continue
		}
		what := fmt.Sprintf("gradient of %s%v: %v at element %d", f.Name, f.Shape, grad[at], at)
		if k := slices.IndexFunc(data, bad); k >= 0 {
			what += fmt.Sprintf("; the parameter itself has %v", data[k])
		}
		return &DivergedError{What: what}
	}
	return &DivergedError{What: "gradient has a NaN or Inf in no tensor of this rank", Elsewhere: true}
}

func bad(x float32) bool { return x-x != 0 }

// clipScale returns the factor that clips a gradient with the given norm. limit is the largest allowed norm; 0 means no
// limit.
func clipScale(norm, limit float64) float32 {
	if limit == 0 || norm <= limit {
		return 1
	}
	return float32(limit / norm)
}
