package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/roles/language/deal"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A post sends and receives deal.Messages between the first members of replicas. Sending never waits, so members cannot
// deadlock. A message is sent as a head, followed by words if it has tokens or answers.
type post struct {
	comm   spmd.Comm
	member func(replica int) int
	wait   spmd.Span
	from   []int          // replicas from which messages may arrive
	heads  []head         // memory for the next head of each replica in from
	reqs   []spmd.Request // the receive of the next head of each replica in from
	turn   int            // index in from at which the search for a message begins
	sends  []*sending
	err    error // the first error of a send
}

// A head has the numbers of a message: Kind, Player, Count, Load.Got, the length of Load.Tokens, the number of answers,
// and the number of words.
type head [7]int64

// A sending is a message that is being sent.
type sending struct {
	head  head
	words []int32
	reqs  [2]spmd.Request
}

// Tags of messages.
const (
	tagHead = iota
	tagWords
)

func newPost(m *spmd.Member, member func(replica int) int) *post {
	return &post{comm: m.Comm(Dealing), member: member,
		wait: spmd.NewSpan(m.Recorder(), spmd.Site{Op: spmd.OpReceive, Name: Dealing, Peer: m.Group()})}
}

// send sends a message to a replica. If send fails, the next call of receive or flush returns the error.
func (p *post) send(to int, m deal.Message) {
	if p.err == nil {
		p.err = p.sent(p.member(to), m)
	}
}

func (p *post) sent(to int, m deal.Message) error {
	if err := p.reap(); err != nil {
		return err
	}
	words := append([]int32{}, m.Load.Tokens...)
	for i := range m.Answers {
		words = appendAnswer(words, &m.Answers[i])
	}
	s := &sending{words: words, head: head{int64(m.Kind), int64(m.Player), int64(m.Count), int64(m.Load.Got),
		int64(len(m.Load.Tokens)), int64(len(m.Answers)), int64(len(words))}}
	var err error
	if s.reqs[0], err = p.comm.Isend(bytesOf(s.head[:]), to, tagHead); err != nil {
		return err
	}
	if len(words) > 0 {
		s.reqs[1], err = p.comm.Isend(tensor.FromI32(words, len(words)).Bytes(), to, tagWords)
	}
	p.sends = append(p.sends, s)
	return err
}

func bytesOf(x []int64) []byte { return tensor.FromI64(x, len(x)).Bytes() }

// reap removes messages that were sent completely.
func (p *post) reap() error {
	left := p.sends[:0]
	for _, s := range p.sends {
		gone := true
		for i := range s.reqs {
			ok, err := p.comm.Test(&s.reqs[i])
			if err != nil {
				return err
			}
			gone = gone && ok
		}
		if !gone {
			left = append(left, s)
		}
	}
	clear(p.sends[len(left):])
	p.sends = left
	return nil
}

// flush waits until all messages have been sent.
func (p *post) flush(ctx context.Context) error {
	for _, s := range p.sends {
		if p.err == nil {
			p.err = p.comm.Wait(ctx, s.reqs[:])
		}
	}
	return p.err
}

// expect begins to receive messages from these replicas.
func (p *post) expect(from []int) error {
	p.from, p.heads, p.reqs = from, make([]head, len(from)), make([]spmd.Request, len(from))
	for i := range from {
		if err := p.next(i); err != nil {
			return err
		}
	}
	return nil
}

// next begins to receive the next message of p.from[i].
func (p *post) next(i int) (err error) {
	p.reqs[i], err = p.comm.Irecv(bytesOf(p.heads[i][:]), p.member(p.from[i]), tagHead)
	return err
}

// receive returns a message that has arrived, and its sender. If none has arrived and wait is true, receive waits for
// one. If wait is false, ok is false instead.
func (p *post) receive(ctx context.Context, wait bool) (from int, m deal.Message, ok bool, err error) {
	if p.err != nil {
		return 0, m, false, p.err
	}
	at, err := p.arrived()
	if err == nil && at < 0 && wait {
		span := p.wait.Begin()
		at, err = p.comm.WaitAny(ctx, p.reqs)
		span.End(int64(max(at, 0)), 0)
		if err == nil && at < 0 {
			err = errors.New("nobody is left to wait for")
		}
	}
	if err != nil || at < 0 {
		return 0, m, false, err
	}
	p.turn = at + 1
	from = p.from[at]
	if m, err = p.read(ctx, at); err != nil {
		return from, m, false, fmt.Errorf("message of replica %d: %w", from, err)
	}
	if m.Kind != deal.Bye && m.Kind != deal.End { // the last messages
		err = p.next(at)
	}
	return from, m, true, err
}

// arrived returns the index in p.from of a replica whose message has arrived. The index is -1 if no message has
// arrived.
func (p *post) arrived() (int, error) {
	for k := range p.reqs {
		i := (p.turn + k) % len(p.reqs)
		if p.reqs[i].Handle == 0 {
			continue
		}
		if ok, err := p.comm.Test(&p.reqs[i]); ok || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// read returns the message of p.from[i], whose head has arrived.
func (p *post) read(ctx context.Context, i int) (m deal.Message, err error) {
	h := &p.heads[i]
	m = deal.Message{Kind: deal.MessageKind(h[0]), Player: int(h[1]), Count: int(h[2]),
		Load: deal.Backlog{Got: int(h[3])}}
	if h[6] == 0 {
		return m, nil
	}
	if h[4] < 0 || h[6] < h[4] {
		return m, fmt.Errorf("%d tokens in %d words", h[4], h[6])
	}
	words := make([]int32, h[6])
	r, err := p.comm.Irecv(tensor.FromI32(words, len(words)).Bytes(), p.member(p.from[i]), tagWords)
	if err != nil {
		return m, err
	}
	reqs := [1]spmd.Request{r}
	if err := p.comm.Wait(ctx, reqs[:]); err != nil {
		return m, err
	}
	m.Load.Tokens, words = slices.Clone(words[:h[4]]), words[h[4]:]
	for range h[5] {
		var a deal.Answer
		if a, words, err = readAnswer(words); err != nil {
			return m, err
		}
		m.Answers = append(m.Answers, a)
	}
	return m, nil
}

// answerWords is the number of words before the tokens of an answer: group, sample, collector, number of tokens, length
// of the cache, stopped.
const answerWords = 6

// appendAnswer appends an answer as words.
func appendAnswer(words []int32, a *deal.Answer) []int32 {
	stopped := int32(0)
	if a.Stopped {
		stopped = 1
	}
	words = slices.Grow(words, answerWords+2*len(a.Tokens)+len(a.Cache))
	words = append(words, int32(a.Group), int32(a.Sample), int32(a.Collector), int32(len(a.Tokens)),
		int32(len(a.Cache)), stopped)
	words = append(words, a.Tokens...)
	for _, x := range [][]float32{a.LogProbs, a.Cache} {
		words = append(words, tensor.Of(tensor.FromF32(x, len(x)).Bytes(), tensor.I32, len(x)).I32()...)
	}
	return words
}

// readAnswer returns the answer at the beginning of words, and the rest of the words. The answer's cache shares the
// memory of words, because an engine soon copies the cache. The other data are copies.
func readAnswer(words []int32) (a deal.Answer, rest []int32, err error) {
	if len(words) < answerWords || words[3] < 0 || words[4] < 0 ||
		len(words)-answerWords < 2*int(words[3])+int(words[4]) {
		return a, nil, fmt.Errorf("an answer of %d words", len(words))
	}
	n, cached := int(words[3]), int(words[4])
	a = deal.Answer{Group: int(words[0]), Sample: int(words[1]), Collector: int(words[2])}
	a.Stopped = words[5] == 1
	words = words[answerWords:]
	a.Tokens, words = slices.Clone(words[:n]), words[n:]
	a.LogProbs, words = slices.Clone(floatsOf(words[:n])), words[n:]
	if cached > 0 {
		a.Cache = floatsOf(words[:cached:cached])
	}
	return a, words[cached:], nil
}

// floatsOf returns the bits of words as float32 numbers. The result shares the memory of words.
func floatsOf(words []int32) []float32 {
	return tensor.Of(tensor.FromI32(words, len(words)).Bytes(), tensor.F32, len(words)).F32()
}
