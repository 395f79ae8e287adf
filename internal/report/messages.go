package report

import "github.com/rlinf/rlinf/internal/trace"

// messagesData has the messages between ranks in the newest attempt. With more than mostRanks ranks, it has the
// messages between nodes.
type messagesData struct {
	Of       string `json:"of"`       // rank or node
	N        int    `json:"n"`        // ranks or nodes
	Messages array  `json:"messages"` // one row per sender
	Bytes    array  `json:"bytes"`
}

// messages packs the matrix of messages.
func (r *Run) messages(p *packer) *messagesData {
	last, _ := r.lastAttempt()
	if last == nil || len(last.Sent) == 0 {
		return nil
	}
	d := &messagesData{Of: "rank", N: last.Ranks}
	of := func(rank int) int { return rank }
	if last.Ranks > mostRanks {
		nodes := make([]int, last.Ranks)
		d.Of, d.N = "node", 1
		for _, w := range last.Workers {
			if w.Rank < len(nodes) {
				nodes[w.Rank] = rowOfWorker(&w, true)
				d.N = max(d.N, nodes[w.Rank]+1)
			}
		}
		of = func(rank int) int { return nodes[rank] }
	}
	if d.N > mostNodes {
		return nil
	}
	messages, bytes := make([]float64, d.N*d.N), make([]float64, d.N*d.N)
	for _, s := range last.Sent {
		if isValid(s, last.Ranks) {
			cell := of(s.From)*d.N + of(s.To)
			messages[cell] += float64(s.Messages)
			bytes[cell] += float64(s.Bytes)
		}
	}
	d.Messages, d.Bytes = p.f64(messages), p.f64(bytes)
	return d
}

// mostNodes is the maximum number of nodes in a matrix of messages.
const mostNodes = 512

// isValid reports whether the numbers in s are possible with this number of ranks. A damaged file may have other
// numbers.
func isValid(s trace.Sent, ranks int) bool {
	return s.From >= 0 && s.From < ranks && s.To >= 0 && s.To < ranks && s.Messages > 0 && s.Bytes >= 0
}
