package collectives

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// A team is a set of a group's members that run an algorithm together: all members, the members of a node,
// or one member of each node. A team's members are numbered 0, 1, … in the order of their numbers in the
// group.
type team struct {
	g       *Group
	members []int // numbers of the members in the group
	me      int
}

func (t *team) size() int { return len(t.members) }

// send starts sending b to a member. If b is empty, send sends no message, because both sides know the length. An error
// of send is returned by the next wait.
func (t *team) send(b []byte, peer int) { t.g.post(true, b, t.members[peer]) }

// recv starts receiving b from a member. The message must have b's length. An error of recv is returned by the next
// wait.
func (t *team) recv(b []byte, peer int) { t.g.post(false, b, t.members[peer]) }

// wait returns when all started sends and receives are done.
func (t *team) wait(ctx context.Context) error { return t.g.wait(ctx) }

// exchange sends one buffer and receives another buffer.
func (t *team) exchange(ctx context.Context, out []byte, to int, in []byte, from int) error {
	t.recv(in, from)
	t.send(out, to)
	return t.wait(ctx)
}

// shard returns member m's shard of b, which is split evenly. An element has e bytes.
func (t *team) shard(b []byte, e, m int) []byte { return block(b, e, nil, t.size(), m) }

// block returns member m's block of b, which is split by c.Counts.
func (t *team) block(b []byte, c *spmd.Collective, m int) []byte {
	return block(b, c.DType.Size(), c.Counts, t.size(), m)
}

// post starts a send to or a receive from a member of the group, in pieces of at most Options.MaxMessage bytes.
func (g *Group) post(sending bool, b []byte, peer int) {
	for len(b) > 0 {
		piece := b[:min(len(b), g.opts.MaxMessage)]
		b = b[len(piece):]
		g.message(sending, piece, peer, g.tag)
	}
}

// message posts one send or receive of a message, which may be empty. After an error it posts no more.
func (g *Group) message(sending bool, b []byte, peer, tag int) {
	if g.unposted != nil {
		return
	}
	var r spmd.Request
	var err error
	want := -1
	if sending {
		g.traffic.Messages++
		g.traffic.Bytes += int64(len(b))
		if g.nodes[peer] != g.nodes[g.me] {
			g.traffic.BytesBetweenNodes += int64(len(b))
		}
		r, err = g.comm.Isend(b, peer, tag)
	} else {
		want = len(b)
		r, err = g.comm.Irecv(b, peer, tag)
	}
	if g.unposted = err; err == nil {
		g.reqs, g.want, g.peers = append(g.reqs, r), append(g.want, want), append(g.peers, peer)
	}
}

// wait returns when all posted messages are done. It returns the first error of g.message, or an error if a
// received message is shorter than expected.
func (g *Group) wait(ctx context.Context) error {
	if g.unposted != nil {
		return g.unposted
	}
	err := g.comm.Wait(ctx, g.reqs)
	for i := range g.reqs {
		if err == nil && g.want[i] >= 0 && g.reqs[i].N != g.want[i] {
			err = fmt.Errorf("member %d sent %d bytes where %d were expected: it passes another length or type",
				g.peers[i], g.reqs[i].N, g.want[i])
		}
	}
	g.reqs, g.want, g.peers = g.reqs[:0], g.want[:0], g.peers[:0]
	return err
}
