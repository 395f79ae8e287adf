package deal_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
)

// A shelf is an engine that keeps texts, and generates no tokens.
type shelf struct {
	room  int
	texts map[int]engine.Begun
}

func (s *shelf) Start(r *engine.Request, index int) (bool, error) {
	if len(s.texts) == s.room {
		return false, nil
	}
	s.texts[index] = engine.Begun{Result: r.Begun.Result} // the engine has its own cache
	return true, nil
}

func (s *shelf) Step(*engine.Watch) error { return nil }
func (s *shelf) Running() int             { return len(s.texts) }

func (s *shelf) GiveUp(index int) (engine.Begun, bool) {
	b, ok := s.texts[index]
	delete(s.texts, index)
	return b, ok
}

// player returns a player on a shelf that begins without prompts, and a pointer to its last message.
func player(room int) (*deal.Player, *deal.Message) {
	said := new(deal.Message)
	return deal.NewPlayer(deal.Common{Players: 2, Size: 8, Running: room}, deal.Setup{
		Engine:  &shelf{room, map[int]engine.Begun{}},
		Request: func(int, int) engine.Request { return engine.Request{} },
		Send:    func(m deal.Message) { *said = m }}), said
}

// begun returns the beginning of an answer with a cache of this length.
func begun(sample, cached int) deal.Answer {
	return deal.Answer{Sample: sample, Collector: 1, Begun: engine.Begun{Cache: make([]float32, cached),
		Result: engine.Result{Tokens: []int32{1}, LogProbs: []float32{0}}}}
}

// TestCachesAreFreed: a player keeps no cache of answers that it has started or given away.
func TestCachesAreFreed(t *testing.T) {
	p, said := player(1)
	var caches []weak.Pointer[float32]
	give := deal.Message{Kind: deal.Give}
	for i := range 3 {
		a := begun(i, 1000)
		caches = append(caches, weak.Make(&a.Cache[0]))
		give.Answers = append(give.Answers, a)
	}
	for _, m := range []deal.Message{give, {Kind: deal.None}} {
		test.OK(t, p.Receive(m))
	}
	give = deal.Message{}
	if err := p.Turn(); err != nil { // starts the first
		t.Fatal(err)
	}
	if err := p.Receive(deal.Message{Kind: deal.Order, Player: 1, Count: 1}); err != nil { // gives the last away
		t.Fatal(err)
	}
	if len(said.Answers) != 1 || len(said.Answers[0].Cache) != 1000 {
		t.Fatalf("%d answers given away", len(said.Answers))
	}
	*said = deal.Message{}
	runtime.GC()
	for i, kept := range []bool{false, true, false} {
		if got := caches[i].Value() != nil; got != kept {
			t.Errorf("cache %d is in memory: %v", i, got)
		}
	}
	runtime.KeepAlive(p)
}

// TestMostCache: the caches of a message have at most MostCache numbers.
func TestMostCache(t *testing.T) {
	p, said := player(0)
	give := deal.Message{Kind: deal.Give}
	for i, cached := range []int{10, deal.MostCache, deal.MostCache - 10, deal.MostCache + 1, 10} {
		give.Answers = append(give.Answers, begun(i, cached))
	}
	for _, m := range []deal.Message{give, {Kind: deal.Order, Count: 4}} {
		test.OK(t, p.Receive(m))
	}
	var got []int
	for _, a := range said.Answers {
		got = append(got, len(a.Cache))
	}
	if want := []int{10, 0, deal.MostCache - 10, 0}; len(got) != 4 || [4]int(got) != [4]int(want) {
		t.Errorf("caches of %d numbers, expected %d", got, want)
	}
}

// TestCostOfLongAnswers: answers move with their caches if a message has room for them. Longer answers move only if
// computing their caches anew pays.
func TestCostOfLongAnswers(t *testing.T) {
	for cached, want := range map[int]string{0: "[]", 250: "[2 2]", 10000: "[4]"} {
		ordered := []int{}
		d := deal.NewDealer(deal.Common{Players: 2, Prompts: 2, Size: 8, Running: 8, Tokens: 1000, Mean: 100,
			Cached: cached, Cost: deal.Durations{Pass: 2, Context: 10}}, func(_ int, m deal.Message) {
			if m.Kind == deal.Order {
				ordered = append(ordered, m.Count)
			}
		})
		long := []int32{100, 100, 100, 100, 100, 100, 100, 100}
		for p, m := range []deal.Message{{Kind: deal.Report, Load: deal.Backlog{Tokens: long}}, {Kind: deal.Complete}} {
			test.OK(t, d.Receive(p, m))
		}
		if d.Settle(); fmt.Sprint(ordered) != want {
			t.Errorf("room for the caches of %d tokens: %d answers move, expected %s", cached, ordered, want)
		}
	}
}
