package state

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Pack is the state of a worker on its way to its successor, which may have another memory for each part.
type Pack []Part

// NewPack returns the state of a worker from its list. It does not copy the state.
func NewPack(list []Part) (Pack, error) {
	parts, err := made(list, true)
	return slices.DeleteFunc(parts, empty), err
}

// empty reports whether the worker holds nothing of the tensor.
func empty(p Part) bool { return len(p.Blocks) == 0 }

// Bytes returns the size of the state.
func (k Pack) Bytes() (n int) {
	for i := range k {
		n += k[i].size()
	}
	return n
}

// Send sends k to a rank of comm. That rank must call Receive. When Send has returned, the caller may change k.
func (k Pack) Send(ctx context.Context, comm spmd.Comm, to int) error {
	return k.send(ctx, comm, to, PieceBytes)
}

func (k Pack) send(ctx context.Context, comm spmd.Comm, to, piece int) error {
	about, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := send(ctx, comm, binary.LittleEndian.AppendUint64(nil, uint64(len(about))), to, moveTag); err != nil {
		return err
	}
	if err := send(ctx, comm, about, to, moveTag); err != nil {
		return err
	}
	var buf []byte
	for i := range k {
		err := k[i].stream(&buf, piece, func(b []byte) error { return send(ctx, comm, b, to, moveTag) })
		if err != nil {
			return err
		}
	}
	return nil
}

const moveTag = 3

// Receive returns the Pack that a rank of comm sends. It allocates its memory.
func Receive(ctx context.Context, comm spmd.Comm, from int) (Pack, error) {
	return receive(ctx, comm, from, PieceBytes)
}

func receive(ctx context.Context, comm spmd.Comm, from, piece int) (k Pack, err error) {
	next := func(b []byte) error {
		r, err := comm.Irecv(b, from, moveTag)
		if err != nil {
			return err
		}
		return comm.Wait(ctx, []spmd.Request{r})
	}
	size := make([]byte, 8)
	if err := next(size); err != nil {
		return nil, err
	}
	about := make([]byte, binary.LittleEndian.Uint64(size))
	if err := next(about); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(about, &k); err != nil {
		return nil, err
	}
	for i := range k {
		k[i].own()
		if err := k[i].stream(nil, piece, next); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Clone returns a copy of k.
func (k Pack) Clone() Pack {
	c := slices.Clone(k)
	for i := range c {
		c[i].own()
		c[i].fill(&k[i])
	}
	return c
}

// Take loads k into the worker with this list.
func (k Pack) Take(list []Part) error {
	given := Given{Moves: nil}
	for _, p := range k {
		if _, ok := given.Find(p.File, p.Field.Name); !ok {
			given[p.File] = append(given[p.File], p.Field)
		}
	}
	parts, after := wanted(list, given)
	parts = slices.DeleteFunc(parts, empty)
	if err := given.fits(parts); err != nil {
		return err
	}
	for i := range parts {
		p, filled := &parts[i], 0
		for j := range k {
			if k[j].File == p.File && k[j].Field.Name == p.Field.Name {
				filled += p.fill(&k[j])
			}
		}
		if filled < p.size() {
			return fmt.Errorf("%s: %d of %d bytes came", p.Field.Name, filled, p.size())
		}
	}
	return finish(after)
}

// size returns the number of bytes of the part.
func (p *Part) size() (n int) {
	for _, b := range p.Blocks {
		n += b.Len * b.Count
	}
	return n
}

// own gives the part new memory of its size.
func (p *Part) own() {
	n := 0
	p.Blocks = slices.Clone(p.Blocks)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		b.Here = n
		n += b.Len * b.Count
	}
	p.Memory = tensor.New(tensor.U8, n).Bytes()
}

// fill copies the elements that q also has from q to p, and returns their bytes.
func (p *Part) fill(q *Part) (n int) {
	from := q.Blocks
	for _, to := range p.Blocks { // both are in ascending order
		for len(from) > 0 && end(from[0]) <= to.At {
			from = from[1:]
		}
		for _, b := range from {
			if b.At >= end(to) {
				break
			}
			nn.Overlap(b, to, func(x, y, bytes int) { n += copy(p.Memory[y:y+bytes], q.Memory[x:]) })
		}
	}
	return n
}

// end returns the position after the last element of b in the whole tensor.
func end(b nn.Block) int { return b.At + (b.Count-1)*b.Stride + b.Len }

// stream calls f with the bytes of the part, piece by piece. If a piece is not one run in Memory, f gets a copy in buf,
// which grows if it is too short.
func (p *Part) stream(buf *[]byte, piece int, f func([]byte) error) error {
	packed, size := Part{Memory: p.Memory}, 0
	for _, b := range p.Blocks {
		n := b.Len * b.Count
		if i := len(packed.Blocks) - 1; i >= 0 && packed.Blocks[i].Here+packed.Blocks[i].Len == b.Here {
			packed.Blocks[i].Len += n
			packed.Blocks[i].Stride += n
		} else {
			packed.Blocks = append(packed.Blocks, nn.Block{At: size, Here: b.Here, Len: n, Stride: n, Count: 1})
		}
		size += n
	}
	for lo := 0; lo < size; lo += piece {
		if err := f(packed.pack(buf, lo, min(lo+piece, size))); err != nil {
			return err
		}
	}
	return nil
}
