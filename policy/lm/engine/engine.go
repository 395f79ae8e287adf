// Package engine generates many texts at once with one language model. A sequence joins a running
// batch as soon as the cache has pages for its greatest length, and leaves the batch when it ends.
// Answers to one prompt that run at the same time share the prompt's pages. A sequence depends only
// on its own tokens and random numbers, never on other sequences.
//
//	e, err := engine.New(model, engine.Options{})
//	results, err := e.Generate(ctx, requests, engine.Watch{})
//
// Generate has all requests when it begins. A caller whose requests come later makes the passes itself. It may also
// give up a text that grows, which any engine with the same weights can finish:
//
//	started, err := e.Start(&request, index) // false: no room now
//	err = e.Step(&watch)                     // one pass, while e.Running() > 0
//	request.Begun, ok = e.GiveUp(index)
package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
)

// Options are the limits of an Engine. 0 in a field means its default.
type Options struct {
	MaxRunning  int // sequences that run at the same time; default 64
	CacheTokens int // capacity of the cache; default 16384
	ChunkTokens int // prompt tokens in one pass; default 512
	Threads     int // threads of a pass, default 1; they change no bit. With more than 1, call Close
	Tokens      int // draw only ids below it, for vocabularies with ids that no tokenizer has; default all
	// Axis connects the ranks that divide the model; nil: it is whole. Each rank has an Engine with the same options,
	// and gets the same requests. The ranks share the drawing.
	Axis lm.Axis
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *int
		or    int
	}{{&o.MaxRunning, 64}, {&o.CacheTokens, 1 << 14}, {&o.ChunkTokens, 512}} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	return o
}

// A Request is a prompt, and the way to continue it.
type Request struct {
	Prompt   []int32 // at least one token
	Sampling Sampling
	// Key and Sample select the random numbers of this text. Key identifies the prompt, and Sample
	// one of its answers. Key is below 2^32 and Sample below 2^16.
	Key, Sample uint64
	// Begun is the beginning of the text, which an engine with the same weights generated and gave up. The text goes on
	// behind it, with the bits that it would have had there. Sampling.MaxTokens counts its tokens, too.
	Begun Begun
}

// A Begun is the beginning of a text.
type Begun struct {
	Result
	// Cache has the keys and values of Tokens but the last, as pages of a rank's cache. The engine sets it to nil
	// when it has them. Nil: it computes them anew.
	Cache []float32
}

// A Result is the text generated after a prompt.
type Result struct {
	Tokens []int32 // with the stop token, if any
	// LogProbs are the log-probabilities of Tokens in softmax(logits/temperature) over all tokens,
	// or in softmax(logits) if the temperature is 0.
	LogProbs []float32
	Stopped  bool // it ended with a stop token; false: at Sampling.MaxTokens
}

// A Watch has callbacks for texts as they grow. Both functions may be nil.
type Watch struct {
	Token func(request int, token int32) // called with each new token
	// Done is called with a text when it ends, while others still grow. An error ends Generate.
	Done func(request int, r *Result) error
}

// An Engine generates texts with one model. It belongs to one goroutine.
type Engine struct {
	model   *lm.Model
	opts    Options
	cache   *lm.Cache
	work    *lm.Work
	running []*sequence
	pages   int // of the cache
	use     Use
	held    int // pages that the running sequences may need in total

	pieces []lm.Piece
	rows   []int32     // rows of the pass after which a token is drawn
	drawn  []*sequence // the sequences of rows
	logits []float32
	tokens []float32 // of drawn: see draw
	counts []int     // of tokens on each rank
	picker picker
}

// A sequence is a running request.
type sequence struct {
	request *Request
	index   int // of the request
	result  *Result
	text    []int32 // what is in the cache before the next token is drawn: the prompt, and Begun
	prompt  *prompt
	source  *sequence    // computes the prompt that this sequence will fork; nil: none, or already forked
	cache   *lm.Sequence // nil while source is set
	pages   int          // most pages besides the prompt's
	last    [1]int32     // the token drawn last
}

// A prompt counts the full pages of a prompt, and the sequences that share them. No such page has
// the last token, because each sequence recomputes that token to draw the next one.
type prompt struct{ pages, users int }

// New returns an engine, or an error that names a limit that is too small.
func New(m *lm.Model, o Options) (*Engine, error) {
	o = o.withDefaults()
	if o.Tokens == 0 {
		o.Tokens = m.Config.Vocab
	}
	if o.Tokens < 1 {
		return nil, fmt.Errorf("engine: %d tokens to draw from: expected at least 1", o.Tokens)
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("engine: %d threads: expected at least 1", o.Threads)
	}
	if o.MaxRunning < 1 || o.ChunkTokens < o.MaxRunning || o.CacheTokens < lm.PageLen {
		return nil, fmt.Errorf("engine: %d sequences, a cache of %d tokens, passes of %d tokens: expected at least 1, "+
			"%d, and a token for each sequence", o.MaxRunning, o.CacheTokens, o.ChunkTokens, lm.PageLen)
	}
	pages := o.CacheTokens / lm.PageLen
	e := &Engine{
		model: m, opts: o, pages: pages, cache: m.NewCache(pages), work: m.NewDecoding(o.ChunkTokens),
		logits: make([]float32, o.MaxRunning*m.Config.Vocab),
		picker: newPicker(m.Config.Vocab, min(o.Tokens, m.Config.Vocab)),
	}
	e.work.SetThreads(o.Threads)
	e.work.Join(lm.Mesh{Layer: o.Axis})
	return e, nil
}

// A Use says how full an engine was. Pages and Running are sums over passes.
type Use struct {
	Passes  int
	Pages   float64 // share of the cache's pages that sequences used
	Running float64 // sequences
	Peak    float64 // the largest share of pages
}

// Use returns how full the engine was since the last call.
func (e *Engine) Use() Use {
	use := e.use
	e.use = Use{}
	return use
}

// Add adds the use of another engine, or of another time.
func (u *Use) Add(v Use) {
	u.Passes, u.Pages, u.Running, u.Peak = u.Passes+v.Passes, u.Pages+v.Pages, u.Running+v.Running, max(u.Peak, v.Peak)
}

// Close ends the engine's threads.
func (e *Engine) Close() { e.work.SetThreads(1) }

// Generate continues all requests and returns their results in order. It calls w while texts grow.
// If a request cannot be served, it returns an error that names the request, before the first token.
func (e *Engine) Generate(ctx context.Context, requests []Request, w Watch) ([]Result, error) {
	for i := range requests {
		if err := e.check(&requests[i]); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	results := make([]Result, len(requests))
	defer e.release()
	for next := 0; next < len(requests) || len(e.running) > 0; {
		if err := context.Cause(ctx); err != nil {
			return results, err
		}
		for next < len(requests) && e.admit(&requests[next], &results[next], next) {
			next++
		}
		if err := e.step(&w); err != nil {
			return results, err
		}
	}
	return results, nil
}

// Start adds a request to those that run. It returns false if there is no room for it now. index is the request's
// number in calls of a Watch, and for GiveUp.
func (e *Engine) Start(r *Request, index int) (bool, error) {
	if err := e.check(r); err != nil {
		return false, fmt.Errorf("request %d: %w", index, err)
	}
	return e.admit(r, new(Result), index), nil
}

// Step makes one pass, which adds a token to each text whose prompt is done, and calls w. Without running texts it does
// nothing.
func (e *Engine) Step(w *Watch) error {
	if len(e.running) == 0 {
		return nil
	}
	return e.step(w)
}

// Running returns the number of running texts.
func (e *Engine) Running() int { return len(e.running) }

// GiveUp ends a running text before its end, and returns its beginning. It returns false if no such text runs.
func (e *Engine) GiveUp(index int) (begun Begun, ok bool) {
	at := slices.IndexFunc(e.running, func(s *sequence) bool { return s.index == index })
	if at < 0 {
		return Begun{}, false
	}
	e.fork()
	gone := e.running[at]
	e.running = slices.Delete(e.running, at, at+1)
	var heir *sequence // computes the prompt from now on, if gone has not done it
	for _, s := range e.running {
		switch {
		case s.source != gone:
		case heir == nil:
			heir, s.source, s.cache = s, nil, e.cache.NewSequence(e.length(s.request))
		default:
			s.source = heir
		}
	}
	begun = Begun{*gone.result, gone.request.Begun.Cache}
	prompt := len(gone.request.Prompt)
	if n := len(begun.Tokens); n > 0 && gone.source == nil && gone.cache.Len() == prompt+n-1 {
		begun.Cache = gone.cache.Pages(prompt - 1)
	}
	e.free(gone)
	return begun, true
}

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

// checkBegun returns an error if no text of the request begins with r.Begun and goes on.
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

// cacheLength returns the length of Begun.Cache.
func (e *Engine) cacheLength(r *Request) int {
	last := len(r.Prompt) - 1
	return (pagesOf(last+len(r.Begun.Tokens)) - last/lm.PageLen) * e.model.PageBytes() / 4
}

// length returns the most tokens that a request has in the cache, which never holds its last token.
func (e *Engine) length(r *Request) int { return len(r.Prompt) + r.Sampling.MaxTokens - 1 }

func pagesOf(tokens int) int { return (tokens + lm.PageLen - 1) / lm.PageLen }

// admit starts a request. It returns false if MaxRunning sequences run, or if the cache could fill up.
func (e *Engine) admit(r *Request, to *Result, index int) bool {
	s := &sequence{request: r, index: index, result: to, text: r.Prompt, source: e.source(r.Prompt)}
	pages := pagesOf(e.length(r))
	if s.source != nil {
		s.prompt = s.source.prompt
		pages -= s.prompt.pages
	}
	if len(e.running) == e.opts.MaxRunning || e.held+pages > e.pages {
		return false
	}
	to.Tokens = append(make([]int32, 0, r.Sampling.MaxTokens), r.Begun.Tokens...)
	to.LogProbs = append(make([]float32, 0, r.Sampling.MaxTokens), r.Begun.LogProbs...)
	if len(r.Begun.Tokens) > 0 {
		s.text = slices.Concat(r.Prompt, r.Begun.Tokens)
	}
	e.running, e.held, s.pages = append(e.running, s), e.held+pages, pages
	if s.source == nil {
		s.prompt = &prompt{pages: (len(r.Prompt) - 1) / lm.PageLen}
		s.pages -= s.prompt.pages
		s.cache = e.cache.NewSequence(e.length(r))
	}
	s.prompt.users++
	return true
}

// source returns a running sequence that computes this prompt itself, or nil.
func (e *Engine) source(prompt []int32) *sequence {
	for _, s := range e.running {
		if s.source == nil && slices.Equal(s.request.Prompt, prompt) {
			return s
		}
	}
	return nil
}

// fork gives each waiting sequence a fork of its source's cache, once that holds the prompt.
func (e *Engine) fork() {
	for _, s := range e.running {
		if n := len(s.request.Prompt) - 1; s.source != nil && s.source.cache.Len() >= n {
			s.cache, s.source = s.source.cache.Fork(n, e.length(s.request)), nil
		}
	}
}

// step makes one pass. The pass has one token of every sequence whose text is in the cache, and tokens of other texts
// in the rest.
func (e *Engine) step(w *Watch) error {
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
		if b := &s.request.Begun; b.Cache != nil {
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
	e.use.Add(Use{1, share, float64(len(e.running)), share})
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

// draw draws the next tokens of e.drawn from their logits. For each it returns the token, which is exact in float32,
// and its log-probability. Ranks that divide the model draw a range each.
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

// leave removes finished sequences, frees their pages, and calls done.
func (e *Engine) leave(done func(request int, r *Result) error) (err error) {
	kept := e.running[:0]
	for _, s := range e.running {
		n := len(s.result.Tokens)
		s.result.Stopped = n > 0 && s.request.Sampling.stops(s.result.Tokens[n-1])
		if n < s.request.Sampling.MaxTokens && !s.result.Stopped {
			kept = append(kept, s)
			continue
		}
		e.free(s)
		if done != nil && err == nil {
			err = done(s.index, s.result)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
	return err
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

// release frees the pages of all sequences.
func (e *Engine) release() {
	for _, s := range e.running {
		if s.cache != nil {
			s.cache.Truncate(0)
		}
	}
	e.running, e.held = nil, 0
}
