package worker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/language/deal"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// TestAnswerWords: readAnswer returns the answers of appendAnswer. Truncated words are an error.
func TestAnswerWords(t *testing.T) {
	want := []deal.Answer{
		{Group: 3, Sample: 1, Collector: 2},
		{Group: 1 << 20, Sample: 7, Begun: engine.Begun{Cache: []float32{1, -2, 1e30, 0}, Result: engine.Result{
			Tokens: []int32{5, 0, 1 << 30}, LogProbs: []float32{-0.5, 0, -1e-30}, Stopped: true}}},
		{Collector: 9, Begun: engine.Begun{Cache: []float32{3},
			Result: engine.Result{Tokens: []int32{4}, LogProbs: []float32{-7}}}},
	}
	var words []int32
	for i := range want {
		words = appendAnswer(words, &want[i])
	}
	rest := words
	for i := range want {
		var got deal.Answer
		var err error
		if got, rest, err = readAnswer(rest); err != nil {
			t.Fatal(err)
		}
		if len(got.Tokens) == 0 {
			got.Begun = engine.Begun{}
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%+v, expected %+v", got, want[i])
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d words are left", len(rest))
	}
	last := words[len(words)-answerWords-3:]
	for n := range last {
		if _, _, err := readAnswer(last[:n]); err == nil || !strings.Contains(err.Error(), "an answer of") {
			t.Errorf("%d words: %v", n, err)
		}
	}
	for _, at := range []int{3, 4} {
		negative := slices.Clone(last)
		negative[at] = -1
		if _, _, err := readAnswer(negative); err == nil {
			t.Errorf("a length of -1 in word %d is accepted", at)
		}
	}
	got, _, err := readAnswer(last)
	clear(last)
	if err != nil || got.Tokens[0] != 4 || got.LogProbs[0] != -7 {
		t.Errorf("tokens %v and log-probs %v are in the memory of a message", got.Tokens, got.LogProbs)
	}
}

// TestMessageInMemory: the load of a message does not keep the message's cache in memory.
func TestMessageInMemory(t *testing.T) {
	const cached = 1000
	a := deal.Answer{Begun: engine.Begun{Cache: make([]float32, cached),
		Result: engine.Result{Tokens: []int32{5}, LogProbs: []float32{-1}}}}
	sent := deal.Message{Kind: deal.Give, Load: deal.Backlog{Tokens: []int32{7}}, Answers: []deal.Answer{a}}
	err := spmd.Run(t.Context(), local.New(2), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		ends, err := w.NewComm(w.Ranks(), Dealing)
		if err != nil {
			return err
		}
		p := &post{comm: ends[0], member: func(replica int) int { return replica }}
		if w.Rank() == 1 {
			p.send(0, sent)
			p.send(0, deal.Message{Kind: deal.End})
			return p.flush(ctx)
		}
		if err := p.expect([]int{1}); err != nil {
			return err
		}
		for {
			_, m, ok, err := p.receive(ctx, false)
			if err != nil || m.Kind == deal.End {
				return err
			}
			if !ok {
				continue
			}
			if !reflect.DeepEqual(m, sent) {
				t.Errorf("%+v", m)
			}
			if n := cap(m.Load.Tokens); n >= cached {
				t.Errorf("the load keeps %d words in memory", n)
			}
		}
	})
	test.OK(t, err)
}

// BenchmarkMoved prints the cost of moving a token of an answer with its keys and values, as a share of the cost of a
// new token. A move takes the keys and values out of a cache and into words, sends the words by two hops, and writes
// them into a cache. Copies stand for the hops.
func BenchmarkMoved(b *testing.B) {
	for _, c := range []lm.Config{
		{Hidden: 64, Layers: 4, Heads: 4, HeadDim: 16, Intermediate: 176, Vocab: 16},
		{Hidden: 256, Layers: 6, Heads: 4, HeadDim: 64, Intermediate: 704, Vocab: 512},
	} {
		b.Run(fmt.Sprint("d=", c.Hidden), func(b *testing.B) { benchmarkMoved(b, c) })
	}
}

func benchmarkMoved(b *testing.B, c lm.Config) {
	const texts, tokens = 64, 500
	engines := [2]*engine.Engine{textEngine(b, c, texts), textEngine(b, c, texts)}
	request := engine.Request{Prompt: make([]int32, 32),
		Sampling: engine.Sampling{MaxTokens: 600, Temperature: 1, TopP: 1, RepetitionPenalty: 1}}
	start := func(e *engine.Engine, r engine.Request, index int) {
		r.Key = uint64(index)
		if ok, err := e.Start(&r, index); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
	step := func(e *engine.Engine) time.Duration {
		began := time.Now()
		test.OK(b, e.Step(&engine.Watch{}))
		return time.Since(began)
	}
	for i := range texts {
		start(engines[0], request, i)
	}
	var decode, moved time.Duration
	for range tokens {
		decode += step(engines[0])
	}
	begun, _ := engines[0].GiveUp(0)
	for b.Loop() {
		began := time.Now()
		words := appendAnswer(nil, &deal.Answer{Begun: begun})
		for range 2 {
			words = slices.Clone(words)
		}
		a, _, err := readAnswer(words)
		test.OK(b, err)
		r := request
		r.Begun = a.Begun
		start(engines[1], r, 0)
		moved += time.Since(began)
		step(engines[1])          // of the prompt
		moved += step(engines[1]) // also writes the keys and values to the cache
		moved -= step(engines[1])
		began = time.Now()
		engines[1].GiveUp(0)
		moved += time.Since(began)
	}
	token := float64(decode.Nanoseconds()) / (texts * tokens)
	b.ReportMetric(token, "ns/new_token")
	b.ReportMetric(float64(moved.Nanoseconds())/float64(b.N*tokens)/token, "of_a_new_token")
}

// textEngine returns an engine with room for this number of texts of 640 tokens.
func textEngine(b *testing.B, c lm.Config, texts int) *engine.Engine {
	c.Family, c.KVHeads, c.Eps, c.Tied = lm.Qwen2, 2, 1e-6, true
	c.Rope = lm.Rope{Theta: 1e4, Type: lm.RopeDefault}
	m, err := lm.New(new(nn.Params[float32]), c, lm.Options{Frozen: true})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(b, err)
	m.Init(1)
	e := test.Must(engine.New(m, engine.Options{MaxRunning: texts, CacheTokens: texts * 640}))(b)
	return e
}
