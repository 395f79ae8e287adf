package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// A TextBatch holds the texts of one iteration on one replica. Each text is a prompt and one answer to it.
// TextSetup.GroupSize successive texts answer the same prompt and form a group. Slices of log-probs and other token
// values have an element for each token that Learn marks, one text after the other, without padding.
type TextBatch struct {
	Texts []Sequence // Learn marks the tokens that the policy drew, the stop token included

	LogProb    []float32 // log-probs under the policy that drew the tokens; nil means Recomputed
	Recomputed []float32 // log-probs under the policy before the update; may be nil
	Ref        []float32 // log-probs under the reference policy; may be nil
	// Value is the critic's estimate before each token. It may be nil. A TextPPO that has a critic fills Value.
	Value []float32

	Reward     []float32 // reward of each text
	Group      []int64   // number of the prompt of each text
	Ended      []bool    // whether each text ended with a stop token; false if it was cut off
	Right      []bool    // whether each text has the right answer, for metrics; may be nil
	Unparsable []bool    // whether each text lacks a readable answer; nil if Right is nil

	// Prepare fills the following four fields. They have an element for each token that Learn marks.
	Old    []float32 // old log-probs, in the denominators of ratios
	Adv    []float32
	Ret    []float32 // returns without a baseline, which are the critic's targets
	Weight []float32 // 0 for a token that is not trained on

	starts []int32 // number of tokens that Learn marks before each text; the last element is the total
}

// Names of the tensors of a batch of answers for a Witness.
const (
	AnswerTokens  = "tokens"    // I32: tokens of all texts, one text after the other
	AnswerLearn   = "learn"     // U8: 1 for a token that the policy drew
	AnswerLength  = "length"    // I64 [n]: number of tokens of a text
	AnswerGroup   = "group"     // I64 [n]: number of the text's prompt
	AnswerReward  = "reward"    // F32 [n]
	AnswerLogProb = "log_prob"  // F32: of the tokens that the policy drew
	AnswerAdv     = "advantage" // F32: of the tokens that the policy drew; after Prepare
)

// show shows the answers to w. After Prepare, it includes their advantages.
func (b *TextBatch) show(w Witness, phase string) {
	if w == nil {
		return
	}
	var d tensor.Dict
	var tokens []int32
	var learn []byte
	lengths := make([]int64, len(b.Texts))
	for i, t := range b.Texts {
		tokens, lengths[i] = append(tokens, t.IDs...), int64(len(t.IDs))
		for _, l := range t.Learn {
			x := byte(0)
			if l {
				x = 1
			}
			learn = append(learn, x)
		}
	}
	d.Set(AnswerTokens, tensor.FromI32(tokens, len(tokens)))
	d.Set(AnswerLearn, tensor.FromU8(learn, len(learn)))
	d.Set(AnswerLength, tensor.FromI64(lengths, len(lengths)))
	d.Set(AnswerGroup, tensor.FromI64(b.Group, len(b.Group)))
	d.Set(AnswerReward, tensor.FromF32(b.Reward, len(b.Reward)))
	d.Set(AnswerLogProb, tensor.FromF32(b.LogProb, len(b.LogProb)))
	d.Set(AnswerAdv, tensor.FromF32(b.Adv, len(b.Adv)))
	w(phase, d)
}

// check validates a batch with groups of the given size, and sets b.starts. If recompute is set, the batch may lack
// LogProb.
func (b *TextBatch) check(size int, recompute bool) error {
	n := len(b.Texts)
	switch {
	case n == 0 || n%size != 0:
		return fmt.Errorf("%d texts: expected a multiple of the group_size %d, and at least one group", n, size)
	case len(b.Reward) != n || len(b.Group) != n || len(b.Ended) != n:
		return fmt.Errorf("%d texts have %d rewards, %d group numbers and %d ends", n, len(b.Reward), len(b.Group),
			len(b.Ended))
	}
	if len(b.Right) != len(b.Unparsable) || b.Right != nil && len(b.Right) != n {
		return fmt.Errorf("%d texts have %d values in Right and %d in Unparsable", n,
			len(b.Right), len(b.Unparsable))
	}
	b.starts = append(b.starts[:0], 0)
	tokens := int32(0)
	for i, s := range b.Texts {
		if len(s.IDs) != len(s.Learn) || len(s.IDs) == 0 || s.Learn[0] {
			return fmt.Errorf("text %d has %d tokens and %d marks: expected as many of both, and a prompt", i,
				len(s.IDs), len(s.Learn))
		}
		if bad(b.Reward[i]) {
			return fmt.Errorf("the reward of text %d (group %d) is %v", i, b.Group[i], b.Reward[i])
		}
		if i%size > 0 && b.Group[i] != b.Group[i-1] {
			return fmt.Errorf("text %d is of group %d, the one before it of group %d: expected groups of %d texts", i,
				b.Group[i], b.Group[i-1], size)
		}
		for _, learn := range s.Learn {
			if learn {
				tokens++
			}
		}
		b.starts = append(b.starts, tokens)
	}
	for _, of := range []struct {
		name  string
		x     []float32
		given bool
	}{{"log-probs", b.LogProb, b.LogProb != nil || !recompute},
		{"recomputed log-probs", b.Recomputed, b.Recomputed != nil},
		{"log-probs by the reference", b.Ref, b.Ref != nil}, {"values", b.Value, b.Value != nil}} {
		if of.given && len(of.x) != int(tokens) {
			return fmt.Errorf("%d %s of %d tokens", len(of.x), of.name, tokens)
		}
		for i, x := range of.x {
			if bad(x) {
				return fmt.Errorf("%s: token %d has %v", of.name, i, x)
			}
		}
	}
	return nil
}

// tokens returns the range of text k in slices that have an element for each token whose Learn is true.
func (b *TextBatch) tokens(k int) (lo, hi int) { return int(b.starts[k]), int(b.starts[k+1]) }

// part returns texts [lo, hi) of b, in the memory of b. It reads b.starts, which check sets.
func (b *TextBatch) part(lo, hi int) TextBatch {
	from, to := b.starts[lo], b.starts[hi]
	cut := func(x []float32) []float32 {
		if x == nil {
			return nil
		}
		return x[from:to]
	}
	p := TextBatch{Texts: b.Texts[lo:hi], LogProb: cut(b.LogProb), Recomputed: cut(b.Recomputed), Ref: cut(b.Ref),
		Reward: b.Reward[lo:hi], Group: b.Group[lo:hi], Ended: b.Ended[lo:hi]}
	if b.Right != nil {
		p.Right, p.Unparsable = b.Right[lo:hi], b.Unparsable[lo:hi]
	}
	return p
}

// JoinTexts returns one batch of the texts of all parts, in their order. Each of LogProb, Recomputed, Ref, Value and
// Right must be set in all parts or in none.
func JoinTexts(parts ...TextBatch) TextBatch {
	var all TextBatch
	for _, p := range parts {
		all.Texts = append(all.Texts, p.Texts...)
		all.LogProb = append(all.LogProb, p.LogProb...)
		all.Recomputed = append(all.Recomputed, p.Recomputed...)
		all.Ref = append(all.Ref, p.Ref...)
		all.Value = append(all.Value, p.Value...)
		all.Reward = append(all.Reward, p.Reward...)
		all.Group = append(all.Group, p.Group...)
		all.Ended = append(all.Ended, p.Ended...)
		all.Right, all.Unparsable = append(all.Right, p.Right...), append(all.Unparsable, p.Unparsable...)
	}
	return all
}

// ImportanceWeights multiplies advantages by min(exp(old - drawn), limit) (RLinf's importance_sampling_fix; truncated
// importance sampling, Yao et al. 2025). old is TextBatch.Old, and drawn is TextBatch.LogProb.
func ImportanceWeights(adv, old, drawn []float32, limit float64) {
	if len(old) != len(adv) || len(drawn) != len(adv) {
		panic("algo: ImportanceWeights: length mismatch")
	}
	for i := range adv {
		adv[i] *= float32(min(math.Exp(float64(old[i])-float64(drawn[i])), limit))
	}
}
