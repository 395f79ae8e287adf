package deal_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
)

// median is the median of the lengths of answers, and most the longest, in tokens.
const (
	median = 128
	most   = 16 * median
	prompt = 32
)

// length returns the length of an answer: log-normal with σ 1, cut at most.
func length(seed uint64, group, sample int) int {
	s := philox.New(seed, philox.Token, uint64(group), uint64(sample))
	z, _ := s.Normal()
	return max(1, min(most, int(median*math.Exp(z))))
}

// A clocked is an engine in virtual time. A text's tokens follow from its number and their positions.
type clocked struct {
	seed  uint64
	cost  deal.Cost
	room  int
	clock float64
	texts []*text
}

type text struct {
	index  int
	r      *engine.Request
	end    int
	result engine.Result
}

func tokenAt(group, sample uint64, at int) (int32, float32) {
	return int32(group*31+sample*7+uint64(at)) % 997, -float32(at) - float32(sample)/16
}

func (e *clocked) Start(r *engine.Request, index int) (bool, error) {
	if len(e.texts) == e.room {
		return false, nil
	}
	if n := len(r.Begun.Tokens); n > 0 {
		e.clock += e.cost.Context * float64(n+len(r.Prompt))
	}
	result := engine.Result{Tokens: append([]int32{}, r.Begun.Tokens...),
		LogProbs: append([]float32{}, r.Begun.LogProbs...)}
	e.texts = append(e.texts, &text{index, r, length(e.seed, int(r.Key), int(r.Sample)), result})
	return true, nil
}

func (e *clocked) Step(w *engine.Watch) error {
	if len(e.texts) > 0 {
		e.clock += e.cost.Pass + float64(len(e.texts))
	}
	var ended []*text
	kept := e.texts[:0]
	for _, t := range e.texts {
		id, logProb := tokenAt(t.r.Key, t.r.Sample, len(t.result.Tokens))
		t.result.Tokens, t.result.LogProbs = append(t.result.Tokens, id), append(t.result.LogProbs, logProb)
		w.Token(t.index, id)
		if len(t.result.Tokens) == t.end {
			ended = append(ended, t)
		} else {
			kept = append(kept, t)
		}
	}
	e.texts = kept
	for _, t := range ended {
		if err := w.Done(t.index, &t.result); err != nil {
			return err
		}
	}
	return nil
}

func (e *clocked) GiveUp(index int) (engine.Result, bool) {
	for i, t := range e.texts {
		if t.index == index {
			e.texts = append(e.texts[:i], e.texts[i+1:]...)
			return t.result, true
		}
	}
	return engine.Result{}, false
}

func (e *clocked) Running() int { return len(e.texts) }

// A letter is a message on its way.
type letter struct {
	at       float64
	from, to int // -1: the dealer
	m        deal.Message
}

// A table is a batch in virtual time. The dealer is a part of player 0, which handles messages between passes.
type table struct {
	t       *testing.T
	seed    uint64
	deal    deal.Table
	delay   float64
	dealer  *deal.Dealer
	players []*deal.Player
	engines []*clocked
	letters []letter // in the order in which they were sent
	groups  map[int][]engine.Result
	busy    float64 // sum of the players' passes
	moved   int     // answers
	sent    int     // messages
	still   bool    // nothing moves
}

// owner returns the player that handles what is sent to `to`.
func owner(to int) int { return max(to, 0) }

func (b *table) post(from, to int, m deal.Message) {
	b.sent++
	if b.still && m.Kind == deal.Order {
		b.t.Fatal("an order")
	}
	if m.Kind == deal.Give && to >= 0 {
		b.moved += len(m.Answers)
	}
	at := b.engines[owner(from)].clock
	if owner(from) != owner(to) {
		at += b.delay
	}
	b.letters = append(b.letters, letter{at, from, to, m})
}

// take removes the first letter to a player that has arrived.
func (b *table) take(player int, now float64) (letter, bool) {
	for i, l := range b.letters {
		if owner(l.to) == player && l.at <= now {
			b.letters = append(b.letters[:i], b.letters[i+1:]...)
			return l, true
		}
	}
	return letter{}, false
}

// ready returns when a player can do something next.
func (b *table) ready(player int) float64 {
	now := b.engines[player].clock
	if !b.players[player].Idle() {
		return now
	}
	first := math.Inf(1)
	for _, l := range b.letters {
		if owner(l.to) == player {
			first = min(first, l.at)
		}
	}
	return max(now, first)
}

// play plays the batch and returns when the last answer had ended.
func (b *table) play() float64 {
	b.t.Helper()
	check := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.groups, b.engines = map[int][]engine.Result{}, b.engines[:0]
	last := 0.0
	for p := range b.deal.Players {
		e := &clocked{seed: b.seed, cost: b.deal.Cost, room: b.deal.Running}
		b.engines = append(b.engines, e)
		b.players = append(b.players, deal.NewPlayer(b.deal, deal.Setup{Index: p, Engine: e,
			Request: func(group, sample int) engine.Request {
				return engine.Request{Prompt: make([]int32, prompt), Key: uint64(group), Sample: uint64(sample)}
			},
			Ended: func() error { last = max(last, e.clock); return nil },
			Complete: func(group int, results []engine.Result) error {
				if b.groups[group] != nil {
					b.t.Errorf("group %d is complete twice", group)
				}
				b.groups[group] = results
				return nil
			},
			Send: func(m deal.Message) { b.post(p, -1, m) }}))
	}
	b.dealer = deal.NewDealer(b.deal, func(to int, m deal.Message) { b.post(-1, to, m) })
	for turns := 0; !b.dealer.Over(); turns++ {
		next := 0
		for p := range b.players {
			if b.ready(p) < b.ready(next) {
				next = p
			}
		}
		if math.IsInf(b.ready(next), 1) || turns > 1e7 {
			b.t.Fatalf("after %d turns all wait: %d of %d groups are complete", turns, len(b.groups), b.deal.Prompts)
		}
		e, player := b.engines[next], b.players[next]
		e.clock = b.ready(next)
		for l, ok := b.take(next, e.clock); ok; l, ok = b.take(next, e.clock) {
			if l.to < 0 {
				check(b.dealer.Receive(l.from, l.m))
			} else if player.Over() {
				b.t.Fatalf("message %d comes to player %d, who has left", l.m.Kind, next)
			} else {
				check(player.Receive(l.m))
			}
		}
		if next == 0 {
			b.dealer.Settle()
		}
		if !player.Over() {
			before := e.clock
			check(player.Turn())
			b.busy += e.clock - before
		}
	}
	if n := len(b.letters); n > 0 {
		b.t.Errorf("%d messages are left: %+v", n, b.letters)
	}
	for g := range b.deal.Prompts {
		for i, r := range b.groups[g] {
			want := length(b.seed, g, i)
			if len(r.Tokens) != want || len(r.LogProbs) != want {
				b.t.Fatalf("answer %d to prompt %d has %d tokens, expected %d", i, g, len(r.Tokens), want)
			}
			for k := range r.Tokens {
				id, logProb := tokenAt(uint64(g), uint64(i), k)
				if r.Tokens[k] != id || r.LogProbs[k] != logProb {
					b.t.Fatalf("answer %d to prompt %d: token %d is %d, %v", i, g, k, r.Tokens[k], r.LogProbs[k])
				}
			}
		}
	}
	return last
}

// settings returns the batches of the acceptance: 8 prompts with 8 answers each on a rank, a pass costs as much as two
// tokens, and a token of a moved answer half as much as a new one. (BenchmarkSpeed of package engine: d=256.)
func settings(ranks int) deal.Table {
	return deal.Table{Prompts: 8 * ranks, Players: ranks, Size: 8, Running: 64, Tokens: most, Prompt: prompt,
		Mean: 13 * median / 8, Cost: deal.Cost{Pass: 2, Context: 0.5}}
}

// compare returns how much longer assigned batches take than dealt ones.
func compare(t *testing.T, ranks, batches int) float64 {
	assigned, dealt := 0.0, 0.0
	for seed := range uint64(batches) {
		still := settings(ranks)
		still.Cost.Context = math.Inf(1)
		assigned += (&table{t: t, seed: seed, deal: still, delay: 4}).play()
		dealt += (&table{t: t, seed: seed, deal: settings(ranks), delay: 4}).play()
	}
	return assigned / dealt
}

func TestFaster(t *testing.T) {
	for ranks, least := range map[int]float64{2: 1, 8: 1.05, 32: 1.1} {
		got := compare(t, ranks, 8)
		t.Logf("%d ranks: %.3f", ranks, got)
		if got < least {
			t.Errorf("%d ranks: %.3f times as fast as assigned, expected %.2f", ranks, got, least)
		}
	}
}
