// Package deal answers: which replica answers which prompt? Each replica of the rollout workers is a Player. A player
// begins with some prompts, and asks the Dealer for more before it has room for them. When no prompt is left, the
// dealer orders players with many unfinished answers to give some answers to players with few answers. An answer moves
// with its tokens, and usually with its keys and values. Its further tokens are the same on any player, so results do
// not depend on the distribution of answers.
//
// The player that takes a prompt is the collector of all answers to the prompt, including those that other players
// finish. The answers to a prompt are a group. The dealer counts complete groups, and ends the batch after the last
// group:
//
//	player → dealer   Ask, Report, Give (as ordered), Back (a finished answer for its collector), Complete, Bye
//	dealer → player   Deal (a prompt), None (no prompt is left), Order, Give and Back (passed on), End
//
// Messages between a player and the dealer arrive in the order in which they were sent. A player sends nothing after
// Bye, and the dealer sends nothing after End, so no message is under way when all players have left. The package uses
// no ranks and no clock. Package worker delivers the messages, and a test delivers them in virtual time.
package deal

import "github.com/rlinf/rlinf/policy/lm/engine"

// A MessageKind is the purpose of a Message.
type MessageKind uint8

// The kinds of messages.
const (
	Ask      MessageKind = iota + 1 // the player wants a prompt
	Report                          // the player's Backlog has changed
	Give                            // the Answers go to Player; Count is the number that was ordered
	Back                            // finished Answers go to their collector, Player
	Complete                        // the player has all answers of a group; Count is the number of tokens
	Bye                             // the player has left
	Deal                            // the player gets prompt number Count
	None                            // all prompts were dealt
	Order                           // the player must give Count answers to Player
	End                             // all groups are complete
)

// A Message goes from a player to the dealer, or from the dealer to a player.
type Message struct {
	Kind    MessageKind
	Player  int // the other player, in messages of the kinds Give, Back and Order
	Count   int
	Load    Backlog // the sender's load; only in messages of players
	Answers []Answer
}

// MostCache is the maximum number of float32 values in the caches of a message (64 MiB). A player that gets an answer
// without its cache recomputes the cache.
const MostCache = 1 << 24

// An Answer is a begun or finished answer that moves to another player.
type Answer struct {
	Group, Sample int
	Collector     int // the player that has taken the prompt
	engine.Begun
}

// A Backlog describes the unfinished answers of a player.
type Backlog struct {
	Tokens []int32 // the present number of tokens of each unfinished answer, in ascending order
	Got    int     // number of answers that the player has received from others in this batch
}

// A Common has the numbers that all players know before a batch begins.
type Common struct {
	Prompts int
	Players int
	Size    int // the number of answers to each prompt
	Running int // the number of answers for which a player's engine has room
	Tokens  int // maximum number of tokens of an answer
	Prompt  int // typical number of tokens of a prompt
	Mean    int // expected number of tokens of an answer
	Cached  int // number of tokens whose keys and values fit into a message
	Cost    Durations
}

// A Durations has durations. The unit is the time that one token of one text takes in an engine's pass.
type Durations struct {
	Pass    float64 // fixed cost of a pass
	Context float64 // cost of a token that another player recomputes: of a prompt, or of an answer without its cache
	Moved   float64 // cost of a token of an answer that moves with its cache
}

// startRange returns the range of prompts [lo, hi) with which a player begins. The range is an even share of all
// prompts, limited to those for which the player has room. The dealer deals the other prompts.
func (t *Common) startRange(player int) (lo, hi int) {
	lo, hi = player*t.Prompts/t.Players, (player+1)*t.Prompts/t.Players
	return lo, min(hi, lo+(t.Running+t.Size-1)/t.Size)
}
