package lm

import "math"

// likeliest sets dst[i] to 1 if the logit of target i is the largest of its row in the last pass, and to 0 otherwise.
// Of equal logits, the one with the smallest id counts as the largest, as in greedy generation.
func (m *Model) likeliest(w *Work, dst []float32, targets []Target) {
	v, step := m.local.Vocab, w.headRows()
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, 1)
		all, mine := w.ofAllRanks(2 * len(part)) // of each target the largest logit and its id
		for r := range part {
			best := 0
			row := logits[r*v : (r+1)*v]
			for at, x := range row {
				if x > row[best] {
					best = at
				}
			}
			if mine[2*r] = float32(math.Inf(-1)); v > 0 {
				mine[2*r], mine[2*r+1] = row[best], float32(m.firstID+best)
			}
		}
		w.collect(all, w.sizes)
		for r, t := range part {
			best := all[2*r:][:2]
			for from := all[2*len(part):]; len(from) > 0; from = from[2*len(part):] {
				if from[2*r] > best[0] {
					best = from[2*r:][:2]
				}
			}
			if dst[i+r] = 0; int32(best[1]) == t.Token {
				dst[i+r] = 1
			}
		}
	}
}
