package deal

import (
	"fmt"
	"math"
	"slices"
)

// A Dealer deals the prompts of one batch, moves unfinished answers, and counts complete groups.
type Dealer struct {
	Common
	prompts []int // prompts that were not dealt yet
	missing int   // number of incomplete groups
	tokens  int   // number of tokens in all complete groups
	left    int   // number of players that have sent Bye
	ended   bool  // the dealer has sent End
	seats   []seat
	list    []int32
	send    func(to int, m Message)
}

// A seat is the dealer's knowledge of a player. Lengths are numbers of tokens.
type seat struct {
	load    Backlog // load in the player's last message
	sent    int     // number of given answers that the dealer has sent to the player
	flight  []int32 // lengths of answers that were sent, but are not in load.Got yet
	coming  []int32 // lengths of answers that other players were ordered to give to the player
	ordered int     // number of answers that the player was ordered to give, and has not given yet
}

// NewDealer returns the dealer of a batch. The dealer sends messages with send.
func NewDealer(t Common, send func(to int, m Message)) *Dealer {
	d := &Dealer{Common: t, missing: t.Prompts, seats: make([]seat, t.Players), send: send}
	for p := range t.Players {
		lo, hi := t.startRange(p)
		d.seats[p].load.Tokens = make([]int32, (hi-lo)*t.Size)
		for end := (p + 1) * t.Prompts / t.Players; hi < end; hi++ {
			d.prompts = append(d.prompts, hi)
		}
	}
	if len(d.prompts) == 0 {
		d.all(Message{Kind: None})
	}
	return d
}

// Over reports whether all players have left.
func (d *Dealer) Over() bool { return d.left == d.Players }

// MeanTokens returns the mean length of the answers. The batch must be over.
func (d *Dealer) MeanTokens() int { return d.tokens / (d.Prompts * d.Size) }

// Receive handles a message of a player.
func (d *Dealer) Receive(from int, m Message) error {
	s := &d.seats[from]
	s.load = m.Load
	s.flight = s.flight[len(s.flight)-(s.sent-m.Load.Got):]
	switch m.Kind {
	case Ask:
		if len(d.prompts) > 0 { // else the player will receive None
			d.deal(from)
		}
	case Report:
	case Give:
		s.ordered -= m.Count
		to := &d.seats[m.Player]
		to.coming = to.coming[m.Count:]
		for i := range m.Answers {
			to.flight = append(to.flight, int32(len(m.Answers[i].Tokens)))
		}
		if n := len(m.Answers); n > 0 {
			to.sent += n
			d.send(m.Player, m)
		}
	case Back:
		d.send(m.Player, m)
	case Complete:
		d.missing--
		d.tokens += m.Count
	case Bye:
		d.left++
		return nil
	default:
		return fmt.Errorf("player %d sent a message of kind %d", from, m.Kind)
	}
	return nil
}

// Settle is called after one or more calls of Receive. It orders players to give answers away, or ends the batch.
func (d *Dealer) Settle() {
	switch {
	case d.ended:
	case d.missing == 0: // no answer is unfinished, so a late order moves no answers
		d.ended = true
		d.all(Message{Kind: End})
	case len(d.prompts) == 0:
		d.level()
	}
}

// deal deals the next prompt to a player.
func (d *Dealer) deal(to int) {
	d.send(to, Message{Kind: Deal, Count: d.prompts[0]})
	s := &d.seats[to]
	s.load.Tokens = append(make([]int32, d.Size), s.load.Tokens...) // an estimate until the player's next message
	if d.prompts = d.prompts[1:]; len(d.prompts) == 0 {
		d.all(Message{Kind: None})
	}
}

func (d *Dealer) all(m Message) {
	for p := range d.Players {
		d.send(p, m)
	}
}

// lengths returns the lengths that the player's unfinished answers have when all messages to the player have arrived.
// It overwrites list.
func (s *seat) lengths(list []int32) []int32 {
	return append(append(list[:0], s.load.Tokens[min(s.ordered, len(s.load.Tokens)):]...), s.flight...)
}

// futureLengths returns the result of lengths, and the lengths of answers that other players were ordered to give to
// the player.
func (s *seat) futureLengths(list []int32) []int32 { return append(s.lengths(list), s.coming...) }

// level orders the player with the most work to give answers to the player with the least work. It repeats this until
// no move of answers gains enough.
func (d *Dealer) level() {
	for {
		from, to, most, least := 0, 0, 0.0, math.Inf(1)
		for p := range d.seats {
			d.list = d.seats[p].futureLengths(d.list)
			w := d.work(d.list)
			if w > most {
				from, most = p, w
			}
			if w < least {
				to, least = p, w
			}
		}
		given := d.share(&d.seats[from], &d.seats[to])
		if len(given) == 0 {
			return
		}
		d.seats[from].ordered += len(given)
		d.seats[to].coming = append(d.seats[to].coming, given...)
		d.send(from, Message{Kind: Order, Player: to, Count: len(given)})
	}
}

// remaining returns the expected number of tokens that an unfinished answer of this length still gets. Lengths vary
// much, so a long answer is expected to get more tokens than a new answer.
func (d *Dealer) remaining(length int32) float64 {
	return max(1, min(float64(d.Mean)+float64(length)/4, float64(d.Tokens)-float64(length)))
}

// work returns the expected time in which a player finishes answers with these lengths. The unit is that of Durations.
func (d *Dealer) work(lengths []int32) (sum float64) {
	longest := 0.0
	for _, n := range lengths {
		x := d.remaining(n)
		sum, longest = sum+x, max(longest, x)
	}
	return sum + d.Cost.Pass*longest
}

// share returns the lengths of the answers that one player should give to another player. They are the shortest answers
// of the giving player. Their number lets the later of the two players finish as early as possible. share returns nil
// if the gain is less than leastGain.
func (d *Dealer) share(from, to *seat) []int32 {
	has := from.lengths(nil)
	slices.Sort(has)
	a, b := slices.Concat(has, from.coming), to.futureLengths(nil)
	best, n, moved, cached := d.work(a)*(1-leastGain), 0, 0.0, d.Cached
	for k, tokens := range has[:max(0, len(has)-1)] {
		if b = append(b, tokens); tokens > 0 {
			each := d.Cost.Context
			if int(tokens) <= cached {
				each, cached = d.Cost.Moved, cached-int(tokens)
			}
			moved += d.Cost.Context*float64(d.Prompt) + each*float64(tokens)
		}
		if x := max(d.work(a[k+1:]), d.work(b)+moved); x < best {
			best, n = x, k+1
		}
	}
	return has[:n]
}

// leastGain is the minimum gain of a move of answers, as a share of the giving player's expected work. Smaller gains
// are below the error of the expectation.
const leastGain = 0.16
