package worker

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/verify"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// answers are a group: a prompt and all answers to it. The answers are packed, one after the other, and travel as
// tokens, not as text.
type answers struct {
	group    int   // number in the iteration
	sample   int   // number in the texts of training
	version  int64 // of the weights with which the answers were generated
	question plan.Question

	tokens  []int32   // of all answers
	lengths []int32   // number of tokens of each answer
	logProb []float32 // of each token when it was sampled; nil: equal to recomputed
	ended   []uint8   // 1 for each answer with a stop token, 0 for one that was cut off

	reward     []float32 // of each answer; nil: not graded yet
	outcome    []uint8   // verify.Outcome of each answer with a reward
	recomputed []float32 // log-probs of all tokens by the policy before the update; nil: not computed
	ref        []float32 // log-probs by the reference policy; nil: not computed
	value      []float32 // values of the critic before each token; nil: not computed
}

// newAnswers packs the results of the requests for prompt p, with their log-probs if logProbs is set.
func newAnswers(p prompt, version int64, results []engine.Result, logProbs bool) *answers {
	a := &answers{group: p.group, sample: p.sample, version: version, question: p.Question}
	for _, r := range results {
		a.tokens = append(a.tokens, r.Tokens...)
		if logProbs {
			a.logProb = append(a.logProb, r.LogProbs...)
		}
		a.lengths = append(a.lengths, int32(len(r.Tokens)))
		stopped := uint8(0)
		if r.Stopped {
			stopped = 1
		}
		a.ended = append(a.ended, stopped)
	}
	return a
}

// batch returns the answers as texts to train on.
func (a *answers) batch() (b algo.TextBatch) {
	at := int32(0)
	for i, n := range a.lengths {
		prompt := a.question.Prompt
		s := algo.Sequence{IDs: slices.Concat(prompt, a.tokens[at:at+n]), Learn: make([]bool, len(prompt)+int(n))}
		for t := len(prompt); t < len(s.Learn); t++ {
			s.Learn[t] = true
		}
		at += n
		b.Texts = append(b.Texts, s)
		b.Group, b.Ended = append(b.Group, a.question.Number), append(b.Ended, a.ended[i] == 1)
	}
	for _, o := range a.outcome {
		b.Right = append(b.Right, verify.Outcome(o) == verify.Right)
		b.Unparsable = append(b.Unparsable, verify.Outcome(o) == verify.Unparsable)
	}
	b.LogProb, b.Reward, b.Recomputed, b.Ref, b.Value = a.logProb, a.reward, a.recomputed, a.ref, a.value
	return b
}

// total returns the number of tokens of all answers, each with its prompt. Training computes all of them.
func (a *answers) total() int { return len(a.question.Prompt)*len(a.lengths) + len(a.tokens) }

// dict returns the tensors to send, without a copy.
func (a *answers) dict() (d tensor.Dict) {
	d.Set("question", tensor.FromI64([]int64{a.question.Number, int64(a.sample)}, 2))
	ints := func(name string, x []int32) { d.Set(name, tensor.FromI32(x, len(x))) }
	ints("prompt", a.question.Prompt)
	ints("tokens", a.tokens)
	ints("lengths", a.lengths)
	d.Set("ended", tensor.FromU8(a.ended, len(a.ended)))
	d.Set("outcome", tensor.FromU8(a.outcome, len(a.outcome)))
	floats := func(name string, x []float32) {
		if x != nil {
			d.Set(name, tensor.FromF32(x, len(x)))
		}
	}
	floats("log_prob", a.logProb)
	floats("reward", a.reward)
	floats("recomputed", a.recomputed)
	floats("ref", a.ref)
	floats("value", a.value)
	return d
}

// readAnswers is the inverse of dict. The right answer comes from the plan.
func readAnswers(d tensor.Dict, p *plan.Plan) *answers {
	floats := func(name string) []float32 {
		if x, ok := d.Get(name); ok {
			return x.F32()
		}
		return nil
	}
	number := d.Must("question").I64()
	return &answers{
		sample: int(number[1]), question: p.Question(int(number[1]), number[0]),
		tokens: d.Must("tokens").I32(), lengths: d.Must("lengths").I32(), ended: d.Must("ended").U8(),
		logProb: floats("log_prob"), reward: floats("reward"), outcome: d.Must("outcome").U8(),
		recomputed: floats("recomputed"), ref: floats("ref"), value: floats("value"),
	}
}

// packedLayout returns a layout with room for bytes bytes. Its size is a power of two, or most. So there are few
// layouts, and both ends of a channel soon know all of them.
func packedLayout(layouts map[int]*tensor.Layout, bytes, most int) *tensor.Layout {
	n := min(1<<bits.Len(uint(max(bytes, 1<<10)-1)), most)
	if layouts[n] == nil {
		layouts[n] = tensor.NewLayout(tensor.Field{Name: "packed", DType: tensor.U8, Shape: []int{n}})
	}
	return layouts[n]
}

// answersKey is the key of each worker's single queue, to which all workers of the previous stage send.
const answersKey = "answers"

// An answerSender sends groups from a worker to the workers of the next stage.
type answerSender struct {
	m       *spmd.Member
	to      map[int]*spmd.Sender
	layouts map[int]*tensor.Layout
	most    int // maximum size of an item in bytes
	buf     []byte
	waiting []outgoing // groups for which there was no room, in their order
}

// An outgoing is a group and the worker to which it is sent.
type outgoing struct {
	to int
	*answers
}

func newAnswerSender(m *spmd.Member, p *plan.Plan) *answerSender {
	return &answerSender{m: m, to: map[int]*spmd.Sender{}, layouts: map[int]*tensor.Layout{}, most: p.AnswerBytes()}
}

// send sends the group a through ch to worker number to of the next stage.
func (s *answerSender) send(ctx context.Context, ch *spmd.Channel, to int, a *answers) error {
	return s.put(ctx, ch, outgoing{to, a}, true)
}

// offer is like send, but it does not wait. If there is no room, the group a is kept for the next retry or flush.
func (s *answerSender) offer(ctx context.Context, ch *spmd.Channel, to int, a *answers) error {
	s.waiting = append(s.waiting, outgoing{to, a})
	return s.retry(ctx, ch)
}

// retry sends the waiting groups for which there is room.
func (s *answerSender) retry(ctx context.Context, ch *spmd.Channel) error {
	full := map[int]bool{} // workers without room; later groups for them must wait, too
	left := s.waiting[:0]
	for _, p := range s.waiting {
		err := spmd.ErrFull
		if !full[p.to] {
			err = s.put(ctx, ch, p, false)
		}
		if errors.Is(err, spmd.ErrFull) {
			full[p.to], left = true, append(left, p)
		} else if err != nil {
			return err
		}
	}
	clear(s.waiting[len(left):])
	s.waiting = left
	return nil
}

// flush sends all waiting groups.
func (s *answerSender) flush(ctx context.Context, ch *spmd.Channel) error {
	for _, p := range s.waiting {
		if err := s.send(ctx, ch, p.to, p.answers); err != nil {
			return err
		}
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
	return nil
}

// put sends p. If there is no room, it waits if wait is set; otherwise it returns spmd.ErrFull.
func (s *answerSender) put(ctx context.Context, ch *spmd.Channel, p outgoing, wait bool) (err error) {
	to := s.to[p.to]
	if to == nil {
		if to, err = ch.Sender(s.m, spmd.Key{To: p.to, Name: answersKey}); err != nil {
			return err
		}
		s.to[p.to] = to
	}
	s.buf = tensor.Encode(s.buf[:0], p.dict())
	layout := packedLayout(s.layouts, len(s.buf), s.most)
	var item *spmd.Item
	if wait {
		item, err = to.Take(ctx, layout)
	} else {
		item, err = to.TryTake(layout)
	}
	if err != nil {
		return err
	}
	copy(item.Dict.Must("packed").U8(), s.buf)
	item.Lo, item.Hi, item.Version = p.group, len(s.buf), p.version
	return to.Put(ctx, item)
}

// An answerReceiver receives groups from all workers of the previous stage.
type answerReceiver struct {
	m    *spmd.Member
	plan *plan.Plan
	from *spmd.Receiver // nil before the first group
}

// receive returns the next group from ch.
func (r *answerReceiver) receive(ctx context.Context, ch *spmd.Channel) (a *answers, err error) {
	if r.from == nil {
		if r.from, err = ch.Receiver(r.m, spmd.Key{To: r.m.Index(), Name: answersKey}); err != nil {
			return nil, err
		}
	}
	item, err := r.from.Get(ctx)
	if err != nil {
		return nil, err
	}
	defer r.from.Release(item)
	d, err := tensor.Decode(item.Dict.Must("packed").U8()[:item.Hi])
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", item.Lo, err)
	}
	a = readAnswers(d, r.plan)
	a.group, a.version = item.Lo, item.Version
	return a, nil
}
