package collectives

import (
	"encoding/binary"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// A patcher compares the state with the last version in a slot, and encodes the changes as a patch for the
// receivers' slots. In a patch, a tensor with n changed elements is, little-endian,
//
//	n u32, w u8, 0 u24, index of the first changed element u64, n numbers of w bytes, n values
//
// A number is the index of a changed element or, with delta, its distance from the previous changed
// element. w is 1, 4 or 8: the smallest width for the largest number. The design follows RLinf's patch
// syncer, which stores a row and a column for each element.
type patcher struct {
	delta  bool
	images [][]byte // the image that was last sent for each slot
	known  [][]bool // known[slot][tensor] is true if the receivers' slots hold the image's values

	fields  []wireField
	cast    []byte // buffer for one tensor in the type in which it is sent
	indices []int  // indices of changed elements
	out     []byte // buffer for the patch, in communication memory
}

// newPatcher returns the sender's patcher. The receivers already know the values of held tensors in the current
// state.
func newPatcher(alloc tensor.Allocator, c *channel) (*patcher, error) {
	p := &patcher{delta: c.spec.Patch.Delta, fields: c.fields}
	held := c.spec.Patch.Held
	for range c.slots {
		image, err := alloc(c.size)
		if err != nil {
			return nil, err
		}
		known := make([]bool, len(c.fields))
		for i := range c.fields {
			if known[i] = held != nil && held[i]; known[i] {
				c.fields[i].toWire(image, c.spec.State)
			}
		}
		p.images, p.known = append(p.images, image), append(p.known, known)
	}
	most := 0
	for _, f := range c.fields {
		most = max(most, f.bytes)
	}
	p.cast = bytesOf(make([]uint64, most/8+1)) // uint64 for the alignment
	p.indices = make([]int, 0, most/2)         // compare keeps at most this number of indices
	var err error
	p.out, err = alloc(c.size + patchHead*len(c.fields))
	return p, err
}

// patchHead is the number of bytes before the numbers of a tensor in a patch.
const patchHead = 16

// diff updates the image of a slot to src, writes the kind of each tensor to kinds, and returns the patch.
func (p *patcher) diff(kinds []byte, slot int, src []byte) []byte {
	image, known := p.images[slot], p.known[slot]
	out := p.out[:0]
	for i := range p.fields {
		f := &p.fields[i]
		if f.local || known[i] && f.frozen {
			kinds[i] = notSent
			continue
		}
		old, now := image[f.at:f.at+f.bytes], src[f.off:f.off+f.size]
		if f.cast {
			now = p.cast[:f.bytes]
			tensor.ToBF16(view[uint16](now), view[float32](src[f.off:f.off+f.size]))
		}
		kinds[i] = sentWhole
		if known[i] {
			kinds[i], out = p.compare(f, out, old, now)
		}
		known[i] = true
		if kinds[i] != notSent {
			copy(old, now)
		}
	}
	return out
}

// compare appends the changes of a tensor to a patch. It returns the kind of the tensor, and the patch. If there are no
// changes, or if they would take at least as many bytes as the whole tensor, compare appends nothing.
func (p *patcher) compare(f *wireField, patch, old, now []byte) (kind byte, _ []byte) {
	e := f.dtype.Size()
	most := (f.bytes - patchHead) / (e + 1) // with more changes, a patch saves no bytes
	indices, enough := p.indices[:0], false
	switch e {
	case 1:
		indices, enough = differences(indices, old, now, most)
	case 2:
		indices, enough = differences(indices, view[uint16](old), view[uint16](now), most)
	case 4:
		indices, enough = differences(indices, view[uint32](old), view[uint32](now), most)
	case 8:
		indices, enough = differences(indices, view[uint64](old), view[uint64](now), most)
	}
	if enough {
		return sentWhole, patch
	}
	if len(indices) == 0 {
		return notSent, patch
	}
	w := width(indices[len(indices)-1])
	if p.delta {
		farthest := 0
		for i, k := range indices[1:] {
			farthest = max(farthest, k-indices[i])
		}
		w = width(farthest)
	}
	if patchHead+len(indices)*(w+e) >= f.bytes {
		return sentWhole, patch
	}
	patch = binary.LittleEndian.AppendUint32(patch, uint32(len(indices)))
	patch = binary.LittleEndian.AppendUint32(patch, uint32(w))
	patch = binary.LittleEndian.AppendUint64(patch, uint64(indices[0]))
	before := indices[0]
	for _, k := range indices {
		if p.delta {
			k, before = k-before, k
		}
		patch = appendNumber(patch, k, w)
	}
	for _, k := range indices {
		patch = append(patch, now[k*e:(k+1)*e]...)
	}
	return sentSparse, patch
}

// differences appends the indices at which the bits of a and b differ. If there would be more indices than the
// limit, it stops and returns true.
func differences[T uint8 | uint16 | uint32 | uint64](indices []int, a, b []T, limit int) ([]int, bool) {
	b = b[:len(a)]
	for i, x := range a {
		if x != b[i] {
			if len(indices) >= limit {
				return indices, true
			}
			indices = append(indices, i)
		}
	}
	return indices, false
}

// apply writes the changes of a patch to dst.
func (p *patcher) apply(fields []wireField, kinds, patch, dst []byte) error {
	for i := range fields {
		f := &fields[i]
		if kinds[i] != sentSparse {
			continue
		}
		rest, err := p.applyTo(f, patch, dst[f.off:f.off+f.size])
		if err != nil {
			return fmt.Errorf("patch of %q: %w", f.name, err)
		}
		patch = rest
	}
	if len(patch) > 0 {
		return fmt.Errorf("patch: %d bytes behind the last tensor", len(patch))
	}
	return nil
}

func (p *patcher) applyTo(f *wireField, patch, dst []byte) (rest []byte, err error) {
	if len(patch) < patchHead {
		return nil, fmt.Errorf("cut off after %d bytes", len(patch))
	}
	n, w, e := int(binary.LittleEndian.Uint32(patch)), int(binary.LittleEndian.Uint32(patch[4:])), f.dtype.Size()
	k := int(binary.LittleEndian.Uint64(patch[8:]))
	patch = patch[patchHead:]
	if w != 1 && w != 4 && w != 8 || n > len(patch)/(w+e) {
		return nil, fmt.Errorf("%d changed elements, their places in %d bytes each, in a patch of %d", n, w, len(patch))
	}
	numbers, values := patch[:n*w], patch[n*w:n*(w+e)]
	for i := range n {
		if x := number(numbers[i*w:], w); p.delta {
			k += x
		} else {
			k = x
		}
		if uint(k) >= uint(f.bytes/e) {
			return nil, fmt.Errorf("changed element %d is at %d of %d", i, k, f.bytes/e)
		}
		if f.cast {
			// BF16 is the upper half of F32
			view[uint32](dst)[k] = uint32(binary.LittleEndian.Uint16(values[i*e:])) << 16
		} else {
			copy(dst[k*e:(k+1)*e], values[i*e:])
		}
	}
	return patch[n*(w+e):], nil
}

// width returns the number of bytes that a patch uses for the number n >= 0.
func width(n int) int {
	switch {
	case n < 1<<8:
		return 1
	case n < 1<<32:
		return 4
	}
	return 8
}

func appendNumber(b []byte, n, width int) []byte {
	switch width {
	case 1:
		return append(b, byte(n))
	case 4:
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

func number(b []byte, width int) int {
	switch width {
	case 1:
		return int(b[0])
	case 4:
		return int(binary.LittleEndian.Uint32(b))
	}
	return int(binary.LittleEndian.Uint64(b))
}
