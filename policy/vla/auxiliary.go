package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Foresees returns the names of the numbers that the policy predicts. See policy.Foreseer.
func (p *Policy) Foresees() (names []string) {
	if p.observed.predicted == 0 {
		return nil
	}
	for _, n := range p.observed.numbers {
		names = append(names, n.name)
	}
	return names
}

// An auxiliary is the memory of the auxiliary prediction (actor.model.foresight). The policy predicts what its observed
// numbers will be some steps later, and at the end of a demonstration (policy.Foreseer). These numbers are mostly hand
// positions, so they reveal the position of the named object better than actions do.
//
// The prediction ĝ is linear in the inputs of the MLP of numbers: the numbers and the keypoints. With vision_words or
// vision_film, the inputs include the features of the text. The targets g are normalised. The weight w is
// actor.model.foresight:
//
//	log p(g) = -½ w Σ (g - ĝ)²
type auxiliary struct {
	p                 *Policy
	logProb, dLogProb tensor.Tensor // [maxRows,L+1] and [maxRows,L]
	d                 []float32     // [maxRows, 2·numbers], ∂ log p(g) / ∂ĝ
}

func newAuxiliary(p *Policy, maxRows, logProbs int) *auxiliary {
	return &auxiliary{p: p, logProb: tensor.New(tensor.F32, maxRows, logProbs+1),
		dLogProb: tensor.New(tensor.F32, maxRows, logProbs), d: make([]float32, maxRows*p.observed.predicted)}
}

// evaluate appends the log-prob of the prediction to each row of logProb, [n,L], and returns the result, [n,L+1].
// features are the pass.features of the last forward.
func (a *auxiliary) evaluate(features []float32, logProb, goal tensor.Tensor) (tensor.Tensor, error) {
	p := a.p
	n, l, width := logProb.Dim(0), logProb.Dim(1), p.observed.predicted
	if goal.DType() != tensor.F32 || goal.Rank() != 2 || goal.Dim(0) != n || goal.Dim(1) != width {
		return tensor.Tensor{}, fmt.Errorf("goal %v: expected F32[%d %d]", goal, n, width)
	}
	mean, deviation := p.observed.stats(p.params)
	all := a.logProb.Slice(0, n)
	for i := range n {
		prediction, d := features[(i+1)*p.vision.Out-width:], a.d[i*width:(i+1)*width]
		var sum float64
		for k, g := range goal.At(i).F32() {
			of := k % len(mean)
			e := (float64(g)-mean[of])/deviation[of] - float64(prediction[k])
			sum += e * e
			d[k] = float32(p.own.Foresight * e)
		}
		row := all.F32()[i*(l+1) : (i+1)*(l+1)]
		copy(row, logProb.F32()[i*l:(i+1)*l])
		row[l] = -float32(p.own.Foresight * sum / 2)
	}
	return all, nil
}

// split splits d, the gradient of the result of evaluate. It returns the gradient of the log-probs of actions, [n,L],
// and the gradient of the predictions, [n, 2·numbers].
func (a *auxiliary) split(d tensor.Tensor) (dLogProb tensor.Tensor, dPrediction []float32) {
	n, l, width := d.Dim(0), d.Dim(1)-1, a.p.observed.predicted
	dLogProb, dPrediction = a.dLogProb.Slice(0, n), a.d[:n*width]
	for i := range n {
		row := d.F32()[i*(l+1) : (i+1)*(l+1)]
		copy(dLogProb.F32()[i*l:(i+1)*l], row)
		for k := range width {
			dPrediction[i*width+k] *= row[l]
		}
	}
	return dLogProb, dPrediction
}
