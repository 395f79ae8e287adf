// Package engine generates many texts at once with one language model. A sequence joins a running batch as soon as the
// cache has pages for its maximum length, and leaves the batch when it ends. While several answers to one prompt run,
// they share the pages of the prompt. The result of a sequence never depends on other sequences.
//
//	e, err := engine.New(model, engine.Options{})
//	results, err := e.Generate(ctx, requests, engine.Watch{})
//
// Generate needs all requests when it begins. To add requests later, call Start for each request, and Step for each
// pass. GiveUp stops an unfinished text. Any engine with the same weights can finish the text.
//
//	started, err := e.Start(&request, index) // false: no room now
//	err = e.Step(&watch)                     // one pass, while e.Running() > 0
//	request.Begun, ok = e.GiveUp(index)
package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
)

// Options are the limits of an Engine. A field that is 0 gets its default.
type Options struct {
	MaxRunning  int // sequences that run at the same time; default 64
	CacheTokens int // capacity of the cache; default 16384
	ChunkTokens int // prompt tokens in one pass; default 512
	Threads     int // threads of a pass, without effect on results; default 1. With more than 1, call Close
	Tokens      int // only ids below Tokens are drawn, if the tokenizer has fewer ids than the model; default all
	// Axis connects the tensor-parallel ranks of the model; nil for one rank. Every rank has an Engine with the same
	// options and gets the same requests. Each rank draws the tokens of some sequences.
	Axis lm.Axis
}

// A Request is a prompt to continue, with its options.
type Request struct {
	Prompt   []int32 // at least one token
	Sampling Sampling
	// Key and Sample select the random numbers of this text. Key identifies the prompt, and Sample identifies one of
	// its answers. Key must be below 2^32, and Sample must be below 2^16.
	Key, Sample uint64
	// Begun is a result of GiveUp, from an engine with the same weights. This engine continues the text, with the bits
	// that the first engine would have generated. Sampling.MaxTokens includes the tokens of Begun.
	Begun Begun
}

// A Begun is the beginning of an unfinished text.
type Begun struct {
	Result
	// Cache has the keys and values of all Tokens except the last. The engine that continues the text copies them and
	// then sets Cache to nil. If Cache is empty, the engine recomputes the keys and values. Cache is empty if the model
	// has several tensor-parallel ranks.
	Cache []float32
}

// A Result is the text generated after a prompt.
type Result struct {
	Tokens []int32 // with the stop token, if any
	// LogProbs are the log-probabilities of Tokens in softmax(logits/temperature) over all tokens,
	// or in softmax(logits) if the temperature is 0.
	LogProbs []float32
	Stopped  bool // whether the text ended with a stop token; otherwise it ended at Sampling.MaxTokens
}

// A Watch has callbacks for texts as they grow. Both functions may be nil.
type Watch struct {
	Token func(request int, token int32) // called with each new token
	// Done is called with each text when it ends, while other texts still grow. An error ends Generate.
	Done func(request int, r *Result) error
}

// An Engine generates texts with one model. It belongs to one goroutine.
type Engine struct {
	model   *lm.Model
	opts    Options
	cache   *lm.Cache
	work    *lm.Work
	running []*sequence
	pages   int // pages of the cache
	use     Utilization
	held    int // pages that the running sequences can need in total

	pieces []lm.Piece
	rows   []int32     // rows of the pass from which a token is drawn
	drawn  []*sequence // the sequence of each row in rows
	logits []float32
	tokens []float32 // result of draw
	counts []int     // length of each rank's part of tokens
	picker picker
}

// New returns an engine. If a limit is too small, the error names the limit.
func New(m *lm.Model, o Options) (*Engine, error) {
	o.MaxRunning, o.CacheTokens = cmp.Or(o.MaxRunning, 64), cmp.Or(o.CacheTokens, 1<<14)
	o.ChunkTokens, o.Tokens = cmp.Or(o.ChunkTokens, 512), cmp.Or(o.Tokens, m.Config.Vocab)
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

// A Utilization measures the load of an engine. Pages and Running are sums over passes.
type Utilization struct {
	Passes  int
	Pages   float64 // share of the cache's pages in use
	Running float64 // number of running sequences
	Peak    float64 // the largest share of pages
}

// Use returns the load of the engine since the last call of Use.
func (e *Engine) Use() Utilization {
	use := e.use
	e.use = Utilization{}
	return use
}

// Add adds the load of another engine, or of another period.
func (u *Utilization) Add(v Utilization) {
	u.Passes, u.Pages, u.Running, u.Peak = u.Passes+v.Passes, u.Pages+v.Pages, u.Running+v.Running, max(u.Peak, v.Peak)
}

// Close ends the engine's threads.
func (e *Engine) Close() { e.work.SetThreads(1) }

// Generate continues all requests and returns their results in order. It calls the functions of w while texts grow. If
// a request is invalid, Generate returns an error that names the request, before it generates any token.
func (e *Engine) Generate(ctx context.Context, requests []Request, w Watch) ([]Result, error) {
	for i := range requests {
		if err := e.check(&requests[i]); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	results := make([]Result, len(requests))
	defer func() {
		for _, s := range e.running {
			e.free(s)
		}
		e.running = nil
	}()
	for next := 0; next < len(requests) || len(e.running) > 0; {
		if err := context.Cause(ctx); err != nil {
			return results, err
		}
		for next < len(requests) && e.admit(&requests[next], &results[next], next) {
			next++
		}
		if err := e.Step(&w); err != nil {
			return results, err
		}
	}
	return results, nil
}

// Start adds a request to the running requests. It returns false if there is no room for the request yet. index
// identifies the request in calls of a Watch and of GiveUp.
func (e *Engine) Start(r *Request, index int) (bool, error) {
	if err := e.check(r); err != nil {
		return false, fmt.Errorf("request %d: %w", index, err)
	}
	return e.admit(r, new(Result), index), nil
}

// Running returns the number of running texts.
func (e *Engine) Running() int { return len(e.running) }

// GiveUp stops a running text before its end, and returns the text so far. ok is false if no text with this index is
// running.
func (e *Engine) GiveUp(index int) (begun Begun, ok bool) {
	at := slices.IndexFunc(e.running, func(s *sequence) bool { return s.index == index })
	if at < 0 {
		return Begun{}, false
	}
	e.fork()
	gone := e.running[at]
	e.running = slices.Delete(e.running, at, at+1)
	var heir *sequence // replaces gone as the source of the waiting sequences
	for _, s := range e.running {
		switch {
		case s.source != gone:
		case heir == nil:
			heir, s.source, s.cache = s, nil, e.cache.NewText(e.length(s.request))
		default:
			s.source = heir
		}
	}
	begun = Begun{*gone.result, gone.request.Begun.Cache}
	prompt := len(gone.request.Prompt)
	if n := len(begun.Tokens); n > 0 && e.opts.Axis == nil && gone.source == nil &&
		gone.cache.Len() == prompt+n-1 {
		begun.Cache = gone.cache.Pages(prompt - 1)
	}
	e.free(gone)
	return begun, true
}
