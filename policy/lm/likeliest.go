package lm

// Likeliest appends to dst, for each target, whether its logit is the largest of its row in the
// last pass. Of equal logits, the one with the smallest id counts, like in greedy generation.
func (m *Model) Likeliest(w *Work, dst []bool, targets []Target) []bool {
	v, step := m.Config.Vocab, w.headRows()
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, 1)
		for r, t := range part {
			best := 0
			row := logits[r*v : (r+1)*v]
			for token, x := range row {
				if x > row[best] {
					best = token
				}
			}
			dst = append(dst, best == int(t.Token))
		}
	}
	return dst
}
