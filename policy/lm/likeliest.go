package lm

// Likeliest appends to dst, for each target of the last pass, whether no other token has a larger
// logit. Of equal logits the one with the smaller id is the likeliest, as in greedy generation.
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
