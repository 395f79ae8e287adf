package spmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// Tags of the communicators for direct messages.
const (
	tagDirectSchema = iota
	tagDirectTensor
)

// SendTo sends the tensors of d to a member of the named group. One of the two groups must list the other
// in GroupSpec.Direct. SendTo returns when the buffers may be reused; for a large tensor it waits for the
// receiver. Messages from one member to another arrive in order. Only the worker's goroutine may call SendTo.
func (m *Member) SendTo(ctx context.Context, group string, member int, d tensor.Dict) error {
	c, peer, err := m.directTo(group, member)
	if err == nil {
		err = sendDict(ctx, c, peer, d)
	}
	if err != nil {
		return fmt.Errorf("%s[%d]: send to %s[%d]: %w", m.Group(), m.index, group, member, err)
	}
	return nil
}

// RecvFrom receives the tensors that a member of a group sent with SendTo, into the given buffers. The names, types
// and shapes of the buffers must match the sent tensors. Without buffers, RecvFrom allocates the tensors on the Go
// heap. The result has the tensors in the order in which they were sent.
func (m *Member) RecvFrom(ctx context.Context, group string, member int, buffers tensor.Dict) (tensor.Dict, error) {
	c, peer, err := m.directTo(group, member)
	if err == nil {
		wait := NewSpan(m.recorder, Site{Op: OpReceive, Name: "direct", Peer: group})
		wait.Begin()
		buffers, err = recvDict(ctx, c, peer, buffers)
		wait.End(int64(member), 0)
	}
	if err != nil {
		return tensor.Dict{}, fmt.Errorf("%s[%d]: receive from %s[%d]: %w", m.Group(), m.index, group, member, err)
	}
	return buffers, nil
}

// directTo returns the communicator that reaches a member of a group, and the member's number in it.
func (m *Member) directTo(group string, member int) (Comm, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.direct[group]
	switch {
	case !ok:
		return nil, 0, errors.New("expected a group of GroupSpec.Direct, on either side")
	case member < 0 || member >= a.size:
		return nil, 0, fmt.Errorf("expected a member of 0..%d", a.size-1)
	case a.first+member == a.comm.Rank():
		return nil, 0, errors.New("expected another member, not oneself")
	}
	return a.comm, a.first + member, nil
}

func sendDict(ctx context.Context, c Comm, to int, d tensor.Dict) error {
	fields := make([]tensor.Field, d.Len())
	reqs := make([]Request, d.Len()+1)
	for i := range fields {
		name, t := d.Entry(i)
		fields[i] = tensor.Field{Name: name, DType: t.DType(), Shape: t.Shape()}
	}
	schema, err := appendSchema(nil, tensor.NewLayout(fields...))
	if err != nil {
		return err
	}
	if len(schema) > schemaRoom {
		return fmt.Errorf("%d tensors take %d bytes to describe, expected at most %d", d.Len(), len(schema), schemaRoom)
	}
	if reqs[0], err = c.Isend(schema, to, tagDirectSchema); err != nil {
		return err
	}
	for i := range d.Len() {
		_, t := d.Entry(i)
		if reqs[i+1], err = c.Isend(t.Bytes(), to, tagDirectTensor); err != nil {
			return err
		}
	}
	return c.Wait(ctx, reqs)
}

func recvDict(ctx context.Context, c Comm, from int, buffers tensor.Dict) (tensor.Dict, error) {
	schema := make([]byte, schemaRoom)
	r, err := c.Irecv(schema, from, tagDirectSchema)
	if err != nil {
		return buffers, err
	}
	reqs := []Request{r}
	if err := c.Wait(ctx, reqs); err != nil {
		return buffers, err
	}
	layout, err := parseSchema(schema[:reqs[0].N])
	if err != nil {
		return buffers, err
	}
	if err := checkBuffers(buffers, layout); err != nil {
		return buffers, err
	}
	var d tensor.Dict
	reqs = reqs[:0]
	for _, f := range layout.Fields() {
		t, ok := buffers.Get(f.Name)
		if !ok {
			t = tensor.New(f.DType, f.Shape...)
		}
		d.Set(f.Name, t)
		if r, err = c.Irecv(t.Bytes(), from, tagDirectTensor); err != nil {
			return buffers, err
		}
		reqs = append(reqs, r)
	}
	return d, c.Wait(ctx, reqs)
}

// checkBuffers returns an error if there are buffers that do not have exactly the fields of layout.
func checkBuffers(buffers tensor.Dict, layout *tensor.Layout) error {
	if buffers.Len() == 0 {
		return nil
	}
	if buffers.Len() != len(layout.Fields()) {
		return fmt.Errorf("%d tensors came, expected the %d of %v", len(layout.Fields()), buffers.Len(), buffers)
	}
	for _, f := range layout.Fields() {
		t, ok := buffers.Get(f.Name)
		if !ok || t.DType() != f.DType || !slices.Equal(t.Shape(), f.Shape) {
			return fmt.Errorf("%q came as %v%v, expected one of %v", f.Name, f.DType, f.Shape, buffers)
		}
	}
	return nil
}
