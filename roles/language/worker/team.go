package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
)

// A team is a deal.Generator for a replica of several members. The first member starts and gives up texts. Before each
// pass the other members repeat these calls, so all members have the same texts in a pass.
type team struct {
	*engine.Engine
	ctx   context.Context
	line  *collectives.Group
	group int     // the number of answers to each prompt
	words []int32 // encoded orders of the first member since the last pass
}

var _ deal.Generator = (*team)(nil)

// Orders of the first member. Each order is a word, and its argument follows.
const (
	startOrder  int32 = iota + 1 // argument: an answer, as written by appendAnswer
	giveUpOrder                  // argument: the index of an answer in the engine
)

// Start starts a text on the first member, and adds the order for the other members.
func (t *team) Start(r *engine.Request, index int) (bool, error) {
	ok, err := t.Engine.Start(r, index)
	if ok && err == nil {
		t.words = appendAnswer(append(t.words, startOrder), &deal.Answer{Group: index / t.group,
			Sample: index % t.group, Begun: r.Begun})
	}
	return ok, err
}

// GiveUp gives up a text on the first member, and adds the order for the other members.
func (t *team) GiveUp(index int) (engine.Begun, bool) {
	r, ok := t.Engine.GiveUp(index)
	if ok {
		t.words = append(t.words, giveUpOrder, int32(index))
	}
	return r, ok
}

// Step makes one pass of the engine on every member of the replica. Only the first member calls Step. The other members
// are in follow.
func (t *team) Step(w *engine.Watch) error {
	if len(t.words) == 0 && t.Running() == 0 {
		return nil
	}
	if err := t.sendOrders(1); err != nil {
		return err
	}
	return t.Engine.Step(w)
}

// end makes follow return on the other members.
func (t *team) end() error { return t.sendOrders(0) }

// sendOrders sends the orders since the last pass to the other members. passes is 1 if a pass follows, else 0.
func (t *team) sendOrders(passes int64) error {
	head := [2]int64{passes, int64(len(t.words))}
	err := t.line.Run(t.ctx, collectives.Broadcast(head[:], 0))
	if err == nil && len(t.words) > 0 {
		err = t.line.Run(t.ctx, collectives.Broadcast(t.words, 0))
	}
	t.words = t.words[:0]
	return err
}

// follow runs on all members except the first. It repeats the calls and passes of the first member, until the first
// member calls end.
func (t *team) follow(request func(group, sample int) engine.Request) error {
	for {
		var head [2]int64
		if err := t.line.Run(t.ctx, collectives.Broadcast(head[:], 0)); err != nil {
			return err
		}
		words := make([]int32, head[1])
		if len(words) > 0 {
			if err := t.line.Run(t.ctx, collectives.Broadcast(words, 0)); err != nil {
				return err
			}
		}
		if err := t.repeat(words, request); err != nil || head[0] == 0 {
			return err
		}
		if err := t.Engine.Step(&engine.Watch{}); err != nil {
			return err
		}
	}
}

// repeat executes the orders in words.
func (t *team) repeat(words []int32, request func(group, sample int) engine.Request) error {
	for len(words) > 0 {
		var a deal.Answer
		var err error
		switch words[0] {
		case startOrder:
			if a, words, err = readAnswer(words[1:]); err != nil {
				return err
			}
			r := request(a.Group, a.Sample)
			r.Begun = a.Begun
			ok, err := t.Engine.Start(&r, a.Group*t.group+a.Sample)
			if err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("answer %d to prompt %d has room on the first member only", a.Sample, a.Group)
			}
		case giveUpOrder:
			t.Engine.GiveUp(int(words[1]))
			words = words[2:]
		default:
			return fmt.Errorf("the first member sent an unknown order %d", words[0])
		}
	}
	return nil
}
