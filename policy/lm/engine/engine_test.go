package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/lmtest"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

const vocab = 23

func model(t *testing.T) *lm.Model { return part(t, lm.Shard{}) }

func part(t *testing.T, p lm.Shard) *lm.Model {
	t.Helper()
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: vocab, Hidden: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 20,
		Eps:  1e-5,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.4, QKVBias: true, Tied: true,
	}, lm.Options{Frozen: true, Part: p})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(3)
	return m
}

// requests are prompts of 1 to 40 tokens.
func requests(n int, s engine.Sampling) []engine.Request {
	var all []engine.Request
	for i := range n {
		r := engine.Request{Sampling: s, Key: uint64(i / 2), Sample: uint64(i % 2)}
		for k := range 1 + (i*13)%40 {
			r.Prompt = append(r.Prompt, int32((i*7+k*5)%vocab))
		}
		r.Sampling.MaxTokens = 1 + (i*5)%s.MaxTokens
		all = append(all, r)
	}
	return all
}

// generate returns the results of some requests. It checks that the watcher gets the same results, and that no text
// stops early.
func generate(t *testing.T, m *lm.Model, o engine.Options, some []engine.Request) []engine.Result {
	t.Helper()
	e := test.Must(engine.New(m, o))(t)
	defer e.Close()
	emitted, ended := make([][]int32, len(some)), make([]engine.Result, len(some))
	results := test.Must(e.Generate(t.Context(), some, engine.Watch{
		Token: func(r int, id int32) { emitted[r] = append(emitted[r], id) },
		Done: func(r int, result *engine.Result) error {
			ended[r] = *result
			return nil
		}}))(t)
	for i, r := range results {
		if fmt.Sprint(ended[i]) != fmt.Sprint(r) || !slices.Equal(emitted[i], r.Tokens) ||
			len(r.Tokens) != some[i].Sampling.MaxTokens || r.Stopped {
			t.Fatalf("request %d: %+v, emitted %v", i, r, emitted[i])
		}
	}
	return results
}

// samplings are the ways to choose a token: the likeliest, any, and any of the likeliest with a penalty.
func samplings() map[string]engine.Sampling {
	sampled := engine.Sampling{MaxTokens: 24, Temperature: 0.8, TopP: 1, RepetitionPenalty: 1, Seed: 5}
	cut := sampled
	cut.TopK, cut.TopP, cut.RepetitionPenalty = 9, 0.9, 1.3
	return map[string]engine.Sampling{"greedy": engine.Greedy(24), "sampled": sampled, "cut": cut}
}

// TestAnyBatch: a request gets the same bits alone and in any batch, with a cache of any sufficient size, and with
// chunks of any size.
func TestAnyBatch(t *testing.T) {
	m := model(t)
	for name, s := range samplings() {
		t.Run(name, func(t *testing.T) {
			all := requests(11, s)
			want := generate(t, m, engine.Options{}, all)
			for _, o := range []engine.Options{
				{MaxRunning: 1}, {MaxRunning: 3, ChunkTokens: 3}, {MaxRunning: 5, ChunkTokens: 17, CacheTokens: 64},
				{Threads: 2},
			} {
				for i, got := range generate(t, m, o, all) {
					if fmt.Sprint(got) != fmt.Sprint(want[i]) {
						t.Errorf("%+v, request %d:\n%v\n%v", o, i, got, want[i])
					}
				}
			}
			for i := range all {
				alone := generate(t, m, engine.Options{}, all[i:i+1])
				if fmt.Sprint(alone[0]) != fmt.Sprint(want[i]) {
					t.Errorf("request %d alone:\n%v\n%v", i, alone[0], want[i])
				}
			}
		})
	}
}

// TestParts: two ranks that divide a model generate the same as one rank.
func TestParts(t *testing.T) {
	m := model(t)
	for name, s := range samplings() {
		t.Run(name, func(t *testing.T) {
			all := requests(11, s)
			want := fmt.Sprint(generate(t, m, engine.Options{}, all))
			axes := lmtest.NewAxes(2)
			test.OK(t, lmtest.Run(2, func(i int) error {
				m := part(t, lm.Shard{Index: i, Size: 2})
				o := engine.Options{MaxRunning: 5, ChunkTokens: 17, CacheTokens: 64, Axis: axes[i]}
				if got := fmt.Sprint(generate(t, m, o, all)); got != want {
					return fmt.Errorf("it generates\n%s\n%s", got, want)
				}
				return nil
			}))
		})
	}
}

// TestLogProbsOfTraining: log-probs are those of a pass over the whole text, unless a penalty changes them.
func TestLogProbsOfTraining(t *testing.T) {
	m := model(t)
	for name, s := range samplings() {
		if s.RepetitionPenalty != 1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			all := requests(11, s)
			for i, r := range generate(t, m, engine.Options{}, all) {
				text := slices.Concat(all[i].Prompt, r.Tokens)
				w := m.NewTraining(len(text))
				test.OK(t, m.Forward(w, lm.Batch{IDs: text, Starts: []int32{0, int32(len(text))}}))
				var targets []lm.Target
				for k := range r.Tokens {
					at := len(all[i].Prompt) + k
					targets = append(targets, lm.Target{Row: int32(at - 1), Token: text[at]})
				}
				logProbs, temperature := make([]float32, len(targets)), float32(1)
				if s.Temperature > 0 {
					temperature = float32(s.Temperature)
				}
				m.LogProbs(w, logProbs, nil, targets, temperature)
				if !slices.Equal(logProbs, r.LogProbs) {
					t.Errorf("request %d: log-probs %v, in training %v", i, r.LogProbs, logProbs)
				}
			}
		})
	}
}

// TestGroups: answers to one prompt share the prompt's pages, so that more answers run at the same time. Each answer is
// the same as without the others.
func TestGroups(t *testing.T) {
	m := model(t)
	for _, length := range []int{1, 16, 17, 40, 49} {
		const samples = 6
		var all []engine.Request
		for i := range samples {
			r := engine.Request{Sampling: engine.Sampling{MaxTokens: 3 + i, Temperature: 0.9, TopP: 1,
				RepetitionPenalty: 1, Seed: 2}, Sample: uint64(i)}
			for k := range length {
				r.Prompt = append(r.Prompt, int32(k*5%vocab))
			}
			all = append(all, r)
		}
		var want []engine.Result
		e := test.Must(engine.New(m, engine.Options{}))(t)
		for i := range all {
			alone := test.Must(e.Generate(t.Context(), all[i:i+1], engine.Watch{}))(t)
			want = append(want, alone...)
		}
		// The prompt's full pages count once. Each answer has a page for the rest of the prompt and its first new
		// tokens, and at most one page more.
		pages := (length-1)/lm.PageLen + 2*samples
		for _, o := range []engine.Options{{}, {MaxRunning: 2}, {CacheTokens: pages * lm.PageLen},
			{ChunkTokens: 6, MaxRunning: 6}} {
			e := test.Must(engine.New(m, o))(t)
			last := make([]int, samples) // when a request's last token came
			first := make([]int, samples)
			n := 0
			got := test.Must(e.Generate(t.Context(), all, engine.Watch{Token: func(r int, _ int32) {
				n++
				if last[r] = n; first[r] == 0 {
					first[r] = n
				}
			}}))(t)
			for i := range want {
				if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
					t.Errorf("prompt of %d, %+v, sample %d:\n%v\n%v", length, o, i, got[i], want[i])
				}
			}
			if o.CacheTokens > 0 && first[samples-1] > last[0] {
				t.Errorf("prompt of %d: the last answer began when the first had ended: %v, %v", length, first, last)
			}
		}
	}
}

// TestStop: a stop token is the last of its answer.
func TestStop(t *testing.T) {
	m := model(t)
	e, err := engine.New(m, engine.Options{})
	test.OK(t, err)
	r := requests(1, engine.Greedy(1))[:1]
	r[0].Sampling = engine.Greedy(12)
	free := test.Must(e.Generate(t.Context(), r, engine.Watch{}))(t)
	r[0].Sampling.Stop = []int32{free[0].Tokens[4]}
	first := slices.Index(free[0].Tokens, free[0].Tokens[4])
	got, err := e.Generate(t.Context(), r, engine.Watch{})
	if err != nil || !got[0].Stopped || !slices.Equal(got[0].Tokens, free[0].Tokens[:first+1]) {
		t.Errorf("%+v, %v; without a stop %v", got, err, free[0].Tokens)
	}
}

// nextLogProbs returns the log-probability of every token after the prompt.
func nextLogProbs(t *testing.T, m *lm.Model, prompt []int32, temperature float32) []float32 {
	t.Helper()
	w := m.NewTraining(len(prompt))
	test.OK(t, m.Forward(w, lm.Batch{IDs: prompt, Starts: []int32{0, int32(len(prompt))}}))
	logProbs, targets := make([]float32, vocab), make([]lm.Target, vocab)
	for id := range targets {
		targets[id] = lm.Target{Row: int32(len(prompt) - 1), Token: int32(id)}
	}
	m.LogProbs(w, logProbs, nil, targets, temperature)
	return logProbs
}

// TestLowTemperatures: at a temperature close to 0 the most likely token is taken, with a probability of 1.
func TestLowTemperatures(t *testing.T) {
	m := model(t)
	e := test.Must(engine.New(m, engine.Options{}))(t)
	likeliest := test.Must(e.Generate(t.Context(), requests(5, engine.Greedy(8)), engine.Watch{}))(t)
	for _, temperature := range []float64{1e-20, 1e-30, 1e-38, 1e-39, 1e-46, 5e-324} {
		s := engine.Greedy(8)
		s.Temperature = temperature
		got := test.Must(e.Generate(t.Context(), requests(5, s), engine.Watch{}))(t)
		for i, r := range got {
			uncertain := slices.Max(r.LogProbs) != 0 || slices.Min(r.LogProbs) != 0
			if uncertain || !slices.Equal(r.Tokens, likeliest[i].Tokens) {
				t.Errorf("temperature %g: tokens %v, log-probs %v, want %v", temperature, r.Tokens, r.LogProbs,
					likeliest[i].Tokens)
			}
		}
		logProbs := nextLogProbs(t, m, []int32{4, 2}, float32(temperature))
		if slices.Max(logProbs) != 0 || slices.ContainsFunc(logProbs, func(x float32) bool { return x != x }) {
			t.Errorf("temperature %g: log-probs %v", temperature, logProbs)
		}
	}
}

// TestFrequencies: tokens are drawn as often as softmax(logits/temperature) says, within top_k and top_p.
func TestFrequencies(t *testing.T) {
	m := model(t)
	prompt := []int32{4, 2}
	const temperature = 0.7
	logProbs := nextLogProbs(t, m, prompt, temperature)
	byProb := make([]int, vocab)
	for id := range byProb {
		byProb[id] = id
	}
	slices.SortFunc(byProb, func(a, b int) int { return int(math.Copysign(1, float64(logProbs[b]-logProbs[a]))) })
	for _, c := range []struct {
		topK   int
		topP   float64
		tokens int // Options.Tokens
		kept   int // number of the likeliest ids that may be drawn
	}{
		{0, 1, 0, vocab}, {4, 1, 0, 4}, {0, float64(float32(math.Exp(float64(logProbs[byProb[0]])))) + 1e-3, 0, 2},
		{0, 1, 11, 11},
		{3, 1, 11, 3},
	} {
		const n = 4000
		e := test.Must(engine.New(m, engine.Options{Tokens: c.tokens}))(t)
		drawn := slices.DeleteFunc(slices.Clone(byProb), func(id int) bool { return c.tokens > 0 && id >= c.tokens })
		s := engine.Sampling{MaxTokens: 1, Temperature: temperature, TopK: c.topK, TopP: c.topP, RepetitionPenalty: 1,
			Seed: 9}
		var all []engine.Request
		for i := range n {
			all = append(all, engine.Request{Prompt: prompt, Sampling: s, Key: uint64(i), Sample: 3})
		}
		results := test.Must(e.Generate(t.Context(), all, engine.Watch{}))(t)
		count, share := make([]float64, vocab), 0.0
		for _, r := range results {
			count[r.Tokens[0]]++
		}
		for _, id := range drawn[:c.kept] {
			share += math.Exp(float64(logProbs[id]))
		}
		for _, id := range byProb {
			want := 0.0
			if slices.Contains(drawn[:c.kept], id) {
				want = math.Exp(float64(logProbs[id])) / share
			}
			if d := math.Abs(count[id]/n - want); d > 5*math.Sqrt(want*(1-want)/n) {
				t.Errorf("top_k %d, top_p %.3f, %d tokens: token %d %.4f of the time, want %.4f", c.topK, c.topP,
					c.tokens, id, count[id]/n, want)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	m := model(t)
	if _, err := engine.New(m, engine.Options{Threads: -1}); err == nil {
		t.Error("-1 threads are not refused")
	}
	if _, err := engine.New(m, engine.Options{MaxRunning: 8, ChunkTokens: 4}); err == nil {
		t.Error("passes of fewer tokens than sequences are not refused")
	}
	e := test.Must(engine.New(m, engine.Options{CacheTokens: 32}))(t)
	good := engine.Request{Prompt: []int32{1, 2}, Sampling: engine.Greedy(4)}
	for want, spoil := range map[string]func(*engine.Request){
		"an empty prompt":       func(r *engine.Request) { r.Prompt = nil },
		"token 1 of the prompt": func(r *engine.Request) { r.Prompt = []int32{0, vocab} },
		"the cache holds 32":    func(r *engine.Request) { r.Sampling.MaxTokens = 32 },
		"0 new tokens":          func(r *engine.Request) { r.Sampling.MaxTokens = 0 },
		"temperature -1":        func(r *engine.Request) { r.Sampling.Temperature = -1 },
		"top_k -1":              func(r *engine.Request) { r.Sampling.TopK = -1 },
		"top_p 0":               func(r *engine.Request) { r.Sampling.TopP = 0 },
		"repetition penalty 0":  func(r *engine.Request) { r.Sampling.RepetitionPenalty = 0 },
	} {
		bad := good
		spoil(&bad)
		results, err := e.Generate(t.Context(), []engine.Request{good, bad}, engine.Watch{Token: func(int, int32) {
			t.Errorf("%s: work has begun", want)
		}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "request 1: ") ||
			results != nil {
			t.Errorf("%v, want request 1: %s", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	if _, err := e.Generate(ctx, []engine.Request{good}, engine.Watch{}); err == nil || err.Error() != "enough" {
		t.Errorf("cancelled: %v", err)
	}
	test.Check(t, test.Err(e.Generate(t.Context(), []engine.Request{good}, engine.Watch{})), "after errors")
}

// TestNoAllocation: a longer answer costs no more allocations than a short one.
func TestNoAllocation(t *testing.T) {
	m := model(t)
	e := test.Must(engine.New(m, engine.Options{}))(t)
	count := func(tokens int) float64 {
		s := engine.Sampling{MaxTokens: tokens, Temperature: 1, TopK: 5, TopP: 0.9, RepetitionPenalty: 1.1}
		r := []engine.Request{{Prompt: []int32{1}, Sampling: s}, {Prompt: []int32{2, 3}, Sampling: s}}
		return testing.AllocsPerRun(5, func() {
			test.Must(e.Generate(t.Context(), r, engine.Watch{}))(t)
		})
	}
	if short, long := count(8), count(200); long > short {
		t.Errorf("%v allocations for 8 tokens, %v for 200", short, long)
	}
}

// TestUse: a request with 5 prompt tokens and 3 new tokens takes 3 passes. It has one page up to its 16th token.
func TestUse(t *testing.T) {
	e := test.Must(engine.New(model(t), engine.Options{CacheTokens: 4 * lm.PageLen}))(t)
	generate := func(prompt, tokens int) engine.Utilization {
		t.Helper()
		one := engine.Request{Prompt: make([]int32, prompt),
			Sampling: engine.Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 1, MaxTokens: tokens}}
		test.Must(e.Generate(t.Context(), []engine.Request{one}, engine.Watch{}))(t)
		return e.Use()
	}
	if got, want := generate(5, 3), (engine.Utilization{Passes: 3, Pages: 0.75, Running: 3, Peak: 0.25}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// The text has a second page from its 17th token on: in the last 2 of 4 passes.
	got, want := generate(lm.PageLen-1, 4), engine.Utilization{Passes: 4, Pages: 1.5, Running: 4, Peak: 0.5}
	test.Equal(t, got, want)
	if got := e.Use(); got != (engine.Utilization{}) {
		t.Errorf("%+v without a pass", got)
	}
}
