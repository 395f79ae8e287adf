package tokenizer

import (
	"math/bits"
	"slices"
)

// A merger repeatedly applies the merge of the lowest rank to the tokens of a piece. If there are several merges of
// this rank, it applies the leftmost first. The fields are memory that is reused between calls.
type merger struct {
	results    []uint64 // mergeTable.result of each token and its right neighbour
	prev, next []int32  // neighbours of the remaining tokens of a long piece
	queue      queue
	places     []int32 // places of the merges of one rank
	symbols    []int32 // the tokens of a piece that is merged in windows
	window     window  // the window whose tokens are being written
	nextWindow window  // the next window
}

const (
	// shortPiece is the maximum number of tokens for which a linear search for the best merge is faster than the queue.
	shortPiece = 32
	// windowLength is the maximum number of tokens for which the memory of a merge stays in the L1 and L2 caches.
	windowLength = 2048
	// windowOverlap is the approximate number of tokens that two windows share.
	windowOverlap = 128
)

// merge applies merges to ids in place and returns the remaining ids.
func (w *merger) merge(table *mergeTable, ids []int32) []int32 {
	if len(ids) < 2 {
		return ids
	}
	if len(ids) > windowLength {
		return w.mergeWindows(table, ids, windowLength, windowOverlap)
	}
	w.lookUp(table, ids)
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

// lookUp sets w.results to the merges of all pairs of neighbours.
func (w *merger) lookUp(table *mergeTable, ids []int32) {
	w.results = w.results[:0]
	for i := range len(ids) - 1 {
		w.results = append(w.results, table.result(ids[i], ids[i+1]))
	}
}

// A window is a part of a piece that is merged separately.
type window struct {
	ids  []int32 // tokens after merging
	ends []int32 // end of each token in the piece
}

// mergeWindows merges a long piece in overlapping windows. It switches from one window to the next at a token that both
// windows have at the same place. The result is the same as without windows, because each pair of neighbouring tokens
// is inside one window. In the rare case that two windows have no common token, mergeWindows merges the whole piece at
// once.
func (w *merger) mergeWindows(table *mergeTable, ids []int32, length, overlap int32) []int32 {
	w.symbols = append(w.symbols[:0], ids...)
	a, b := &w.window, &w.nextWindow
	w.fill(table, a, 0, length)
	out, from := ids[:0], 0 // a.ids[:from] are already in out
	for int(last(a.ends)) < len(w.symbols) {
		i := len(a.ends) - 1
		for i > max(from-1, 0) && last(a.ends)-a.ends[i] < overlap {
			i--
		}
		w.fill(table, b, a.ends[i], length)
		i, j, ok := common(a, b, i+1)
		if !ok {
			ids = append(ids[:0], w.symbols...)
			w.lookUp(table, ids)
			return w.mergeLong(table, ids)
		}
		out = append(out, a.ids[from:i+1]...)
		a, b, from = b, a, j+1
	}
	return append(out, a.ids[from:]...)
}

// fill merges the window of w.symbols that begins at start, and stores the result in dst.
func (w *merger) fill(table *mergeTable, dst *window, start, length int32) {
	symbols := w.symbols[start:min(int(start+length), len(w.symbols))]
	dst.ids = append(dst.ids[:0], symbols...)
	w.lookUp(table, dst.ids)
	dst.ids = w.mergeLong(table, dst.ids)
	dst.ends = dst.ends[:0]
	for i := int32(0); int(i) < len(symbols); i = w.next[i] {
		dst.ends = append(dst.ends, start+w.next[i])
	}
}

// common searches window a, from its token i, for the first token that begins and ends at the same
// places as a token of window b. It returns the indices of both tokens. Token i of window a and the
// first token of window b must begin at the same place.
func common(a, b *window, i int) (inA, inB int, ok bool) {
	together := true // tokens i and j begin at the same place
	for j := 0; i < len(a.ends) && j < len(b.ends); {
		switch x, y := a.ends[i], b.ends[j]; {
		case x == y && together:
			return i, j, true
		case x == y:
			i, j, together = i+1, j+1, true
		case x < y:
			i, together = i+1, false
		default:
			j, together = j+1, false
		}
	}
	return 0, 0, false
}

func last(s []int32) int32 { return s[len(s)-1] }

// mergeLong implements merge with a queue of places and a linked list of the remaining tokens. w.results has the
// current merge at each place. mergeLong skips a queued place if its merge has changed in the meantime.
func (w *merger) mergeLong(table *mergeTable, ids []int32) []int32 {
	n := int32(len(ids))
	w.prev, w.next = w.prev[:0], w.next[:0]
	w.queue.reset(table.ranks)
	w.results = append(w.results, noMerge)
	for i := range n {
		w.prev, w.next = append(w.prev, i-1), append(w.next, i+1)
		if w.results[i] != noMerge {
			w.queue.push(int(w.results[i]>>32), i)
		}
	}
	for {
		rank := w.queue.first()
		if rank < 0 {
			break
		}
		w.places = w.queue.take(rank, w.places[:0])
		if !slices.IsSorted(w.places) {
			slices.Sort(w.places)
		}
		for i, at := range w.places {
			if int(w.results[at]>>32) != rank {
				continue
			}
			w.join(table, ids, at)
			if w.queue.lowest <= rank { // a new pair may come before the remaining places
				for _, at := range w.places[i+1:] {
					w.queue.push(rank, at)
				}
				break
			}
		}
	}
	out := ids[:0]
	for i := int32(0); i < n; i = w.next[i] {
		out = append(out, ids[i])
	}
	return out
}

// join merges the token at a place with its right neighbour.
func (w *merger) join(table *mergeTable, ids []int32, at int32) {
	gone := w.next[at]
	ids[at] = int32(w.results[at] & 0xffffffff)
	w.results[gone] = noMerge
	w.next[at] = w.next[gone]
	if int(w.next[at]) < len(ids) {
		w.prev[w.next[at]] = at
	}
	w.pair(table, ids, w.prev[at])
	w.pair(table, ids, at)
}

// pair looks up the merge of the token at a place with its right neighbour, and queues the place.
func (w *merger) pair(table *mergeTable, ids []int32, at int32) {
	if at < 0 {
		return
	}
	w.results[at] = noMerge
	if right := w.next[at]; int(right) < len(ids) {
		w.results[at] = table.result(ids[at], ids[right])
	}
	if w.results[at] != noMerge {
		w.queue.push(int(w.results[at]>>32), at)
	}
}

// A queue has a list of places for each rank, in the order of insertion. A long text has few ranks with many places
// each.
type queue struct {
	last   []int32  // [ranks]: 1 + index of the last block of the rank; 0 if the rank has no block
	used   []uint64 // a bit for each rank: whether the rank has blocks
	lowest int      // no rank below this rank has blocks
	blocks []block
}

// A block holds some of the places of one rank, and the index of the rank's next block. The last block of a rank points
// to the first block. A block fits into a cache line.
type block struct {
	at      [14]int32
	n, next int32
}

// reset empties the queue and prepares it for ranks below n.
func (q *queue) reset(n int) {
	if len(q.last) < n {
		q.last, q.used = make([]int32, n), make([]uint64, (n+63)/64)
	}
	q.blocks, q.lowest = q.blocks[:0], n
}

func (q *queue) push(rank int, at int32) {
	n := int32(len(q.blocks))
	next := n
	if last := q.last[rank] - 1; last < 0 {
		q.used[rank/64] |= 1 << (rank % 64)
		q.lowest = min(q.lowest, rank)
	} else if b := &q.blocks[last]; int(b.n) < len(b.at) {
		b.at[b.n] = at
		b.n++
		return
	} else {
		next, b.next = b.next, n
	}
	q.blocks, q.last[rank] = append(q.blocks, block{at: [14]int32{at}, n: 1, next: next}), n+1
}

// first returns the lowest rank that has places, or -1 if the queue is empty.
func (q *queue) first() int {
	for i := q.lowest / 64; i < len(q.used); i++ {
		if q.used[i] != 0 {
			return 64*i + bits.TrailingZeros64(q.used[i])
		}
	}
	return -1
}

// take removes the places of a rank from the queue and appends them to dst.
func (q *queue) take(rank int, dst []int32) []int32 {
	last := q.last[rank] - 1
	for i := last; ; {
		b := &q.blocks[q.blocks[i].next]
		dst = append(dst, b.at[:b.n]...)
		if i = q.blocks[i].next; i == last {
			break
		}
	}
	q.last[rank], q.lowest = 0, rank+1
	q.used[rank/64] &^= 1 << (rank % 64)
	return dst
}
