package state

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Pack is the state of a worker on its way to its successor, which lists the same parts with other memory. The Blocks
// of its parts map Memory to the bytes of a message.
type Pack []Part

// NewPack returns the state of a worker from its list. It does not copy the state.
func NewPack(list []Part) (Pack, error) {
	parts, err := made(list, true)
	parts = slices.DeleteFunc(parts, empty)
	for i := range parts {
		parts[i].Blocks = packed(parts[i].Blocks)
	}
	return parts, err
}

// empty reports whether the worker holds nothing of the tensor.
func empty(p Part) bool { return len(p.Blocks) == 0 }

// packed returns blocks with their positions in a message in place of those in the whole tensor. It joins blocks that
// are one run in memory.
func packed(blocks []nn.Block) (runs []nn.Block) {
	at := 0
	for _, b := range blocks {
		n := b.Len * b.Count
		if i := len(runs) - 1; i >= 0 && runs[i].Here+runs[i].Len == b.Here {
			runs[i] = run(runs[i].At, runs[i].Here, runs[i].Len+n)
		} else {
			runs = append(runs, run(at, b.Here, n))
		}
		at += n
	}
	return runs
}

// run returns a block of n contiguous bytes.
func run(at, here, n int) nn.Block { return nn.Block{At: at, Here: here, Len: n, Stride: n, Count: 1} }

// Bytes returns the size of the state.
func (k Pack) Bytes() (n int) {
	for i := range k {
		n += k[i].size()
	}
	return n
}

// A head tells the receiver of a Pack about a part.
type head struct {
	File  string `json:",omitempty"`
	Field tensor.Field
	Bytes int
}

// part returns the Part that h describes. memory has its bytes, all of which are in the message.
func (h head) part(memory []byte) Part {
	return Part{File: h.File, Field: h.Field, Memory: memory, Blocks: []nn.Block{run(0, 0, len(memory))}}
}

// Send sends k to a rank of comm. That rank must call Receive. When Send has returned, the caller may change k.
func (k Pack) Send(ctx context.Context, comm spmd.Comm, to int) error {
	return k.send(ctx, comm, to, PieceBytes)
}

func (k Pack) send(ctx context.Context, comm spmd.Comm, to, piece int) error {
	heads := make([]head, len(k))
	for i := range k {
		heads[i] = head{k[i].File, k[i].Field, k[i].size()}
	}
	var text bytes.Buffer
	z := zlib.NewWriter(&text)
	if err := errors.Join(json.NewEncoder(z).Encode(heads), z.Close()); err != nil {
		return err
	}
	about := text.Bytes()
	if err := send(ctx, comm, binary.LittleEndian.AppendUint64(nil, uint64(len(about))), to, moveTag); err != nil {
		return err
	}
	if err := send(ctx, comm, about, to, moveTag); err != nil {
		return err
	}
	var buf []byte
	for i := range k {
		for lo := 0; lo < heads[i].Bytes; lo += piece {
			if err := send(ctx, comm, k[i].pack(&buf, lo, min(lo+piece, heads[i].Bytes)), to, moveTag); err != nil {
				return err
			}
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
	text, err := zlib.NewReader(bytes.NewReader(about))
	if err != nil {
		return nil, err
	}
	var heads []head
	if err := json.NewDecoder(text).Decode(&heads); err != nil {
		return nil, err
	}
	for _, h := range heads {
		memory := make([]byte, h.Bytes)
		for lo := 0; lo < h.Bytes; lo += piece {
			if err := next(memory[lo:min(lo+piece, h.Bytes)]); err != nil {
				return nil, err
			}
		}
		k = append(k, h.part(memory))
	}
	return k, nil
}

// Clone returns a copy of k.
func (k Pack) Clone() Pack {
	c := make(Pack, len(k))
	for i := range k {
		memory := k[i].copyTo(new([]byte), 0, k[i].size())
		c[i] = head{File: k[i].File, Field: k[i].Field}.part(memory)
	}
	return c
}

// Take loads k into the worker with this list of parts. If several parts of list are of the same tensor, they get the
// parts of this tensor in k one after the other.
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
	var buf []byte
	left := slices.Clone(k)
	for _, p := range parts {
		i := slices.IndexFunc(left, func(q Part) bool { return q.File == p.File && q.Field.Name == p.Field.Name })
		if i < 0 || left[i].size() != p.size() {
			return fmt.Errorf("%s %v%v: no part of %d bytes came", p.Field.Name, p.Field.DType, p.Field.Shape, p.size())
		}
		from := left[i].pack(&buf, 0, p.size())
		for _, b := range packed(p.Blocks) {
			copy(p.Memory[b.Here:b.Here+b.Len], from[b.At:])
		}
		left = slices.Delete(left, i, i+1)
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
