// Package deal answers: which replica answers which prompt? Each replica of the rollout workers is a Player. A player
// begins with some prompts, and asks the Dealer for more before it has room for them. When no prompt is left, the
// dealer orders players with many unfinished answers to give some answers to players with few. A moved answer takes its
// tokens along, and usually its keys and values. Its further tokens are the same on any player, so no result depends on
// which player generates an answer.
//
// The player that takes a prompt collects the answers to this prompt, including answers that other players finish. The
// dealer counts complete groups, and ends the batch after the last group:
//
//	player → dealer   Ask, Report, Give (as ordered), Back (a finished answer for its collector), Complete, Bye
//	dealer → player   Deal (a prompt), None (no prompt is left), Order, Give and Back (passed on), End
//
// Messages between a player and the dealer arrive in the order in which they were sent. A player sends nothing after
// Bye, and the dealer sends nothing after End, so no message is under way when all players have left. The package knows
// no ranks and no clock: package worker carries the messages, and a test carries them in virtual time.
package deal

import "github.com/rlinf/rlinf/policy/lm/engine"

// A Kind says what a Message is for.
type Kind uint8

// The kinds of messages.
const (
	Ask      Kind = iota + 1 // the player wants a prompt
	Report                   // the player's Load has changed
	Give                     // Answers are for Player; Count answers were ordered
	Back                     // finished Answers are for Player, who collects them
	Complete                 // the player has all answers of a group, with Count tokens
	Bye                      // the player has left
	Deal                     // the player gets prompt number Count
	None                     // all prompts were dealt
	Order                    // give Count answers to Player
	End                      // all groups are complete
)

// A Message goes from a player to the dealer, or from the dealer to a player.
type Message struct {
	Kind    Kind
	Player  int // the other player, if a message is about one
	Count   int
	Load    Load // the sender's load; only in messages of players
	Answers []Answer
}

// MostCache is the largest number of float32 values in the caches of a message: 64 MiB. A player that gets an answer
// without its cache computes the cache anew.
const MostCache = 1 << 24

// An Answer is an answer that moves, begun or finished.
type Answer struct {
	Group, Sample int
	Collector     int // the player that has taken the prompt
	engine.Begun
}

// A Load says how many unfinished answers a player has, and how long they are.
type Load struct {
	Tokens []int32 // numbers of tokens of the unfinished answers so far, in ascending order
	Got    int     // number of answers that the player has got from others in this batch
}

// A Table has what all players know before a batch begins.
type Table struct {
	Prompts int
	Players int
	Size    int // the number of answers to each prompt
	Running int // the number of answers for which a player's engine has room
	Tokens  int // largest number of tokens of an answer
	Prompt  int // usual number of tokens of a prompt
	Mean    int // expected number of tokens of an answer
	Cached  int // number of tokens whose keys and values fit into a message
	Cost    Cost
}

// A Cost has durations. The unit is the time that one token of one text takes in an engine's pass.
type Cost struct {
	Pass    float64 // fixed cost of a pass
	Context float64 // cost of a token that another player computes anew: of a prompt, or of an answer without its cache
	Moved   float64 // cost of a token of an answer that moves with its cache
}

// first returns the range of prompts with which a player begins. They are the part of its even share for which it has
// room. The dealer deals the other prompts.
func (t *Table) first(player int) (lo, hi int) {
	lo, hi = player*t.Prompts/t.Players, (player+1)*t.Prompts/t.Players
	return lo, min(hi, lo+(t.Running+t.Size-1)/t.Size)
}
