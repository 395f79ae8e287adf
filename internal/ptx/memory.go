package ptx

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Memory is the global memory of a device: ranges of addresses. The zero Memory has none. Launches that run at the same
// time must not share a Memory.
type Memory struct {
	ranges []*mapped // sorted by address
	launch uint64    // number of the last launch
}

// A mapped range begins at an address. Words have 4 bytes.
type mapped struct {
	from uint64
	data []byte
	uses []use // of each word; made when the first kernel runs
}

// A use of a word names the last thread that wrote it, and the last that read it; several means more than one. Threads
// are stamped with the launch, or with the part of it between two barriers. 0 means none.
type use struct{ writer, reader uint64 }

// A stamp is the number of a launch or of a part of it, and a thread: its number in the grid or in the block, plus 1.
const (
	threadBits = 40
	several    = 1<<threadBits - 1
)

// write records a write by the stamped thread. It reports whether another thread has used the word since the stamp's
// part began.
func (u *use) write(stamp uint64) (alone bool) {
	part := stamp >> threadBits
	alone = (u.writer>>threadBits != part || u.writer == stamp) && (u.reader>>threadBits != part || u.reader == stamp)
	u.writer = stamp
	return alone
}

// read records a read by the stamped thread. It reports whether no other thread has written the word since the stamp's
// part began.
func (u *use) read(stamp uint64) (alone bool) {
	part := stamp >> threadBits
	switch {
	case u.reader>>threadBits != part:
		u.reader = stamp
	case u.reader != stamp:
		u.reader = part<<threadBits | several
	}
	return u.writer>>threadBits != part || u.writer == stamp
}

// Map makes data the memory from the given address on, which is a multiple of 16. The range must overlap no other.
func (m *Memory) Map(address uint64, data []byte) error {
	at, taken := m.find(address)
	if taken || at < len(m.ranges) && address+uint64(len(data)) > m.ranges[at].from {
		return fmt.Errorf("ptx: %d bytes at %#x overlap other memory", len(data), address)
	}
	m.ranges = slices.Insert(m.ranges, at, &mapped{from: address, data: data})
	return nil
}

// Unmap removes the range that begins at the given address. It reports whether there is one.
func (m *Memory) Unmap(address uint64) bool {
	at, ok := slices.BinarySearchFunc(m.ranges, address, byAddress)
	if ok {
		m.ranges = slices.Delete(m.ranges, at, at+1)
	}
	return ok
}

func byAddress(r *mapped, address uint64) int { return cmp.Compare(r.from, address) }

// find returns the index of the range with the given address, or the index of the next range.
func (m *Memory) find(address uint64) (at int, ok bool) {
	at, ok = slices.BinarySearchFunc(m.ranges, address, byAddress)
	if !ok && at > 0 && m.ranges[at-1].holds(address, 1) {
		return at - 1, true
	}
	return at, ok
}

// holds reports whether all n bytes from the given address on are in r.
func (r *mapped) holds(address, n uint64) bool {
	return address >= r.from && address-r.from+n <= uint64(len(r.data))
}

// get and put access n bytes, 4 or 8, at an offset.
func get(data []byte, at uint64, n int) uint64 {
	if n == 8 {
		return binary.LittleEndian.Uint64(data[at:])
	}
	return uint64(binary.LittleEndian.Uint32(data[at:]))
}

func put(data []byte, at uint64, n int, v uint64) {
	if n == 8 {
		binary.LittleEndian.PutUint64(data[at:], v)
	} else {
		binary.LittleEndian.PutUint32(data[at:], uint32(v))
	}
}
