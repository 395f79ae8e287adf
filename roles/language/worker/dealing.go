package worker

import (
	"context"

	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
	"github.com/rlinf/rlinf/spmd"
)

// Dealing is the purpose of the communicator over which rollout workers deal prompts (cluster.auto_scheduler).
const Dealing = "dealing"

// deal generates answers of batch n of a step. Package deal distributes the prompts. The first member of a replica is a
// deal.Player, and the other members repeat its steps: see team. The first member of the first replica is also the
// dealer.
func (w *RolloutWorker) deal(ctx context.Context, step int64, n int, out *spmd.Channel) error {
	defer w.m.Span("generate").Begin().End(0, 0)
	prompts := w.prompts(step, n, 0, w.plan.Pipeline.Groups)
	request := func(group, sample int) engine.Request {
		p := &prompts[group]
		return engine.Request{Prompt: p.Prompt, Sampling: w.plan.Sampling, Key: uint64(p.Number) & 0xffffffff,
			Sample: uint64(sample)}
	}
	var members *team // nil if the replica has one member
	if lines := w.replica.lines; lines != nil {
		line := lines[len(lines)-1] // rollout workers have no pipeline stages
		members = &team{Engine: w.engine, ctx: ctx, line: line, group: w.group}
		if !w.replica.first {
			return members.follow(request)
		}
	}
	h := &hand{post: newPost(w.m, w.plan.Mesh(w.m.Group()).First)}
	table := w.plan.Table(prompts[0].Prompt, w.mean)
	h.idle = func() error {
		if h.dealer != nil {
			return w.out.retry(ctx, out) // without waiting, because players wait for the dealer
		}
		return w.out.flush(ctx, out)
	}
	setup := deal.Setup{Index: w.replica.index, Engine: w.engine, Request: request, Send: h.toDealer}
	setup.Complete = func(group int, results []engine.Result) error {
		a := newAnswers(prompts[group], w.version, results, w.logProbs)
		return w.out.offer(ctx, out, w.plan.Pipeline.Receiver(1, group), a)
	}
	ended := 0
	setup.Ended = func() error {
		ended++
		w.progress.Report("generation", ended, ended+h.player.Unfinished())
		return w.out.retry(ctx, out)
	}
	if members != nil {
		setup.Engine = members
	}
	h.player = deal.NewPlayer(table, setup)
	if w.replica.index == 0 {
		h.dealer = deal.NewDealer(table, h.toPlayer)
	}
	w.progress.Report("generation", 0, h.player.Unfinished())
	if err := h.play(ctx); err != nil {
		return err
	}
	if h.dealer != nil {
		w.mean = h.dealer.MeanTokens()
	}
	if members != nil {
		if err := members.end(); err != nil {
			return err
		}
	}
	return w.out.flush(ctx, out)
}

// A hand is a replica's state in a batch that is dealt: a player, and at the first replica also the dealer. Messages
// between the player and the dealer of the first replica go through memory.
type hand struct {
	post     *post
	idle     func() error // called before a wait for messages
	player   *deal.Player
	dealer   *deal.Dealer   // nil except at the first replica
	toMine   []deal.Message // messages from the dealer to this player
	fromMine []deal.Message // messages from this player to the dealer
}

// toDealer sends a message from the player to the dealer.
func (h *hand) toDealer(m deal.Message) {
	if h.dealer != nil {
		h.fromMine = append(h.fromMine, m)
		return
	}
	h.post.send(0, m)
}

// toPlayer sends a message from the dealer to a player.
func (h *hand) toPlayer(player int, m deal.Message) {
	if player == 0 {
		h.toMine = append(h.toMine, m)
		return
	}
	h.post.send(player, m)
}

// play handles messages and calls Turn of the player, until the batch is over.
func (h *hand) play(ctx context.Context) error {
	if err := h.post.expect(h.peers()); err != nil {
		return err
	}
	for !h.over() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := h.messages(ctx); err != nil {
			return err
		}
		if h.player.Over() {
			continue
		}
		if err := h.player.Turn(); err != nil {
			return err
		}
	}
	return h.post.flush(ctx)
}

// peers returns the replicas from which this replica gets messages. The dealer's replica gets messages from all other
// replicas. The other replicas get messages only from the dealer.
func (h *hand) peers() (from []int) {
	if h.dealer == nil {
		return []int{0}
	}
	for p := 1; p < h.dealer.Players; p++ {
		from = append(from, p)
	}
	return from
}

func (h *hand) over() bool {
	if h.dealer != nil {
		return h.dealer.Over()
	}
	return h.player.Over()
}

// messages handles all messages that have arrived. If there are none and the player is idle, it waits for a message.
func (h *hand) messages(ctx context.Context) error {
	handled, err := h.local()
	for err == nil && !h.over() {
		var m deal.Message
		var from int
		var ok bool
		wait := !handled && (h.player.Over() || h.player.Idle())
		if wait {
			if err := h.idle(); err != nil {
				return err
			}
		}
		if from, m, ok, err = h.post.receive(ctx, wait); err != nil || !ok {
			break
		}
		handled = true
		if h.dealer != nil {
			err = h.dealer.Receive(from, m)
		} else {
			err = h.player.Receive(m)
		}
	}
	if err == nil {
		_, err = h.local()
	}
	return err
}

// local handles the messages between the dealer and its own player, and calls Settle of the dealer. It reports whether
// there were messages.
func (h *hand) local() (handled bool, err error) {
	if h.dealer == nil {
		return false, nil
	}
	for {
		for _, m := range h.fromMine {
			if err := h.dealer.Receive(0, m); err != nil {
				return true, err
			}
		}
		handled = handled || len(h.fromMine) > 0
		clear(h.fromMine) // frees the caches of answers
		h.fromMine = h.fromMine[:0]
		h.dealer.Settle()
		if len(h.toMine) == 0 {
			return handled, nil
		}
		handled = true
		for _, m := range h.toMine {
			if err := h.player.Receive(m); err != nil {
				return true, err
			}
		}
		clear(h.toMine)
		h.toMine = h.toMine[:0]
	}
}
