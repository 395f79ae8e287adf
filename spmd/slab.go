package spmd

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// An Item is a message of a Channel. It holds tensors, in one slab of memory, and metadata. The producer
// owns the item from Take to Put, and the consumer from Get to Release.
type Item struct {
	Dict    tensor.Dict // tensors with the layout passed to Take
	From    int         // number of the producer that sent the item
	Lo, Hi  int         // range of environments, by global index
	Version int64       // version of the weights that produced the item
	Weight  int         // weight for GetBatch

	number int64 // number of items that the Sender put before this item
	slab   *slab
}

// A slab is the memory of one item: a header, the tensors, and room for the schema. The schema is
// sent only if the receiver does not know it.
type slab struct {
	item   Item
	mem    []byte
	req    Request // receive or send of the slab, in progress
	phase  phase
	sender *Sender // the last Sender that took the slab
	src    *source // producer of the item
	queue  *queue  // queue whose pool owns the slab; nil in a Sender or a remote Receiver

	layout *tensor.Layout // layout of the item
	bound  []binding
}

// A binding caches the tensors of one layout in a slab's memory, so that the next item of this layout
// allocates nothing.
type binding struct {
	layout *tensor.Layout
	dict   tensor.Dict
}

type phase uint8

const (
	free  phase = iota
	taken       // a producer fills it
	busy        // queued or in transit
	held        // a consumer reads it
)

const (
	headerBytes = tensor.Align
	schemaRoom  = 4096
	maxBindings = 8 // number of layouts whose bindings a slab caches
)

// slabBytes returns the size of a slab for tensors of n bytes.
func slabBytes(n int) int { return headerBytes + (n+tensor.Align-1)&^(tensor.Align-1) + schemaRoom }

func newSlab(alloc tensor.Allocator, itemBytes int) (*slab, error) {
	mem, err := alloc(slabBytes(itemBytes))
	if err != nil {
		return nil, err
	}
	sl := &slab{mem: mem}
	sl.item.slab = sl
	return sl, nil
}

// A pool holds free slabs for the items of one key.
type pool []*slab

// get returns a free slab, or a new slab for c. In debug mode it returns an error if someone wrote to the free
// slab.
func (p *pool) get(c *Channel) (*slab, error) {
	n := len(*p)
	if n == 0 {
		return newSlab(c.w.Alloc, c.spec.ItemBytes)
	}
	sl := (*p)[n-1]
	*p = (*p)[:n-1]
	if c.w.job.opts.Debug && !sl.spoiled() {
		return nil, errors.New("an item was written after its release")
	}
	return sl, nil
}

func (p *pool) put(c *Channel, sl *slab) {
	if c.w.job.opts.Debug {
		sl.spoil()
	}
	sl.phase, sl.item.Dict = free, tensor.Dict{}
	*p = append(*p, sl)
}

// bind makes the item's Dict the tensors of layout l, in the memory of the slab.
func (sl *slab) bind(l *tensor.Layout) {
	sl.layout = l
	for i := range sl.bound {
		if sl.bound[i].layout == l {
			sl.item.Dict = sl.bound[i].dict
			return
		}
	}
	if len(sl.bound) == maxBindings {
		sl.bound = append(sl.bound[:0], sl.bound[1:]...)
	}
	sl.item.Dict = l.Bind(sl.mem[headerBytes:])
	sl.bound = append(sl.bound, binding{l, sl.item.Dict})
}

// A header precedes the tensors of an item on the wire. A message without an item is only a header.
type header struct {
	kind   uint32
	schema int // bytes of the schema after the tensors; 0 if the previous item had an equal schema
	data   int // bytes of the tensors
	count  int // items in the queue, in a reply of kind isState
}

const (
	isItem  uint32 = 1 + iota
	isEmpty        // TryGet found nothing
	isClosed
	isHeavy // the next item weighs more than the request allows
	isState
)

// writeHeader encodes h and the item's fields.
func (sl *slab) writeHeader(h header) {
	le, b := binary.LittleEndian, sl.mem
	le.PutUint32(b[0:], h.kind)
	le.PutUint32(b[4:], uint32(h.schema))
	le.PutUint64(b[8:], uint64(h.data))
	le.PutUint64(b[16:], uint64(sl.item.Lo))
	le.PutUint64(b[24:], uint64(sl.item.Hi))
	le.PutUint64(b[32:], uint64(sl.item.Version))
	le.PutUint64(b[40:], uint64(sl.item.Weight))
	le.PutUint32(b[48:], uint32(sl.item.From))
	le.PutUint32(b[52:], uint32(h.count))
	le.PutUint64(b[56:], uint64(sl.item.number))
}

// readHeader decodes the header of a message of n bytes.
func (sl *slab) readHeader(n int) (header, error) {
	le, b := binary.LittleEndian, sl.mem
	if n < headerBytes {
		return header{}, fmt.Errorf("a message of %d bytes", n)
	}
	sl.item.Lo = int(le.Uint64(b[16:]))
	sl.item.Hi = int(le.Uint64(b[24:]))
	sl.item.Version = int64(le.Uint64(b[32:]))
	sl.item.Weight = int(int64(le.Uint64(b[40:])))
	sl.item.From = int(le.Uint32(b[48:]))
	sl.item.number = int64(le.Uint64(b[56:]))
	h := header{kind: le.Uint32(b[0:]), schema: int(le.Uint32(b[4:])), data: int(le.Uint64(b[8:])),
		count: int(le.Uint32(b[52:]))}
	if h.data < 0 || h.data > len(b)-headerBytes || headerBytes+h.data+h.schema != n {
		return h, fmt.Errorf("a message of %d bytes says that it holds %d and %d", n, h.data, h.schema)
	}
	return h, nil
}

// pack returns an item as a message: the header, the tensors and, if withSchema is true, the schema.
func (sl *slab) pack(withSchema bool) ([]byte, error) {
	h := header{kind: isItem, data: sl.layout.Size()}
	end := headerBytes + h.data
	if withSchema {
		b, err := appendSchema(sl.mem[end:end:end+schemaRoom], sl.layout)
		if err != nil {
			return nil, err
		}
		if len(b) > schemaRoom {
			return nil, fmt.Errorf("a layout of %d tensors takes %d bytes to describe, expected at most %d",
				len(sl.layout.Fields()), len(b), schemaRoom)
		}
		h.schema = len(b)
	}
	sl.writeHeader(h)
	return sl.mem[:end+h.schema], nil
}

// A decoder decodes the messages of one sender and key into items. Equal schemas give the same
// *tensor.Layout, so that slab.bind finds the binding of that layout.
type decoder struct {
	known   *[]knownLayout
	current *tensor.Layout
}

type knownLayout struct {
	schema string
	layout *tensor.Layout
}

var errNoSchema = errors.New("the first item came without its schema")

// unpack decodes the message of n bytes in sl.
func (d *decoder) unpack(sl *slab, n int) (header, error) {
	h, err := sl.readHeader(n)
	if err != nil || h.kind != isItem {
		return h, err
	}
	if h.schema > 0 {
		if err := d.learn(sl.mem[headerBytes+h.data : n]); err != nil {
			return h, err
		}
	}
	if d.current == nil {
		return h, errNoSchema
	}
	if d.current.Size() != h.data {
		return h, fmt.Errorf("an item of %d bytes, its layout has %d", h.data, d.current.Size())
	}
	sl.bind(d.current)
	return h, nil
}

func (d *decoder) learn(schema []byte) error {
	for _, k := range *d.known {
		if k.schema == string(schema) {
			d.current = k.layout
			return nil
		}
	}
	l, err := parseSchema(schema)
	if err != nil {
		return err
	}
	*d.known = append(*d.known, knownLayout{string(schema), l})
	d.current = l
	return nil
}

// copyFrom copies the item of another slab into sl.
func (sl *slab) copyFrom(from *slab) {
	sl.bind(from.layout)
	end := headerBytes + from.layout.Size()
	copy(sl.mem[headerBytes:end], from.mem[headerBytes:end])
	dict := sl.item.Dict
	sl.item = from.item
	sl.item.Dict, sl.item.slab = dict, sl
}

// poison is the byte that fills released memory in debug mode. It makes a NaN in every float type.
const poison = 0xff

// spoil fills the slab's tensors with poison.
func (sl *slab) spoil() {
	mem := sl.mem[headerBytes : len(sl.mem)-schemaRoom]
	for i := range mem {
		mem[i] = poison
	}
}

// spoiled reports whether the tensors still hold only poison.
func (sl *slab) spoiled() bool {
	for _, b := range sl.mem[headerBytes : len(sl.mem)-schemaRoom] {
		if b != poison {
			return false
		}
	}
	return true
}
