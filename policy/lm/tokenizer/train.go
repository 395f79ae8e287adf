package tokenizer

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Training describes a tokenizer to be trained.
type Training struct {
	// VocabSize is the maximum number of tokens: 256 bytes, merged tokens, and special tokens. The result has fewer if
	// the texts have too few pairs to merge.
	VocabSize int
	// Pattern names the rule that splits text before merging: gpt2, qwen2 (one digit per piece) or llama3 (up to three
	// digits).
	Pattern string
	// MinCount is at least 1. A pair is merged only if it occurs at least MinCount times.
	MinCount int
	// Special are the special tokens. They get the highest ids. Texts are split at special tokens, so no merge contains
	// a special token.
	Special []string
	// BOS, EOS and Pad are special tokens, or empty. If AddBOS is true, BOS is put before every sequence.
	BOS, EOS, Pad string
	AddBOS        bool
	// ChatTemplate is the source of a chat template, or empty.
	ChatTemplate string
}

// trainable maps names of rules to their expressions.
var trainable = map[string]string{"gpt2": gpt2Pattern, "qwen2": qwen2Pattern, "llama3": llama3Pattern}

func (o *Training) check() error {
	switch minSize := 256 + len(o.Special); {
	case o.VocabSize < minSize || o.VocabSize > maxID:
		return fmt.Errorf("train tokenizer: vocabulary of %d: expected from %d (256 bytes and %d special tokens) to %d",
			o.VocabSize, minSize, len(o.Special), maxID)
	case trainable[o.Pattern] == "":
		return fmt.Errorf("train tokenizer: pattern %q: expected one of %s", o.Pattern,
			strings.Join(slices.Sorted(maps.Keys(trainable)), ", "))
	case o.MinCount < 1:
		return fmt.Errorf("train tokenizer: MinCount %d: expected 1 or more", o.MinCount)
	case o.AddBOS && o.BOS == "":
		return fmt.Errorf("train tokenizer: AddBOS without BOS: expected a special token as BOS")
	}
	for i, s := range o.Special {
		if s == "" || slices.Contains(o.Special[:i], s) {
			return fmt.Errorf("train tokenizer: special token %q: expected texts that are not empty, each once", s)
		}
	}
	for _, s := range []string{o.BOS, o.EOS, o.Pad} {
		if s != "" && !slices.Contains(o.Special, s) {
			return fmt.Errorf("train tokenizer: %q: expected one of the special tokens %q", s, o.Special)
		}
	}
	return nil
}

// Train makes a byte-level BPE tokenizer from texts, writes tokenizer.json and tokenizer_config.json to a folder, and
// loads this folder. It repeatedly merges the most frequent pair of tokens. If several pairs are equally frequent, it
// takes the pair with the smallest left id, then the smallest right id. The order of texts does not matter.
func Train(dir string, texts iter.Seq[string], o Training) (*Tokenizer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	t := newTrainer(&o)
	for text := range texts {
		t.count(text)
	}
	t.prepare()
	for len(t.vocab)+len(o.Special) < o.VocabSize && t.mergeNext(o.MinCount) {
	}
	if err := writeFiles(dir, &o, t.vocab, t.merges); err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	return Load(dir)
}

// A trainer counts words, and then pairs of tokens in words.
type trainer struct {
	classes *classes
	rule    rule
	special matcher
	counts  map[string]int // number of occurrences of each word

	words  []trainWord
	vocab  []string         // tokens by id, as in tokenizer.json
	ids    map[string]int32 // ids by token
	merges [][2]int32
	pairs  map[uint64]*trainPair
	queue  pairQueue
}

type trainWord struct {
	ids   []int32
	count int
}

// A trainPair is a pair of neighbouring tokens.
type trainPair struct {
	pair  uint64
	count int
	words []int32 // indices of words that may contain the pair, in order; an index may be repeated
	place int     // index of the pair in the queue
}

func newTrainer(o *Training) *trainer {
	t := &trainer{
		classes: newClasses(), rule: patterns[trainable[o.Pattern]],
		counts: map[string]int{}, ids: map[string]int32{}, pairs: map[uint64]*trainPair{},
	}
	for _, s := range o.Special {
		t.special.add(s, &AddedToken{Content: s})
	}
	// Bytes get ids in the order of their letters, as in GPT-2's vocabulary.
	letters := make([]rune, 256)
	for b := range letters {
		letters[b] = byteLetter(byte(b))
	}
	slices.Sort(letters)
	for _, letter := range letters {
		t.learn(string(letter))
	}
	return t
}

// learn returns the id of a token. It first adds the token to the vocabulary if necessary.
func (t *trainer) learn(token string) int32 {
	id, known := t.ids[token]
	if !known {
		id = int32(len(t.vocab))
		t.vocab = append(t.vocab, token)
		t.ids[token] = id
	}
	return id
}

// count counts the words of a text.
func (t *trainer) count(text string) {
	for from := 0; from < len(text); {
		end, next := len(text), len(text)
		if !t.special.empty() {
			if token, start, after := t.special.find(text, from); token != nil {
				end, next = start, after
			}
		}
		for piece := text[from:end]; piece != ""; {
			n := t.classes.next(piece, t.rule)
			t.counts[piece[:n]]++
			piece = piece[n:]
		}
		from = next
	}
}

// prepare makes a trainWord for every counted word, and counts the pairs of neighbouring tokens.
func (t *trainer) prepare() {
	texts := slices.Sorted(maps.Keys(t.counts))
	t.words = make([]trainWord, len(texts))
	for i, text := range texts {
		w := trainWord{make([]int32, len(text)), t.counts[text]}
		for j := range len(text) {
			w.ids[j] = t.ids[string(byteLetter(text[j]))]
		}
		t.words[i] = w
		for j := range len(w.ids) - 1 {
			p := t.pair(w.ids[j], w.ids[j+1])
			p.count += w.count
			p.words = append(p.words, int32(i))
		}
	}
	for i := range t.queue {
		t.queue[i].place = i
	}
	heap.Init(&t.queue)
}

// pair returns the trainPair of two tokens. It adds a new pair to t.pairs and to the queue.
func (t *trainer) pair(left, right int32) *trainPair {
	key := pairOf(left, right)
	p := t.pairs[key]
	if p == nil {
		p = &trainPair{pair: key, place: len(t.queue)}
		t.pairs[key] = p
		t.queue = append(t.queue, p)
	}
	return p
}

// mergeNext merges the most frequent pair. It returns false if no pair occurs at least minCount times.
func (t *trainer) mergeNext(minCount int) bool {
	if len(t.queue) == 0 || t.queue[0].count < minCount {
		return false
	}
	best := t.queue[0]
	left, right := int32(best.pair>>32), int32(best.pair&0xffffffff)
	id := t.learn(t.vocab[left] + t.vocab[right])
	t.merges = append(t.merges, [2]int32{left, right})
	words := best.words
	best.words = nil
	last := int32(-1)
	for _, i := range words {
		if i != last {
			t.mergeWord(i, left, right, id)
		}
		last = i
	}
	return true
}

// mergeWord merges a pair in word i, and updates the counts of the pairs that change.
func (t *trainer) mergeWord(i, left, right, id int32) {
	w := &t.words[i]
	out := w.ids[:0]
	ids := slices.Clone(w.ids)
	for j := 0; j < len(ids); j++ {
		if j+1 == len(ids) || ids[j] != left || ids[j+1] != right {
			out = append(out, ids[j])
			continue
		}
		j++
		out = append(out, id)
	}
	w.ids = out
	if len(out) == len(ids) {
		return
	}
	for j := range len(ids) - 1 {
		t.change(ids[j], ids[j+1], -w.count, -1)
	}
	for j := range len(out) - 1 {
		t.change(out[j], out[j+1], w.count, i)
	}
}

// change adds delta to the count of a pair. word is the index of a word that now contains the pair, or -1 if delta is
// negative.
func (t *trainer) change(left, right int32, delta int, word int32) {
	p := t.pair(left, right)
	p.count += delta
	if word >= 0 && (len(p.words) == 0 || p.words[len(p.words)-1] != word) {
		p.words = append(p.words, word)
	}
	heap.Fix(&t.queue, p.place)
}

// A pairQueue is a heap of pairs; the first one is merged next.
type pairQueue []*trainPair

func (q pairQueue) Len() int { return len(q) }

func (q pairQueue) Less(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	return cmp.Less(q[i].pair, q[j].pair)
}

func (q pairQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop implement heap.Interface, but are not called. The trainer appends pairs itself, and pairs that no longer
// occur stay in the queue.
func (q *pairQueue) Push(p any) { *q = append(*q, p.(*trainPair)) }
func (q *pairQueue) Pop() any   { panic("not used") }
