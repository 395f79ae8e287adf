package deal_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
)

// median is the median length of answers, and most the largest length, in tokens.
const (
	median = 128
	most   = 16 * median
	prompt = 32
)

// length returns the length of an answer. Lengths are log-normal with σ 1, and at most most.
func length(seed uint64, group, sample int) int {
	s := philox.New(seed, philox.Token, uint64(group), uint64(sample))
	z, _ := s.Normal()
	return max(1, min(most, int(median*math.Exp(z))))
}

// A clocked is an engine in virtual time. A text's tokens follow from its number and their positions.
type clocked struct {
	seed  uint64
	cost  deal.Durations
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
		e.clock += e.cost.Context*float64(len(r.Prompt)) + e.cost.Moved*float64(n)
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

func (e *clocked) GiveUp(index int) (engine.Begun, bool) {
	for i, t := range e.texts {
		if t.index == index {
			e.texts = append(e.texts[:i], e.texts[i+1:]...)
			return engine.Begun{Result: t.result}, true
		}
	}
	return engine.Begun{}, false
}

func (e *clocked) Running() int { return len(e.texts) }

// A letter is a message under way.
type letter struct {
	at       float64
	from, to int // -1: the dealer
	m        deal.Message
}

// A table is a batch in virtual time. The dealer is a part of player 0, which handles messages between passes.
type table struct {
	t       testing.TB
	seed    uint64
	deal    deal.Common
	delay   float64
	dealer  *deal.Dealer
	players []*deal.Player
	engines []*clocked
	letters []letter // in the order in which they were sent
	groups  map[int][]engine.Result
	moved   int // answers
}

// owner returns the player that handles messages to `to`.
func owner(to int) int { return max(to, 0) }

func (b *table) post(from, to int, m deal.Message) {
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

// play plays the batch and returns the time at which the last answer ended.
func (b *table) play() float64 {
	b.t.Helper()
	last := 0.0
	b.seat(&last)
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
		b.turn(next)
	}
	if n := len(b.letters); n > 0 {
		b.t.Errorf("%d messages are left: %+v", n, b.letters)
	}
	b.checkAnswers()
	return last
}

// seat makes the players and the dealer. last is set to the time at which the last answer ended.
func (b *table) seat(last *float64) {
	b.groups, b.engines = map[int][]engine.Result{}, b.engines[:0]
	for p := range b.deal.Players {
		e := &clocked{seed: b.seed, cost: b.deal.Cost, room: b.deal.Running}
		b.engines = append(b.engines, e)
		b.players = append(b.players, deal.NewPlayer(b.deal, deal.Setup{Index: p, Engine: e,
			Request: func(group, sample int) engine.Request {
				return engine.Request{Prompt: make([]int32, prompt), Key: uint64(group), Sample: uint64(sample)}
			},
			Ended: func() error { *last = max(*last, e.clock); return nil },
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
}

// turn lets a player handle the messages that have arrived, and then make a pass.
func (b *table) turn(p int) {
	b.t.Helper()
	check := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	e, player := b.engines[p], b.players[p]
	e.clock = b.ready(p)
	for l, ok := b.take(p, e.clock); ok; l, ok = b.take(p, e.clock) {
		if l.to < 0 {
			check(b.dealer.Receive(l.from, l.m))
		} else if player.Over() {
			b.t.Fatalf("message %d comes to player %d, who has left", l.m.Kind, p)
		} else {
			check(player.Receive(l.m))
		}
	}
	if p == 0 {
		b.dealer.Settle()
	}
	if !player.Over() {
		check(player.Turn())
	}
}

// checkAnswers checks that every answer has the tokens and log-probs that it has on any player.
func (b *table) checkAnswers() {
	b.t.Helper()
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
}

// settings returns a batch with 8 prompts for each rank, and 8 answers to each prompt. A pass costs as much as two new
// tokens, and a token of a prompt half of a new token. moved is the cost of a token of a moved answer.
func settings(ranks int, moved float64) deal.Common {
	return deal.Common{Prompts: 8 * ranks, Players: ranks, Size: 8, Running: 64, Tokens: most, Prompt: prompt,
		Mean: 13 * median / 8, Cached: math.MaxInt, Cost: deal.Durations{Pass: 2, Context: 0.5, Moved: moved}}
}

// compare returns the times of batches in which answers stay with their first player, and of batches in which answers
// move.
func compare(t testing.TB, at deal.Common, batches int) (assigned, dealt float64) {
	for seed := range uint64(batches) {
		still := at
		still.Cost.Moved = math.Inf(1)
		assigned += (&table{t: t, seed: seed, deal: still, delay: 4}).play()
		dealt += (&table{t: t, seed: seed, deal: at, delay: 4}).play()
	}
	return assigned, dealt
}

// TestFaster: batches in which answers move are faster, although moves take time.
func TestFaster(t *testing.T) {
	for ranks, least := range map[int]float64{2: 1, 8: 1.08, 32: 1.15} {
		assigned, dealt := compare(t, settings(ranks, 0.05), 8)
		if assigned < least*dealt {
			t.Errorf("%d ranks: %.3f times as fast as assigned, expected %.2f", ranks, assigned/dealt, least)
		}
	}
}

// TestAnyTable: all answers are right and each group is complete once, with any numbers of players, prompts and
// answers, any room and any delay of messages.
func TestAnyTable(t *testing.T) {
	moved := 0
	for seed := range uint64(400) {
		s := philox.New(seed, philox.Token, 1, 1)
		players := 1 + s.IntN(9)
		at := deal.Common{Players: players, Prompts: players + s.IntN(30), Size: 1 + s.IntN(9), Running: 1 + s.IntN(40),
			Tokens: most, Prompt: s.IntN(100), Mean: 1 + s.IntN(300), Cached: s.IntN(3000),
			Cost: deal.Durations{Pass: float64(s.IntN(5)), Context: s.Float64() / 2,
				Moved: s.Float64() / 2}}
		b := &table{t: t, seed: seed, deal: at, delay: s.Uniform(0, 1) * float64(s.IntN(5000))}
		b.play()
		moved += b.moved
	}
	if moved < 1000 {
		t.Errorf("%d answers have moved", moved)
	}
}

// BenchmarkAnswers prints the speed of answers that move, as a multiple of the speed of assigned answers. A token of a
// moved answer costs 0.02 to 0.04 of a new token: see BenchmarkMoved of package worker. A token that is computed anew
// costs 0.5: see BenchmarkSpeed of package engine. Passes are counted, not timed.
func BenchmarkAnswers(b *testing.B) {
	for _, moved := range []float64{0.5, 0.1, 0.05, 0.02} {
		for _, ranks := range []int{2, 8, 32} {
			b.Run(fmt.Sprintf("moved=%v/ranks=%d", moved, ranks), func(b *testing.B) {
				for b.Loop() {
					assigned, dealt := compare(b, settings(ranks, moved), 640/ranks)
					b.ReportMetric(assigned/dealt, "times_as_fast")
				}
			})
		}
	}
}

// BenchmarkPool prints the speed of a pool of eight ranks, as a multiple of the speed of RLinf's placement. That has
// eight actors on ranks 0 and 1, rollout workers on 2 to 5 and inference workers on 6 and 7. A token costs 0.5 in
// inference and 1.5 in training. Inference workers of RLinf's placement begin with the first group. Those of the pool
// begin after the last group, so the figure is a lower bound.
func BenchmarkPool(b *testing.B) {
	const infer, train = 0.5, 1.5
	for b.Loop() {
		apart, pool := 0.0, 0.0
		for seed := range uint64(40) {
			four, eight := settings(8, 0.05), settings(8, 0.05)
			four.Players, four.Cost.Moved = 4, math.Inf(1)
			tokens := 0.0
			for g := range eight.Prompts {
				for i := range eight.Size {
					tokens += float64(prompt + length(seed, g, i))
				}
			}
			answered := (&table{t: b, seed: seed, deal: four, delay: 4}).play()
			apart += max(answered, tokens*infer/2) + tokens*train/2
			pool += (&table{t: b, seed: seed, deal: eight, delay: 4}).play() + tokens*(infer+train)/8
		}
		b.ReportMetric(apart/pool, "times_as_fast")
	}
}
