package state

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// PieceBytes is the maximum size of the pieces in which tensors are read, sent and written.
const PieceBytes = 16 << 20

// A Collection gives rank 0 access to the tensors that ranks hold in parts.
type Collection struct {
	comm   spmd.Comm
	ctx    context.Context
	files  map[string][]divided
	piece  int    // bytes of a piece
	buf    []byte // a piece
	packed []byte // the bytes of a piece that one rank has
}

// divided describes a tensor of the state, and the ranks that hold parts of it.
type divided struct {
	tensor.Field
	gaps, partial bool // see Part
	order         int
	holders       []holder
}

// size returns the number of bytes that ranks hold. Bytes on several ranks count once.
func (h *divided) size() (n int) {
	for _, of := range h.holders {
		for _, b := range of.needed {
			n += b.Len * b.Count
		}
	}
	return n
}

// A holder is a rank that holds a part of a tensor.
type holder struct {
	rank, part int // the rank, and the index of the part among the parts of this rank
	Part
	needed []nn.Block // the blocks of Part that no earlier holder has
}

// Collect calls write on rank 0, with access to the parts of all ranks. Meanwhile the other ranks send pieces of their
// parts, so the memory of parts must not change. Ranks with parts return after write has returned on rank 0, even if
// write has failed. Every member of g must call Collect. comm connects the members of g.
func Collect(ctx context.Context, g *collectives.Group, comm spmd.Comm, list []Part,
	write func(*Collection) error) error {
	return collect(ctx, g, comm, list, PieceBytes, write)
}

func collect(ctx context.Context, g *collectives.Group, comm spmd.Comm, list []Part, piece int,
	write func(*Collection) error) error {
	mine, err := made(list, false)
	if err != nil {
		return err
	}
	about, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := g.Gather(ctx, about, 0)
	if err != nil {
		return err
	}
	if comm.Rank() > 0 {
		if len(mine) == 0 {
			return nil
		}
		return serve(ctx, comm, mine)
	}
	c := &Collection{comm: comm, ctx: ctx, files: map[string][]divided{}, piece: piece}
	index := map[[2]string]int{}
	var senders []int
	err = c.add(index, 0, mine)
	for rank := 1; rank < len(all); rank++ {
		var parts []Part
		if e := json.Unmarshal(all[rank], &parts); e != nil {
			return e
		}
		if len(parts) > 0 {
			senders = append(senders, rank)
		}
		if err == nil {
			err = c.add(index, rank, parts)
		}
	}
	for file, tensors := range c.files {
		tensors = slices.DeleteFunc(tensors, func(t divided) bool { return t.partial && t.size() < t.Bytes() })
		c.files[file] = tensors
		slices.SortStableFunc(tensors, func(a, b divided) int { return a.order - b.order })
	}
	if err == nil {
		err = write(c)
	}
	for _, rank := range senders {
		if e := c.order(rank, order{part: noPart}); err == nil {
			err = e
		}
	}
	return err
}

// add adds the parts of a rank. index maps the file and the name of a tensor to its index in c.files[file].
func (c *Collection) add(index map[[2]string]int, rank int, parts []Part) error {
	for i, p := range parts {
		key := [2]string{p.File, p.Field.Name}
		at, known := index[key]
		if !known {
			at = len(c.files[p.File])
			index[key] = at
			c.files[p.File] = append(c.files[p.File], divided{Field: p.Field, gaps: p.Gaps, partial: p.Partial,
				order: p.Order})
		}
		h := &c.files[p.File][at]
		if h.DType != p.Field.DType || !slices.Equal(h.Shape, p.Field.Shape) {
			return fmt.Errorf("%s: %s is %v%v on rank %d, expected %v%v as on ranks before it", p.File, h.Name,
				p.Field.DType, p.Field.Shape, rank, h.DType, h.Shape)
		}
		needed := slices.DeleteFunc(slices.Clone(p.Blocks), func(b nn.Block) bool {
			return slices.ContainsFunc(h.holders, func(of holder) bool {
				return slices.ContainsFunc(of.Blocks, func(x nn.Block) bool {
					x.Here = b.Here
					return x == b
				})
			})
		})
		if len(needed) > 0 {
			h.holders = append(h.holders, holder{rank, i, p, needed})
		}
	}
	return nil
}

// Write writes the tensors of a file to w, in the format safetensors. The bytes do not depend on the division of the
// tensors among ranks. Elements that no rank holds (the gaps of flat tensors) are 0.
func (c *Collection) Write(w io.Writer, file string) error {
	tensors := c.files[file]
	fields := make([]tensor.Field, len(tensors))
	for i, t := range tensors {
		fields[i] = t.Field
	}
	order, err := tensor.WriteSafetensorsHeader(w, fields, nil)
	if err != nil {
		return err
	}
	for _, i := range order {
		size := fields[i].Bytes()
		if n := tensors[i].size(); n != size && !tensors[i].gaps {
			return fmt.Errorf("tensor %q: ranks hold %d bytes, expected %d", fields[i].Name, n, size)
		}
		for lo := 0; lo < size; lo += c.piece {
			b, err := c.read(&tensors[i], lo, min(lo+c.piece, size))
			if err == nil {
				_, err = w.Write(b)
			}
			if err != nil {
				return fmt.Errorf("tensor %q: %w", fields[i].Name, err)
			}
		}
	}
	return nil
}

// read returns the bytes [lo, hi) of a tensor. They are valid until the next call.
func (c *Collection) read(t *divided, lo, hi int) ([]byte, error) {
	whole := grown(&c.buf, hi-lo)
	clear(whole)
	for i := range t.holders {
		h := &t.holders[i]
		if n, _ := count(h.needed, lo, hi); n == 0 {
			continue
		}
		n, runs := count(h.Blocks, lo, hi)
		packed, err := c.fetch(h, lo, hi, n)
		if err != nil {
			return nil, fmt.Errorf("piece of rank %d: %w", h.rank, err)
		}
		if runs == 1 && n == hi-lo {
			return packed, nil
		}
		h.within(lo, hi, func(at, _, n int) {
			copy(whole[at-lo:], packed[:n])
			packed = packed[n:]
		})
	}
	return whole, nil
}

// fetch returns the n bytes that a holder has in [lo, hi) of a tensor, packed.
func (c *Collection) fetch(h *holder, lo, hi, n int) ([]byte, error) {
	if h.rank == 0 {
		return h.pack(&c.packed, lo, hi), nil
	}
	packed := grown(&c.packed, n)
	r, err := c.comm.Irecv(packed, h.rank, pieceTag)
	if err != nil {
		return nil, err
	}
	if err := c.order(h.rank, order{h.part, lo, hi}); err != nil {
		return nil, err
	}
	reqs := []spmd.Request{r}
	if err := c.comm.Wait(c.ctx, reqs); err != nil {
		return nil, err
	}
	if reqs[0].N != n {
		return nil, fmt.Errorf("%d bytes, expected %d", reqs[0].N, n)
	}
	return packed, nil
}

// An order asks a rank for the bytes that one of its parts has in [lo, hi) of the whole tensor.
type order struct{ part, lo, hi int }

// noPart is the part of the last order to a rank. The rank then sends no more pieces.
const noPart = -1

const (
	orderBytes         = 24
	orderTag, pieceTag = 1, 2
)

// order sends an order to a rank.
func (c *Collection) order(rank int, o order) error {
	b := make([]byte, 0, orderBytes)
	for _, n := range []int{o.part, o.lo, o.hi} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return send(c.ctx, c.comm, b, rank, orderTag)
}

// serve sends the pieces that rank 0 orders. It sends copies, so that rank 0 does not map the shared memory of the
// parts.
func serve(ctx context.Context, comm spmd.Comm, mine []Part) error {
	b := make([]byte, orderBytes)
	var buf []byte
	for {
		r, err := comm.Irecv(b, 0, orderTag)
		if err == nil {
			err = comm.Wait(ctx, []spmd.Request{r})
		}
		if err != nil {
			return err
		}
		number := func(i int) int { return int(int64(binary.LittleEndian.Uint64(b[8*i:]))) }
		if number(0) == noPart {
			return nil
		}
		p := &mine[number(0)]
		packed := p.copyTo(&buf, number(1), number(2))
		if err := send(ctx, comm, packed, 0, pieceTag); err != nil {
			return fmt.Errorf("send a piece of %s: %w", p.Field.Name, err)
		}
	}
}

func send(ctx context.Context, comm spmd.Comm, b []byte, to, tag int) error {
	r, err := comm.Isend(b, to, tag)
	if err != nil {
		return err
	}
	return comm.Wait(ctx, []spmd.Request{r})
}
