package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/lm"
)

// Sampling describes how tokens are drawn. The zero value is invalid; see Greedy.
type Sampling struct {
	MaxTokens         int     // maximum number of new tokens; at least 1
	Temperature       float64 // 0 takes the most likely token
	TopK              int     // draw among the TopK most likely tokens; 0 means all tokens
	TopP              float64 // draw among the most likely tokens whose probabilities add up to TopP; 1 means all
	RepetitionPenalty float64 // above 1, tokens that the text already has are less likely; 1 means no penalty
	Stop              []int32 // tokens that end a text
	Seed              uint64
}

// Greedy returns a Sampling that always takes the most likely token, for at most n tokens.
func Greedy(n int) Sampling { return Sampling{MaxTokens: n, TopP: 1, RepetitionPenalty: 1} }

func (s *Sampling) check() error {
	switch {
	case s.MaxTokens < 1:
		return fmt.Errorf("%d new tokens: expected at least 1", s.MaxTokens)
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("temperature %v: expected a number ≥ 0", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("top_k %d: expected a number ≥ 0", s.TopK)
	case !(s.TopP > 0 && s.TopP <= 1):
		return fmt.Errorf("top_p %v: expected a number in (0, 1]", s.TopP)
	case !(s.RepetitionPenalty > 0) || math.IsInf(s.RepetitionPenalty, 0):
		return fmt.Errorf("repetition penalty %v: expected a number > 0", s.RepetitionPenalty)
	}
	return nil
}

func (s *Sampling) stops(id int32) bool { return slices.Contains(s.Stop, id) }

// A picker draws tokens from logits. It reuses its memory.
type picker struct {
	order []int32 // memory for sorting the ids that may be drawn; one element for each such id
	seen  []bool  // [vocabulary]: whether the penalty of the id has been applied
}

func newPicker(vocab, drawn int) picker { return picker{make([]int32, drawn), make([]bool, vocab)} }

// pick draws the next token of s, and returns the token and its log-probability. logits are the logits of s, and pick
// overwrites them. Request.Key, Request.Sample and the position select the random number.
func (p *picker) pick(m *lm.Model, s *sequence, logits []float32) (id int32, logProb float32) {
	o := &s.request.Sampling
	if o.RepetitionPenalty != 1 {
		p.penalise(s, logits)
	}
	if o.Temperature == 0 {
		id = largest(logits[:len(p.order)])
		return id, m.Distribution(logits).LogProb(logits[id])
	}
	inverse := float32(1 / max(o.Temperature, lm.LeastTemperature))
	for i := range logits {
		logits[i] *= inverse
	}
	all := m.Distribution(logits)
	n := uint64(len(s.result.Tokens))
	stream := philox.New(o.Seed, philox.Token, s.request.Key, s.request.Sample<<48|n)
	id = p.sample(logits, all.LSE, o, stream.Float64())
	return id, all.LogProb(logits[id])
}

// sample returns the first token at which the cumulative probability of the allowed tokens exceeds u. The tokens are in
// the order of their ids. With top_k or top_p they are in the order of falling probability.
func (p *picker) sample(logits []float32, lse float64, o *Sampling, u float64) int32 {
	share := func(id int32) float64 { return math.Exp(float64(logits[id]) - lse) }
	drawn := int32(len(p.order))
	if o.TopK == 0 && o.TopP == 1 {
		if int(drawn) < len(logits) { // the probabilities of allowed tokens do not add up to 1
			all := 0.0
			for id := range drawn {
				all += share(id)
			}
			u *= all
		}
		sum, last := 0.0, int32(0)
		for id := range drawn {
			if q := share(id); q > 0 {
				if sum += q; sum > u {
					return id
				}
				last = id
			}
		}
		return last // rounding can leave u above the sum
	}
	for i := range p.order {
		p.order[i] = int32(i)
	}
	slices.SortFunc(p.order, func(a, b int32) int {
		switch {
		case logits[a] > logits[b] || logits[a] == logits[b] && a < b:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	kept, sum := 0, 0.0
	for kept < len(p.order) && (o.TopK == 0 || kept < o.TopK) && (kept == 0 || sum < o.TopP) {
		sum += share(p.order[kept])
		kept++
	}
	u *= sum
	sum = 0
	for _, id := range p.order[:kept] {
		if sum += share(id); sum > u {
			return id
		}
	}
	return p.order[kept-1]
}

// penalise applies the repetition penalty to the tokens that the text already has: it divides their
// positive logits and multiplies their negative logits (Keskar et al. 2019, arXiv:1909.05858).
func (p *picker) penalise(s *sequence, logits []float32) {
	by := float32(s.request.Sampling.RepetitionPenalty)
	for _, ids := range [][]int32{s.request.Prompt, s.result.Tokens} {
		for _, id := range ids {
			if p.seen[id] {
				continue
			}
			p.seen[id] = true
			if logits[id] > 0 {
				logits[id] /= by
			} else {
				logits[id] *= by
			}
		}
	}
	for _, ids := range [][]int32{s.request.Prompt, s.result.Tokens} {
		for _, id := range ids {
			p.seen[id] = false
		}
	}
}

// largest returns the id of the largest logit. If several logits are equal, it returns the first.
func largest(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}
