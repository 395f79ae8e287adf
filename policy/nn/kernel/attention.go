package kernel

import "math"

// An AttentionBlock is one step of attention: some queries attend to a block of at most 64 keys. The softmax of the
// scores runs over all blocks of the queries (see SoftmaxBlock). Row r of the queries and of the output begins at
// r·Step.
type AttentionBlock struct {
	O, Q          []float32
	Step, Rows, E int                 // Rows: number of queries; E: elements of a query, of a key and of a value
	Pages         [maxPages][]float32 // each has 16 keys, [E,16], and then their values, [16,E]; nil if unused
	Width         int                 // number of keys in the block
	Count, PerRow int                 // row r attends to the first Count + r·PerRow keys of the block
	Top, Sum      []float32           // for each row: largest score so far, and Σ e^(score - largest)
	First, Last   bool                // whether this is the first and the last block
}

// attendRows is the largest number of queries in an AttentionBlock.
const attendRows = 32

// fewQueries is the largest number of queries that are processed one by one.
const fewQueries = 8

// Attend computes one step of attention for each block, in order. In the first block of a query it sets Top, Sum and O;
// in later blocks it updates them. After the last block it divides O by Sum. A block has at most 32 queries. Each score
// is one chain over the elements, and each element of O is one chain over the keys.
func (x *Multiplier) Attend(blocks ...AttentionBlock) {
	for len(blocks) > 0 {
		n := 0
		for n < min(len(blocks), len(x.few)) && blocks[n].few() {
			x.few[n].set(&blocks[n])
			n++
		}
		if n == 0 {
			x.attend(&blocks[0])
			blocks = blocks[1:]
			continue
		}
		attendScoresSIMD(&x.few[0], n)
		attendSoftmaxSIMD(&x.few[0], n)
		attendValuesSIMD(&x.few[0], n)
		blocks = blocks[n:]
	}
}

// few reports whether the queries of b are processed one by one.
func (b *AttentionBlock) few() bool {
	return best != portable && b.E%pageColumns == 0 && b.PerRow == 0 && b.Rows <= fewQueries
}

// An attention holds an AttentionBlock in the layout of the assembly, and memory for its rows. step and e are in bytes.
type attention struct {
	q, o, top, sum                    *float32
	pages                             [maxPages]*float32
	step, rows, e, count, first, last int
	//lint:ignore U1000 memory of the assembly
	left int
	//lint:ignore U1000 memory of the assembly
	decay, inverse [fewQueries]float32
	//lint:ignore U1000 memory of the assembly
	scores [fewQueries][maxPages * pageColumns]float32
}

func (a *attention) set(b *AttentionBlock) {
	last := (b.Rows-1)*b.Step + b.E - 1
	_, _, _, _ = b.Q[last], b.O[last], b.Top[b.Rows-1], b.Sum[b.Rows-1]
	a.q, a.o, a.top, a.sum = &b.Q[0], &b.O[0], &b.Top[0], &b.Sum[0]
	a.step, a.rows, a.e, a.count = 4*b.Step, b.Rows, 4*b.E, min(b.Count, b.Width)
	for i := range (a.count + pageColumns - 1) / pageColumns {
		a.pages[i] = &b.Pages[i][:2*b.E*pageColumns][0]
	}
	if a.first, a.last = 0, 0; b.First {
		a.first = 1
	}
	if b.Last {
		a.last = 1
	}
}

// attend is Attend for one block, whose queries are processed together.
func (x *Multiplier) attend(b *AttentionBlock) {
	const step = maxPages * pageColumns
	x.scores = grown(x.scores, attendRows*(step+1))
	scores, decay := x.scores, x.scores[attendRows*step:]
	x.Pages(scores, step, b.Q, b.Step, b.Pages, b.Rows, b.E)
	if b.First {
		for r := range b.Rows {
			b.Top[r] = float32(math.Inf(-1))
		}
		decay = nil
	}
	SoftmaxBlock(scores, step, b.Rows, b.Width, b.Count, b.PerRow, b.Top, b.Sum, decay)
	for r := range decay[:min(len(decay), b.Rows)] {
		Scale(b.O[r*b.Step:][:b.E], decay[r])
	}
	for k := 0; k < b.Width; k += pageColumns {
		x.Strided(b.O, b.Step, scores[k:], step, 1, b.Pages[k/pageColumns][b.E*pageColumns:], b.E, b.Rows,
			b.E, min(pageColumns, b.Width-k), k > 0 || !b.First)
	}
	if b.Last {
		for r := range b.Rows {
			Scale(b.O[r*b.Step:][:b.E], 1/b.Sum[r])
		}
	}
}
