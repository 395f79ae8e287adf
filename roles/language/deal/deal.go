// Package deal answers: which replica answers which prompt? Each replica of the rollout workers is a Player. It begins
// with prompts of its own, and asks the Dealer for more before it has room for them. When no prompt is left, the dealer
// orders players with many unfinished answers to give some to players with few. A moved answer goes on from its
// beginning, with its keys and values and with the tokens that it would have had anywhere. So no result depends on who
// does what.
//
// The player that takes a prompt collects the answers to it, wherever they are finished. The dealer counts complete
// groups, and ends the batch after the last:
//
//	player → dealer   Ask, Report, Give (as ordered), Back (a finished answer for its collector), Complete, Bye
//	dealer → player   Deal (a prompt), None (no prompt is left), Order, Give and Back (passed on), End
//
// Messages between a player and the dealer arrive in the order in which they were sent. A player sends nothing after
// Bye, and the dealer nothing after End, so nothing is on its way when all players have left. The package knows no
// rank and no clock: package worker carries the messages, and a test carries them in virtual time.
package deal

import "github.com/rlinf/rlinf/policy/lm/engine"

// A Kind says what a Message is for.
type Kind uint8

// The kinds of messages.
const (
	Ask      Kind = iota + 1 // the player wants a prompt
	Report                   // the player's Load has changed
	Give                     // Answers for Player; Count were ordered
	Back                     // finished Answers for Player, who collects them
	Complete                 // the player has all answers of a group, with Count tokens
	Bye                      // the player has left
	Deal                     // prompt Count is the player's
	None                     // no prompt is left to be dealt
	Order                    // give Count answers to Player
	End                      // all groups are complete
)

// A Message goes from a player to the dealer, or from the dealer to a player.
type Message struct {
	Kind    Kind
	Player  int // another player
	Count   int
	Load    Load // of the player, in its messages
	Answers []Answer
}

// MostCache is how many numbers of caches a message has at most: 64 MiB. The player that gets an answer without its
// cache computes it anew.
const MostCache = 1 << 24

// An Answer is one that moves: begun or finished.
type Answer struct {
	Group, Sample int
	Collector     int // the player that has taken the prompt
	engine.Begun
}

// A Load is a player's unfinished answers.
type Load struct {
	Tokens []int32 // of each unfinished answer, so far; ascending
	Got    int     // answers that the player has got from others in this batch
}

// A Table has what all players know before a batch begins.
type Table struct {
	Prompts int
	Players int
	Size    int // the number of answers to each prompt
	Running int // the number of answers that a player's engine has room for
	Tokens  int // most tokens of an answer
	Prompt  int // usual number of tokens of a prompt
	Mean    int // expected number of tokens of an answer
	Cached  int // tokens whose keys and values go along in a message
	Cost    Cost
}

// Cost are durations in units of a token of one text in an engine's pass.
type Cost struct {
	Pass    float64 // what a pass costs whatever is in it
	Context float64 // a token that another player computes anew: of a prompt, or of an answer without its cache
	Moved   float64 // a token of an answer that moves with its cache
}

// first returns the range of prompts with which a player begins: of its even share as many as have room. The rest is
// dealt.
func (t *Table) first(player int) (lo, hi int) {
	lo, hi = player*t.Prompts/t.Players, (player+1)*t.Prompts/t.Players
	return lo, min(hi, lo+(t.Running+t.Size-1)/t.Size)
}
