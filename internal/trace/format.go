package trace

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A file is a list of chunks. A chunk has a magic word, the length and the checksum of its payload, and the payload. A
// payload begins with a header: the kind, the attempt, and the rank that wrote it. Numbers are varints.
const (
	magic       = "rlT1"
	frameBytes  = len(magic) + 8
	maxChunk    = 256 << 20
	chunkOfRank = 'R' // sums and windows of a rank
	chunkPhases = 'P' // the phases of an iteration on all ranks
	chunkSent   = 'S' // the messages that a rank has sent so far
)

func appendHeader(b []byte, kind byte, o *Options) []byte {
	b = append(b, magic...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	b = appendInt(b, o.Attempt)
	b = appendCount(appendCount(appendCount(b, o.Rank), o.Ranks), o.Node)
	return appendString(b, o.Host)
}

// finishChunk sets the length and the checksum.
func finishChunk(b []byte) []byte {
	payload := b[frameBytes:]
	binary.LittleEndian.PutUint32(b[len(magic):], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[len(magic)+4:], crc32.ChecksumIEEE(payload))
	return b
}

func appendInt(b []byte, x int64) []byte     { return binary.AppendVarint(b, x) }
func appendCount(b []byte, n int) []byte     { return binary.AppendUvarint(b, uint64(n)) }
func appendString(b []byte, s string) []byte { return append(appendCount(b, len(s)), s...) }

// appendWorker appends the worker, its sites, and its sums since the last chunk. It then drops the sums.
func (r *Recorder) appendWorker(b []byte) []byte {
	b = appendCount(appendString(b, r.component), r.member)
	b = appendCount(b, len(r.sites))
	for _, s := range r.sites {
		b = append(b, byte(s.Op))
		for _, text := range []string{s.Name, s.Key, s.Peer, string(s.Cause)} {
			b = appendString(b, text)
		}
	}
	b = appendCount(b, len(r.sums))
	for _, x := range r.sums {
		b = appendInt(b, x)
	}
	r.sums = r.sums[:0]
	return b
}

// appendTrack appends the worker's track of an iteration. A zero byte stands for no track.
func (r *Recorder) appendTrack(b []byte, iteration int64) []byte {
	s := r.slot(iteration)
	if s == nil {
		return append(b, 0)
	}
	s.written = true
	flags := byte(1)
	if s.cut {
		flags = 3
	}
	b = appendState(appendInt(appendInt(append(b, flags), s.start), s.end-s.start), s.stack, s.count)
	return append(appendCount(b, len(s.events)), s.events...)
}

// A decoder reads a payload. A read beyond the end of the payload returns zero, and marks the payload as bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) int() int64 {
	x, n := binary.Varint(d.b)
	return d.take(n, x)
}

func (d *decoder) uint() int64 {
	x, n := binary.Uvarint(d.b)
	if x > math.MaxInt64 {
		n = 0
	}
	return d.take(n, int64(x))
}

func (d *decoder) take(n int, x int64) int64 {
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return x
}

// count reads the length of a list. A length larger than the rest of the payload is bad, because each item takes at
// least a byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > int64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) float() float32 {
	if len(d.b) < 4 {
		d.bad, d.b = true, nil
		return 0
	}
	x := math.Float32frombits(binary.LittleEndian.Uint32(d.b))
	d.b = d.b[4:]
	return x
}
