package member

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Send sends the tensors of d to a rank of comm, without a copy. That rank must call Receive. When Send has returned,
// the caller may change d.
func Send(ctx context.Context, comm spmd.Comm, d tensor.Dict, to int) error {
	about, err := json.Marshal(job.Fields(d))
	if err != nil {
		return err
	}
	if err := send(ctx, comm, binary.LittleEndian.AppendUint64(nil, uint64(len(about))), to, transferTag); err != nil {
		return err
	}
	if err := send(ctx, comm, about, to, transferTag); err != nil {
		return err
	}
	return pieces(d, func(b []byte) error { return send(ctx, comm, b, to, transferTag) })
}

// Receive returns the tensors that a rank of comm sends with Send. It allocates their memory.
func Receive(ctx context.Context, comm spmd.Comm, from int) (d tensor.Dict, err error) {
	receive := func(b []byte) error {
		r, err := comm.Irecv(b, from, transferTag)
		if err != nil {
			return err
		}
		return comm.Wait(ctx, []spmd.Request{r})
	}
	size := make([]byte, 8)
	if err := receive(size); err != nil {
		return d, err
	}
	about := make([]byte, binary.LittleEndian.Uint64(size))
	if err := receive(about); err != nil {
		return d, err
	}
	var fields []tensor.Field
	if err := json.Unmarshal(about, &fields); err != nil {
		return d, err
	}
	for _, f := range fields {
		d.Set(f.Name, tensor.New(f.DType, f.Shape...))
	}
	return d, pieces(d, receive)
}

const transferTag = 3

// pieces calls f with the memory of the tensors of d, in pieces of at most PieceBytes.
func pieces(d tensor.Dict, f func([]byte) error) error {
	for i := range d.Len() {
		_, t := d.Entry(i)
		for b := t.Bytes(); len(b) > 0; {
			n := min(len(b), PieceBytes)
			if err := f(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}
