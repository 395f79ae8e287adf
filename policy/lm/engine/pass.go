package engine

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
)

// Step runs one pass, and calls the functions of w. The pass has the last token of every sequence that generates. The
// rest of the pass is filled with uncached tokens of other sequences. Then every sequence whose text is entirely in the
// cache gets its next token. Step does nothing if no sequence is running.
func (e *Engine) Step(w *Watch) error {
	if len(e.running) == 0 {
		return nil
	}
	e.fork()
	e.pieces, e.rows, e.drawn = e.pieces[:0], e.rows[:0], e.drawn[:0]
	room, n := e.opts.ChunkTokens, 0
	for _, s := range e.running { // every sequence that generates has a token in the pass; prompts get the rest
		if s.source == nil && s.cache.Len() >= len(s.text) {
			room--
		}
	}
	for _, s := range e.running {
		if s.source != nil {
			continue
		}
		end := len(s.text)
		if b := &s.request.Begun; len(b.Cache) > 0 {
			if end = len(s.request.Prompt) - 1; s.cache.Len() == end {
				s.cache.Append(len(b.Tokens), b.Cache)
				b.Cache, end = nil, len(s.text)
			}
		}
		done := s.cache.Len()
		ids := s.last[:]
		if rest := s.text[min(done, end):end]; len(rest) > 0 {
			ids = rest[:min(len(rest), room)]
			room -= len(ids)
		}
		if len(ids) == 0 {
			continue
		}
		e.pieces = append(e.pieces, lm.Piece{Seq: s.cache, IDs: ids})
		if n += len(ids); done+len(ids) >= len(s.text) {
			e.rows, e.drawn = append(e.rows, int32(n-1)), append(e.drawn, s)
		}
	}
	if err := e.model.Extend(e.work, e.pieces...); err != nil {
		return err
	}
	share := 1 - float64(e.cache.Free())/float64(e.pages)
	e.use.Add(Utilization{1, share, float64(len(e.running)), share})
	e.fork() // before a source leaves the batch
	e.model.Logits(e.work, e.logits, e.rows)
	if err := e.work.Err(); err != nil {
		return err
	}
	tokens, err := e.draw()
	if err != nil {
		return err
	}
	for i, s := range e.drawn {
		s.last[0] = int32(tokens[2*i])
		s.result.Tokens = append(s.result.Tokens, s.last[0])
		s.result.LogProbs = append(s.result.LogProbs, tokens[2*i+1])
		if w.Token != nil {
			w.Token(s.index, s.last[0])
		}
	}
	return e.leave(w.Done)
}

// draw draws the next token of each sequence in e.drawn. The result has two numbers for each sequence: the token and
// the token's log-probability. Every token is exact in float32. Each tensor-parallel rank draws for some of the
// sequences.
func (e *Engine) draw() ([]float32, error) {
	ranks, this, n := 1, 0, len(e.drawn)
	if e.opts.Axis != nil {
		ranks, this = e.opts.Axis.Size(), e.opts.Axis.Index()
	}
	e.tokens = slices.Grow(e.tokens[:0], 2*n)[:2*n]
	v := e.model.Config.Vocab
	for i := n * this / ranks; i < n*(this+1)/ranks; i++ {
		s, logits := e.drawn[i], e.logits[i*v:(i+1)*v]
		for _, x := range logits {
			if x-x != 0 {
				return nil, fmt.Errorf("request %d: token %d: a logit is %v", s.index, len(s.result.Tokens), x)
			}
		}
		id, logProb := e.picker.pick(e.model, s, logits)
		e.tokens[2*i], e.tokens[2*i+1] = float32(id), logProb
	}
	if ranks == 1 || n == 0 {
		return e.tokens, nil
	}
	counts := e.counts[:0]
	for r := range ranks {
		counts = append(counts, 2*(n*(r+1)/ranks-n*r/ranks))
	}
	e.counts = counts
	return e.tokens, e.opts.Axis.Gather(e.tokens, counts)
}

// leave removes finished sequences, frees their pages, and calls the function report with their results.
func (e *Engine) leave(report func(request int, r *Result) error) (err error) {
	kept := e.running[:0]
	for _, s := range e.running {
		n := len(s.result.Tokens)
		s.result.Stopped = n > 0 && s.request.Sampling.stops(s.result.Tokens[n-1])
		if n < s.request.Sampling.MaxTokens && !s.result.Stopped {
			kept = append(kept, s)
			continue
		}
		e.free(s)
		if report != nil && err == nil {
			err = report(s.index, s.result)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
	return err
}
