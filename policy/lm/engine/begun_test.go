package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/lmtest"
)

// A host is an engine, and the requests that wait for room in it.
type host struct {
	*engine.Engine
	waiting []int
}

// hop generates texts on hosts that take turns. After some passes a host gives up its running texts, from the first
// request on or from the last one back. The next host continues them, mostly with the given cache. hop returns the
// texts and the number of caches that were sent.
func hop(t *testing.T, hosts []*host, every int, all []engine.Request) (results []engine.Result, sent int) {
	t.Helper()
	results = make([]engine.Result, len(all))
	ended := 0
	watch := engine.Watch{Done: func(i int, r *engine.Result) error {
		results[i] = *r
		ended++
		return nil
	}}
	begun := slices.Clone(all)
	for i := range all {
		hosts[0].waiting = append(hosts[0].waiting, i)
	}
	for turn := 0; ended < len(all); turn++ {
		if turn > 10000 {
			t.Fatal("the texts do not end")
		}
		h, next := hosts[turn%len(hosts)], hosts[(turn+1)%len(hosts)]
		for range every {
			for len(h.waiting) > 0 {
				ok := test.Must(h.Start(&begun[h.waiting[0]], h.waiting[0]))(t)
				if !ok {
					break
				}
				h.waiting = h.waiting[1:]
			}
			test.OK(t, h.Step(&watch))
		}
		next.waiting = append(next.waiting, h.waiting...)
		h.waiting = nil
		for k := range all {
			i := k
			if turn%2 == 1 {
				i = len(all) - 1 - k
			}
			if b, ok := h.GiveUp(i); ok {
				if turn%5 == 3 {
					b.Cache = nil // the next host computes the cache anew
				} else if b.Cache != nil {
					sent++
				}
				begun[i].Begun = b
				next.waiting = append(next.waiting, i)
			}
		}
		if h.Running() != 0 {
			t.Fatalf("%d texts still run", h.Running())
		}
	}
	return results, sent
}

// TestBegun: a text has the same tokens and log-probs if another engine continues it. The texts may move after any
// pass, be in any batch, and share prompts.
func TestBegun(t *testing.T) {
	m := model(t)
	newHost := func(o engine.Options) *host {
		e := test.Must(engine.New(m, o))(t)
		return &host{Engine: e}
	}
	for name, s := range samplings() {
		t.Run(name, func(t *testing.T) {
			all := requests(11, s)
			for i := range 5 { // five answers to one prompt of three pages
				r := engine.Request{Sampling: s, Key: 50, Sample: uint64(i), Prompt: make([]int32, 3*lm.PageLen-1)}
				r.Sampling.MaxTokens = 3 + 2*i
				all = append(all, r)
			}
			want := generate(t, m, engine.Options{}, all)
			hosts := []*host{newHost(engine.Options{}), newHost(engine.Options{MaxRunning: 7, ChunkTokens: 7}),
				newHost(engine.Options{MaxRunning: 3, ChunkTokens: 50, CacheTokens: 9 * lm.PageLen})}
			sent := 0
			for every := 1; every <= s.MaxTokens; every++ {
				// Passes have so few tokens that a prompt takes several.
				for _, some := range [][]*host{{hosts[0], hosts[2]}, {hosts[2], hosts[0], hosts[1]}} {
					results, n := hop(t, some, every, all)
					sent += n
					for i, got := range results {
						if fmt.Sprint(got) != fmt.Sprint(want[i]) {
							t.Fatalf("given up after %d passes, request %d:\n%v\n%v", every, i, got, want[i])
						}
					}
				}
			}
			if sent == 0 {
				t.Error("no cache was sent")
			}
			for i, h := range hosts {
				// All pages are free again: the engine has room for the first requests.
				if got, err := h.Generate(t.Context(), all, engine.Watch{}); err != nil ||
					fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("engine %d afterwards: %v", i, err)
				}
			}
		})
	}
}

// TestGivenUpSource: a text may be given up at any time while it computes the prompt that other texts share.
func TestGivenUpSource(t *testing.T) {
	m := model(t)
	s := engine.Sampling{MaxTokens: 6, Temperature: 0.9, TopP: 1, RepetitionPenalty: 1, Seed: 2}
	var all []engine.Request
	for i := range 4 {
		all = append(all, engine.Request{Prompt: make([]int32, 2*lm.PageLen+3), Sampling: s, Sample: uint64(i)})
	}
	want := generate(t, m, engine.Options{}, all)
	for passes := range 12 {
		e := test.Must(engine.New(m, engine.Options{MaxRunning: 4, ChunkTokens: 5, CacheTokens: 6 * lm.PageLen}))(t)
		got, some := make([]engine.Result, len(all)), slices.Clone(all)
		watch := engine.Watch{Done: func(i int, r *engine.Result) error {
			got[i] = *r
			return nil
		}}
		step := func() {
			t.Helper()
			test.OK(t, e.Step(&watch))
		}
		start := func(i int) {
			t.Helper()
			if ok, err := e.Start(&some[i], i); err != nil || !ok {
				t.Fatalf("after %d passes: request %d has not started: %v", passes, i, err)
			}
		}
		for i := range all {
			start(i)
		}
		for range passes {
			step()
		}
		for i := range 2 {
			if r, ok := e.GiveUp(i); ok {
				some[i].Begun = r
				start(i)
			}
		}
		for e.Running() > 0 {
			step()
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %d passes:\n%v\n%v", passes, got, want)
		}
	}
}

// TestBegunInPasses: a beginning without its cache takes several passes, which do not end the text, although token 0 is
// a stop token. A beginning with its cache takes no passes.
func TestBegunInPasses(t *testing.T) {
	m := model(t)
	r := engine.Request{Prompt: []int32{1, 2, 3}, Sampling: engine.Sampling{MaxTokens: 20, Temperature: 1, TopP: 1,
		RepetitionPenalty: 1, Seed: 3, Stop: []int32{0}}}
	want := generate(t, m, engine.Options{}, []engine.Request{r})[0]
	const begun = 9
	if len(want.Tokens) <= begun {
		t.Fatalf("%d tokens: expected more, choose another seed", len(want.Tokens))
	}
	for _, cached := range []bool{false, true} {
		e := test.Must(engine.New(m, engine.Options{MaxRunning: 2, ChunkTokens: 4}))(t)
		first := r
		if ok, err := e.Start(&first, 0); err != nil || !ok {
			t.Fatal(ok, err)
		}
		for range begun {
			test.OK(t, e.Step(&engine.Watch{}))
		}
		rest := r
		rest.Begun, _ = e.GiveUp(0)
		passes := (len(r.Prompt)-1+3)/4 + len(want.Tokens) - begun
		if !cached {
			rest.Begun.Cache, passes = rest.Begun.Cache[:0], (len(r.Prompt)+begun+3)/4+len(want.Tokens)-begun-1
		}
		e.Use()
		all := test.Must(e.Generate(t.Context(), []engine.Request{rest}, engine.Watch{}))(t)
		if got := all[0]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v\n%v", got, want)
		}
		test.Equal(t, e.Use().Passes, passes, "cached %v: passes", cached)
	}
}

// TestGivenUpParts: an engine of a part of a model gives no cache, because it has only a part of the cache.
func TestGivenUpParts(t *testing.T) {
	axes := lmtest.NewAxes(2)
	test.OK(t, lmtest.Run(2, func(i int) error {
		e, err := engine.New(part(t, lm.Shard{Index: i, Size: 2}), engine.Options{Axis: axes[i]})
		if err != nil {
			return err
		}
		r := engine.Request{Prompt: []int32{1, 2, 3}, Sampling: engine.Greedy(9)}
		if ok, err := e.Start(&r, 0); err != nil || !ok {
			return fmt.Errorf("not started: %w", err)
		}
		for range 3 {
			if err := e.Step(&engine.Watch{}); err != nil {
				return err
			}
		}
		if b, ok := e.GiveUp(0); !ok || len(b.Tokens) == 0 || b.Cache != nil {
			return fmt.Errorf("%v: %d tokens and %d numbers of a cache", ok, len(b.Tokens), len(b.Cache))
		}
		return nil
	}))
}

// TestRefusesBeginnings: a beginning that the text cannot have, or that leaves no token to generate, is an error.
func TestRefusesBeginnings(t *testing.T) {
	e := test.Must(engine.New(model(t), engine.Options{}))(t)
	for want, begun := range map[string]engine.Result{
		"2 tokens with 1 log-probs":              {Tokens: []int32{1, 2}, LogProbs: []float32{0}},
		"fewer than the 3":                       {Tokens: []int32{1, 2, 3}, LogProbs: []float32{0, 0, 0}},
		"token 0 of the beginning":               {Tokens: []int32{vocab}, LogProbs: []float32{0}},
		"token 1 of the beginning":               {Tokens: []int32{1, -1}, LogProbs: []float32{0, 0}},
		"none that ends the text":                {Tokens: []int32{5}, LogProbs: []float32{0}},
		"request 7: a beginning of 2":            {Tokens: []int32{5, 5}, LogProbs: nil},
		"a beginning whose cache has 10 numbers": {Tokens: []int32{1}, LogProbs: []float32{0}},
	} {
		r := engine.Request{Prompt: []int32{1}, Sampling: engine.Greedy(3), Begun: engine.Begun{Result: begun}}
		if strings.HasPrefix(want, "a beginning whose cache") {
			r.Begun.Cache = make([]float32, 10)
		}
		r.Sampling.Stop = []int32{5}
		if ok, err := e.Start(&r, 7); ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v: expected %q", ok, err, want)
		}
	}
	if _, ok := e.GiveUp(7); ok {
		t.Error("a text that never ran was given up")
	}
}
