package roles

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// weights are the parameters that the rollout workers of one process infer with: a copy of the actors', one version for all, taken
// when the runner says so and unchanged in between. The version is the number of iterations that went into them. A process that hosts an actor copies that one's; the others share a broadcast from
// actor 0, one endpoint each.
type weights struct {
	policy  policy.Policy
	actor   policy.Policy      // of an actor in this process; nil: none
	group   *collectives.Group // actor 0 and the processes that infer without an actor; nil: not one of them
	leader  int                // the rollout worker that does it for the process
	version int64
	kept    []byte // what stash keeps, and its version
	keptAs  int64
}

// send gives the parameters of actor 0 to those that wait in receive.
func (w *weights) send(ctx context.Context) error {
	if w == nil || w.group == nil || w.group.Size() == 1 {
		return nil
	}
	return w.broadcast(ctx, w.actor.Params())
}

// receive takes the actors' parameters, of that version; worker is the caller's number in its group.
func (w *weights) receive(ctx context.Context, worker int, version int64) error {
	switch {
	case worker != w.leader:
		return nil
	case w.actor != nil:
		w.version = version
		copyParams(w.policy.Params(), w.actor.Params())
		return nil
	}
	w.version = version
	return w.broadcast(ctx, w.policy.Params())
}

func (w *weights) broadcast(ctx context.Context, p *nn.Params[float32]) error {
	data := tensor.FromF32(p.Data, len(p.Data))
	if err := w.group.Broadcast(ctx, data.Bytes(), 0); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	for i := range p.Buffers.Len() {
		_, b := p.Buffers.Entry(i)
		if err := w.group.Broadcast(ctx, b.Bytes(), 0); err != nil {
			return fmt.Errorf("weights: %w", err)
		}
	}
	return nil
}

// copyParams copies parameters and buffers between two networks of one shape.
func copyParams(dst, src *nn.Params[float32]) {
	copy(dst.Data, src.Data)
	dst.Buffers.CopyFrom(src.Buffers)
}

// stash keeps the present version aside, and unstash puts it back.
func (w *weights) stash() {
	if w != nil && w.policy != nil {
		w.kept, w.keptAs = appendParams(w.kept[:0], w.policy.Params()), w.version
	}
}

func (w *weights) unstash() {
	if w != nil && w.policy != nil {
		readParams(w.policy.Params(), w.kept)
		w.version = w.keptAs
	}
}

func appendParams(b []byte, p *nn.Params[float32]) []byte {
	b = append(b, tensor.FromF32(p.Data, len(p.Data)).Bytes()...)
	for i := range p.Buffers.Len() {
		_, t := p.Buffers.Entry(i)
		b = append(b, t.Bytes()...)
	}
	return b
}

func readParams(p *nn.Params[float32], b []byte) {
	b = b[copy(tensor.FromF32(p.Data, len(p.Data)).Bytes(), b):]
	for i := range p.Buffers.Len() {
		_, t := p.Buffers.Entry(i)
		b = b[copy(t.Bytes(), b):]
	}
}
