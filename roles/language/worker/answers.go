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

// answers are a group: a prompt and all answers to it, as tokens. One slice has the tokens of all answers, one answer
// after the other.
type answers struct {
	group    int   // number in the iteration
	sample   int   // number in the texts of training
	version  int64 // version of the weights with which the answers were generated
	question plan.Question

	tokens  []int32   // the tokens of all answers
	lengths []int32   // number of tokens of each answer
	logProb []float32 // log-prob of each token when it was sampled; nil if recomputed log-probs replace them
	ended   []uint8   // 1 for an answer with a stop token, 0 for an answer that was cut off

	reward     []float32 // reward of each answer; nil if not graded yet
	outcome    []uint8   // verify.Outcome of each graded answer
	recomputed []float32 // log-probs of all tokens by the policy before the update; nil if not computed
	ref        []float32 // log-probs of all tokens by the reference policy; nil if not computed
	value      []float32 // value before each token, by the critic; nil if not computed
}

// newAnswers returns the engine's results for prompt p as a group. If logProbs is set, the group includes the log-probs
// of the results.
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

// total returns the number of tokens that training computes: all answers, each with its prompt.
func (a *answers) total() int { return len(a.question.Prompt)*len(a.lengths) + len(a.tokens) }

// optionalFields returns the fields that may be nil, with the names of their tensors.
func (a *answers) optionalFields() [5]optionalField {
	return [...]optionalField{{"log_prob", &a.logProb}, {"reward", &a.reward}, {"recomputed", &a.recomputed},
		{"ref", &a.ref}, {"value", &a.value}}
}

type optionalField struct {
	name  string
	field *[]float32
}

// dict returns the group as tensors to send, without a copy.
func (a *answers) dict() (d tensor.Dict) {
	d.Set("question", tensor.FromI64([]int64{a.question.Number, int64(a.sample)}, 2))
	ints := func(name string, x []int32) { d.Set(name, tensor.FromI32(x, len(x))) }
	ints("prompt", a.question.Prompt)
	ints("tokens", a.tokens)
	ints("lengths", a.lengths)
	d.Set("ended", tensor.FromU8(a.ended, len(a.ended)))
	d.Set("outcome", tensor.FromU8(a.outcome, len(a.outcome)))
	for _, o := range a.optionalFields() {
		if x := *o.field; x != nil {
			d.Set(o.name, tensor.FromF32(x, len(x)))
		}
	}
	return d
}

// readAnswers decodes a group from b. It takes the question with its right answer from the plan.
func readAnswers(b []byte, group int, p *plan.Plan) (*answers, error) {
	d, err := tensor.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", group, err)
	}
	number := d.Must("question").I64()
	a := &answers{group: group, sample: int(number[1]), question: p.Question(int(number[1]), number[0]),
		tokens: d.Must("tokens").I32(), lengths: d.Must("lengths").I32(), ended: d.Must("ended").U8(),
		outcome: d.Must("outcome").U8()}
	for _, o := range a.optionalFields() {
		if x, ok := d.Get(o.name); ok {
			*o.field = x.F32()
		}
	}
	return a, nil
}

// packedLayout returns a layout with room for a number of bytes. The size of the layout is a power of two, or limit if
// limit is smaller. So there are few layouts, and sender and receiver soon know all of them.
func packedLayout(layouts map[int]*tensor.Layout, bytes, limit int) *tensor.Layout {
	n := min(1<<bits.Len(uint(max(bytes, 1<<10)-1)), limit)
	if layouts[n] == nil {
		layouts[n] = tensor.NewLayout(tensor.Field{Name: "packed", DType: tensor.U8, Shape: []int{n}})
	}
	return layouts[n]
}

// answersKey is the key of a worker's single queue. All workers of the previous stage send to this queue.
const answersKey = "answers"

// An answerSender sends groups from a worker to the workers of the next stage.
type answerSender struct {
	m       *spmd.Member
	to      map[int]*spmd.Sender
	layouts map[int]*tensor.Layout
	most    int // maximum size of an item in bytes
	buf     []byte
	waiting []outgoing // groups for which there was no room, oldest first
}

// An outgoing is a group and the worker to which it is sent.
type outgoing struct {
	to int
	*answers
}

func newAnswerSender(m *spmd.Member, p *plan.Plan) *answerSender {
	return &answerSender{m: m, to: map[int]*spmd.Sender{}, layouts: map[int]*tensor.Layout{}, most: p.AnswerBytes()}
}

// send sends a group through ch to a worker of the next stage.
func (s *answerSender) send(ctx context.Context, ch *spmd.Channel, to int, a *answers) error {
	return s.put(ctx, ch, outgoing{to, a}, true)
}

// offer is like send, but does not wait. If there is no room, the group waits for the next call of retry or flush.
func (s *answerSender) offer(ctx context.Context, ch *spmd.Channel, to int, a *answers) error {
	s.waiting = append(s.waiting, outgoing{to, a})
	return s.retry(ctx, ch)
}

// retry sends the waiting groups for which there is room. It does not wait.
func (s *answerSender) retry(ctx context.Context, ch *spmd.Channel) error {
	full := map[int]bool{} // workers without room, whose later groups must wait, too
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

// put sends p. If there is no room and wait is true, put waits for room. If wait is false, it returns spmd.ErrFull
// instead.
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
	if a, err = readAnswers(item.Dict.Must("packed").U8()[:item.Hi], item.Lo, r.plan); err == nil {
		a.version = item.Version
	}
	return a, err
}

// A stageQueue connects a worker with the pipeline of answers. It receives groups from the previous stage, and sends
// them to the next stage.
type stageQueue struct {
	m        *spmd.Member
	replica  *replica
	pipeline *plan.Pipeline
	stage    int
	in       answerReceiver
	out      *answerSender // not used in the last stage
}

func newStageQueue(m *spmd.Member, p *plan.Plan, r *replica) *stageQueue {
	return &stageQueue{m: m, replica: r, pipeline: &p.Pipeline, stage: p.Pipeline.Stage(m.Group()),
		in: answerReceiver{m: m, plan: p}, out: newAnswerSender(m, p)}
}

// Member returns the member of this worker.
func (q *stageQueue) Member() *spmd.Member { return q.m }

// forEach calls f with each of the replica's groups of an iteration, in the order of arrival. All members of the
// replica call forEach. The first member receives each group from source, calls check(group), and sends the group to
// the other members. After f, the first member sends the group to sink. check and sink may be nil.
func (q *stageQueue) forEach(ctx context.Context, source, sink *spmd.Channel, check, f func(*answers) error) error {
	lo, hi := q.pipeline.Range(q.stage, q.replica.index)
	for range hi - lo {
		var a *answers
		var err error
		if q.replica.first {
			a, err = q.receive(ctx, source, lo, hi, check)
		}
		if err == nil {
			a, err = q.replica.share(ctx, a)
		}
		if err != nil {
			return err
		}
		if err := f(a); err != nil {
			return fmt.Errorf("group %d: %w", a.group, err)
		}
		if sink == nil || !q.replica.first {
			continue
		}
		if err := q.out.send(ctx, sink, q.pipeline.Receiver(q.stage+1, a.group), a); err != nil {
			return err
		}
	}
	return nil
}

// receive returns the next group, whose number must be in [lo, hi). It first calls check(group), unless check is nil.
func (q *stageQueue) receive(ctx context.Context, in *spmd.Channel, lo, hi int, check func(*answers) error) (*answers,
	error) {
	a, err := q.in.receive(ctx, in)
	if err != nil {
		return nil, err
	}
	if a.group < lo || a.group >= hi {
		return nil, fmt.Errorf("group %d has arrived, expected %d to %d", a.group, lo, hi-1)
	}
	if check != nil {
		if err := check(a); err != nil {
			return nil, fmt.Errorf("group %d: %w", a.group, err)
		}
	}
	return a, nil
}
