package engine

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
)

// A sequence is a running request.
type sequence struct {
	request *Request
	index   int // number of the request
	result  *Result
	text    []int32 // tokens of the prompt and of Begun; all must be in the cache before the next token is drawn
	prompt  *prompt
	source  *sequence      // this sequence waits until source has computed the common prompt; nil if it need not wait
	cache   *lm.CachedText // nil while source is set
	pages   int            // maximum number of pages of the sequence, without the pages of prompt
	last    [1]int32       // the last drawn token
}

// A prompt counts what sequences with equal prompts share. pages is the number of shared pages, and users is the number
// of these sequences. Each sequence recomputes the prompt's last token to draw the next token. So only full pages
// without that token are shared.
type prompt struct{ pages, users int }

// check returns an error for a request that can never be served.
func (e *Engine) check(r *Request) error {
	if err := r.Sampling.check(); err != nil {
		return err
	}
	if len(r.Prompt) == 0 {
		return fmt.Errorf("an empty prompt: expected at least one token")
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.model.Config.Vocab {
			return fmt.Errorf("token %d of the prompt is %d: expected 0 to %d", i, id, e.model.Config.Vocab-1)
		}
	}
	if err := e.checkBegun(r); err != nil {
		return err
	}
	if n := e.length(r); pagesOf(n) > e.pages {
		return fmt.Errorf("%d tokens of a prompt and %d new ones: the cache holds %d tokens", len(r.Prompt),
			r.Sampling.MaxTokens, e.pages*lm.PageLen)
	} else if w := e.model.Config.Window; w > 0 && n > w {
		return fmt.Errorf("%d tokens of a prompt and %d new ones: the model sees windows of %d tokens, which is not "+
			"supported", len(r.Prompt), r.Sampling.MaxTokens, w)
	}
	return nil
}

// checkBegun returns an error if r.Begun cannot be the beginning of a longer text of the request.
func (e *Engine) checkBegun(r *Request) error {
	b := &r.Begun
	if len(b.LogProbs) != len(b.Tokens) {
		return fmt.Errorf("a beginning of %d tokens with %d log-probs: expected one for each", len(b.Tokens),
			len(b.LogProbs))
	}
	if len(b.Tokens) >= r.Sampling.MaxTokens {
		return fmt.Errorf("a beginning of %d tokens: expected fewer than the %d of the text", len(b.Tokens),
			r.Sampling.MaxTokens)
	}
	if got, want := len(b.Cache), e.cacheLength(r); got != 0 && got != want {
		return fmt.Errorf("a beginning whose cache has %d numbers: expected %d, or none", got, want)
	}
	for i, id := range b.Tokens {
		if id < 0 || int(id) >= e.model.Config.Vocab || r.Sampling.stops(id) {
			return fmt.Errorf("token %d of the beginning is %d: expected 0 to %d, and none that ends the text", i, id,
				e.model.Config.Vocab-1)
		}
	}
	return nil
}

// cacheLength returns the length that r.Begun.Cache must have if it is not empty.
func (e *Engine) cacheLength(r *Request) int {
	last := len(r.Prompt) - 1
	return (pagesOf(last+len(r.Begun.Tokens)) - last/lm.PageLen) * e.model.PageBytes() / 4
}

// length returns the maximum number of tokens of a request in the cache. The last token of a text is never in the
// cache.
func (e *Engine) length(r *Request) int { return len(r.Prompt) + r.Sampling.MaxTokens - 1 }

func pagesOf(tokens int) int { return (tokens + lm.PageLen - 1) / lm.PageLen }

// admit starts a request. It returns false if MaxRunning sequences run, or if the cache could fill up.
func (e *Engine) admit(r *Request, dst *Result, index int) bool {
	s := &sequence{request: r, index: index, result: dst, text: r.Prompt, source: e.source(r.Prompt)}
	pages := pagesOf(e.length(r))
	if s.source != nil {
		s.prompt = s.source.prompt
		pages -= s.prompt.pages
	}
	if len(e.running) == e.opts.MaxRunning || e.held+pages > e.pages {
		return false
	}
	dst.Tokens = append(make([]int32, 0, r.Sampling.MaxTokens), r.Begun.Tokens...)
	dst.LogProbs = append(make([]float32, 0, r.Sampling.MaxTokens), r.Begun.LogProbs...)
	if len(r.Begun.Tokens) > 0 {
		s.text = slices.Concat(r.Prompt, r.Begun.Tokens)
	}
	e.running, e.held, s.pages = append(e.running, s), e.held+pages, pages
	if s.source == nil {
		s.prompt = &prompt{pages: (len(r.Prompt) - 1) / lm.PageLen}
		s.pages -= s.prompt.pages
		s.cache = e.cache.NewText(e.length(r))
	}
	s.prompt.users++
	return true
}

// source returns a running sequence that computes this prompt itself, or nil if there is none.
func (e *Engine) source(prompt []int32) *sequence {
	for _, s := range e.running {
		if s.source == nil && slices.Equal(s.request.Prompt, prompt) {
			return s
		}
	}
	return nil
}

// fork gives a waiting sequence a fork of the cache of its source, if this cache holds all tokens of the prompt except
// the last.
func (e *Engine) fork() {
	for _, s := range e.running {
		if n := len(s.request.Prompt) - 1; s.source != nil && s.source.cache.Len() >= n {
			s.cache, s.source = s.source.cache.Fork(n, e.length(s.request)), nil
		}
	}
}

// free frees the pages of a sequence that no longer runs.
func (e *Engine) free(s *sequence) {
	if s.cache != nil {
		s.cache.Truncate(0)
	}
	if e.held -= s.pages; s.prompt.users == 1 {
		e.held -= s.prompt.pages
	}
	s.prompt.users--
}
