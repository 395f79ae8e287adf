package deal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rlinf/rlinf/policy/lm/engine"
)

// A Generator generates the texts of a player. It is an engine.Engine, or represents the engines of a replica's
// members.
type Generator interface {
	Start(r *engine.Request, index int) (bool, error)
	Step(w *engine.Watch) error
	GiveUp(index int) (engine.Begun, bool)
	Running() int
}

// A Player answers prompts of one batch.
type Player struct {
	Common
	Setup
	waiting []Answer       // answers that will enter the engine, in this order
	running map[int]Answer // answers in the engine, by index, without their tokens
	begun   map[int]int    // number of tokens of each running answer
	groups  map[int]*group // groups that this player collects, by prompt
	tokens  int            // number of tokens of all unfinished answers
	got     int            // number of answers received from other players
	told    [3]int         // at the last message to the dealer: the values of Unfinished, tokens and got
	asked   bool           // the player has asked for a prompt, and has not received one yet
	none    bool           // the dealer has no prompt left
	over    bool           // the batch has ended
	watch   engine.Watch
}

// A Setup has a Player's number, its engine, and the functions that the player calls.
type Setup struct {
	Index  int
	Engine Generator
	// Request returns the request for an answer.
	Request func(group, sample int) engine.Request
	// Ended is called when an answer has ended on this player.
	Ended func() error
	// Complete is called with all answers of a group that this player has collected.
	Complete func(group int, results []engine.Result) error
	// Send sends a message to the dealer.
	Send func(Message)
}

// A group has the finished answers to a prompt.
type group struct {
	results []engine.Result
	missing int // number of answers that are not finished
}

// NewPlayer returns a player of a batch.
func NewPlayer(t Common, s Setup) *Player {
	p := &Player{Common: t, Setup: s, running: map[int]Answer{}, begun: map[int]int{}, groups: map[int]*group{}}
	p.watch = engine.Watch{Token: p.token, Done: p.done}
	lo, hi := t.startRange(s.Index)
	for g := lo; g < hi; g++ {
		p.take(g)
	}
	return p
}

// Over reports whether the batch has ended, and the player has left.
func (p *Player) Over() bool { return p.over }

// Idle reports whether the player has nothing to do until a message arrives.
func (p *Player) Idle() bool { return p.Unfinished() == 0 }

// Unfinished returns the number of the player's unfinished answers.
func (p *Player) Unfinished() int { return len(p.waiting) + len(p.running) }

// take begins the answers to a prompt. This player becomes their collector.
func (p *Player) take(prompt int) {
	p.groups[prompt] = &group{make([]engine.Result, p.Size), p.Size}
	for i := range p.Size {
		p.waiting = append(p.waiting, Answer{Group: prompt, Sample: i, Collector: p.Index})
	}
}

// Receive handles a message of the dealer.
func (p *Player) Receive(m Message) error {
	switch m.Kind {
	case Deal:
		p.asked = false
		p.take(m.Count)
	case None:
		p.none = true
	case Order:
		return p.give(m.Player, m.Count)
	case Give:
		p.waiting = append(p.waiting, m.Answers...)
		p.got += len(m.Answers)
		for i := range m.Answers {
			p.tokens += len(m.Answers[i].Tokens)
		}
	case Back:
		for _, a := range m.Answers {
			if err := p.collect(a); err != nil {
				return err
			}
		}
	case End:
		p.over = true
		p.send(Message{Kind: Bye})
	default:
		return fmt.Errorf("the dealer sent a message of kind %d", m.Kind)
	}
	return nil
}

// Turn starts answers for which the engine has room, makes a pass, and reports a changed load to the dealer.
func (p *Player) Turn() error {
	for len(p.waiting) > 0 {
		a := p.waiting[0]
		r := p.Request(a.Group, a.Sample)
		r.Begun = a.Begun
		index := p.number(a)
		ok, err := p.Engine.Start(&r, index)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		p.waiting = slices.Delete(p.waiting, 0, 1)
		p.begun[index], a.Begun = len(a.Tokens), engine.Begun{}
		p.running[index] = a
	}
	if !p.none && !p.asked && len(p.waiting) < p.Size {
		p.asked = true
		p.send(Message{Kind: Ask})
	}
	if err := p.Engine.Step(&p.watch); err != nil {
		return err
	}
	if p.none && p.changed() {
		p.send(Message{Kind: Report})
	}
	return nil
}

// changed reports whether the load has changed much since the last message to the dealer: an answer has ended or
// arrived, or the answers have become longer by an eighth.
func (p *Player) changed() bool {
	return p.Unfinished() != p.told[0] || p.got != p.told[2] || 8*p.tokens > 9*p.told[1]
}

func (p *Player) send(m Message) {
	p.told = [3]int{p.Unfinished(), p.tokens, p.got}
	m.Load.Got = p.got
	for _, a := range p.waiting {
		m.Load.Tokens = append(m.Load.Tokens, int32(len(a.Tokens)))
	}
	for _, n := range p.begun {
		m.Load.Tokens = append(m.Load.Tokens, int32(n))
	}
	slices.Sort(m.Load.Tokens)
	p.Send(m)
}

// number returns the index under which the engine generates an answer.
func (p *Player) number(a Answer) int { return a.Group*p.Size + a.Sample }

// token counts a new token of a running answer.
func (p *Player) token(index int, _ int32) {
	p.begun[index]++
	p.tokens++
}

// done collects an answer that has ended, or sends it to its collector.
func (p *Player) done(index int, r *engine.Result) error {
	a := p.remove(index)
	a.Result = *r
	if err := p.Ended(); err != nil {
		return err
	}
	if a.Collector == p.Index {
		return p.collect(a)
	}
	p.send(Message{Kind: Back, Player: a.Collector, Answers: []Answer{a}})
	return nil
}

// remove removes an answer from the running answers.
func (p *Player) remove(index int) Answer {
	a := p.running[index]
	p.tokens -= p.begun[index]
	delete(p.running, index)
	delete(p.begun, index)
	return a
}

// collect adds a finished answer to its group.
func (p *Player) collect(a Answer) error {
	g := p.groups[a.Group]
	if g == nil {
		return fmt.Errorf("an answer to prompt %d has arrived, but another player collects them", a.Group)
	}
	g.results[a.Sample] = a.Result
	if g.missing--; g.missing > 0 {
		return nil
	}
	delete(p.groups, a.Group)
	tokens := 0
	for _, r := range g.results {
		tokens += len(r.Tokens)
	}
	if err := p.Complete(a.Group, g.results); err != nil {
		return err
	}
	p.send(Message{Kind: Complete, Count: tokens})
	return nil
}

// give sends at most n unfinished answers to another player: first waiting answers, then running answers with the
// fewest tokens. The player keeps at least one answer.
func (p *Player) give(to, n int) error {
	var given []Answer
	room := MostCache
	add := func(a Answer) {
		if len(a.Cache) > room {
			a.Cache = nil
		}
		room -= len(a.Cache)
		given = append(given, a)
	}
	for k := min(n, p.Unfinished()-1); len(given) < k && len(p.waiting) > 0; {
		last := len(p.waiting) - 1
		a := p.waiting[last]
		p.waiting = slices.Delete(p.waiting, last, last+1)
		p.tokens -= len(a.Tokens)
		add(a)
	}
	if k := min(n, len(given)+p.Unfinished()-1) - len(given); k > 0 {
		for _, index := range p.cheapest(k) {
			begun, ok := p.Engine.GiveUp(index)
			if !ok {
				return fmt.Errorf("answer %d does not run", index)
			}
			a := p.remove(index)
			a.Begun = begun
			add(a)
		}
	}
	p.send(Message{Kind: Give, Player: to, Count: n, Answers: given})
	return nil
}

// cheapest returns the engine's indices of the k running answers with the fewest tokens.
func (p *Player) cheapest(k int) []int {
	all := slices.SortedFunc(maps.Keys(p.begun), func(a, b int) int { return cmp.Or(p.begun[a]-p.begun[b], a-b) })
	return all[:k]
}
