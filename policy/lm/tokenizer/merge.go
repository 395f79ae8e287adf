package tokenizer

// A merger applies merges to the tokens of a piece: again and again the one of the lowest rank, of
// equals the leftmost. Its fields are memory kept between calls.
type merger struct {
	results    []uint64 // of each token with its right neighbour, as mergeTable gives them
	prev, next []int32  // the neighbours of the tokens that are left in a long piece
	queue      []queued
}

// shortPiece is the number of tokens up to which a plain search for the best merge beats the queue.
const shortPiece = 32

// merge applies merges to ids in place and returns the ids that are left.
func (w *merger) merge(table *mergeTable, ids []int32) []int32 {
	if len(ids) < 2 {
		return ids
	}
	w.results = w.results[:0]
	for i := range len(ids) - 1 {
		w.results = append(w.results, table.result(ids[i], ids[i+1]))
	}
	if len(ids) > shortPiece {
		return w.mergeLong(table, ids)
	}
	results := w.results
	for {
		best, at := noMerge, 0
		for i, r := range results {
			if r < best {
				best, at = r, i
			}
		}
		if best == noMerge {
			return ids
		}
		ids[at] = int32(best & 0xffffffff)
		ids = append(ids[:at+1], ids[at+2:]...)
		results = append(results[:at], results[at+1:]...)
		if at > 0 {
			results[at-1] = table.result(ids[at-1], ids[at])
		}
		if at < len(results) {
			results[at] = table.result(ids[at], ids[at+1])
		}
	}
}

// mergeLong does the same with a queue of merges and a list of the tokens that are left. An entry
// of the queue whose pair has changed since is passed over: results says what the pair at a place
// is worth now.
func (w *merger) mergeLong(table *mergeTable, ids []int32) []int32 {
	n := int32(len(ids))
	w.prev, w.next, w.queue = w.prev[:0], w.next[:0], w.queue[:0]
	w.results = append(w.results, noMerge)
	for i := range n {
		w.prev, w.next = append(w.prev, i-1), append(w.next, i+1)
		if w.results[i] != noMerge {
			w.queue = append(w.queue, queued{w.results[i], i})
		}
	}
	for i := len(w.queue)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
	for len(w.queue) > 0 {
		top := w.pop()
		at := top.at
		if w.results[at] != top.result {
			continue
		}
		gone := w.next[at]
		ids[at] = int32(top.result & 0xffffffff)
		w.results[gone] = noMerge
		w.next[at] = w.next[gone]
		if w.next[at] < n {
			w.prev[w.next[at]] = at
		}
		w.pair(table, ids, w.prev[at])
		w.pair(table, ids, at)
	}
	out := ids[:0]
	for i := int32(0); i < n; i = w.next[i] {
		out = append(out, ids[i])
	}
	return out
}

// pair looks up the merge of the token at a place with its right neighbour, and queues it.
func (w *merger) pair(table *mergeTable, ids []int32, at int32) {
	if at < 0 {
		return
	}
	w.results[at] = noMerge
	if right := w.next[at]; int(right) < len(ids) {
		w.results[at] = table.result(ids[at], ids[right])
	}
	if w.results[at] != noMerge {
		w.push(queued{w.results[at], at})
	}
}

// queued is a merge in the queue, a binary heap: by rank, then by place.
type queued struct {
	result uint64
	at     int32
}

func (q queued) before(r queued) bool {
	return q.result < r.result || q.result == r.result && q.at < r.at
}

func (w *merger) push(q queued) {
	w.queue = append(w.queue, q)
	for i := len(w.queue) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.queue[i].before(w.queue[up]) {
			return
		}
		w.queue[i], w.queue[up] = w.queue[up], w.queue[i]
		i = up
	}
}

func (w *merger) pop() queued {
	top, last := w.queue[0], len(w.queue)-1
	w.queue[0] = w.queue[last]
	w.queue = w.queue[:last]
	w.sink(0)
	return top
}

func (w *merger) sink(i int) {
	for {
		down := 2*i + 1
		if down >= len(w.queue) {
			return
		}
		if down+1 < len(w.queue) && w.queue[down+1].before(w.queue[down]) {
			down++
		}
		if !w.queue[down].before(w.queue[i]) {
			return
		}
		w.queue[i], w.queue[down] = w.queue[down], w.queue[i]
		i = down
	}
}
