package device

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Memory is memory of a device that looks like slices. Ops find the device memory of a slice by its address.
//
// Only Ops may access slices from Alloc: the program has no access to these addresses, and faults. Share gives memory
// of the program device memory beside it: Upload and Download copy from one to the other.
type Memory struct {
	driver Driver
	blocks []block // sorted by their addresses in the program
	used   int     // bytes on the device
}

// A block is one allocation on the device, and the addresses in the program that stand for it.
type block struct {
	host     []byte
	device   uint64
	reserved bool // host are addresses without memory
}

func (b *block) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.host))) }

// Alloc returns zeroed memory for Ops alone. It is a tensor.Allocator.
func (m *Memory) Alloc(n int) ([]byte, error) {
	size := max(n, 1)
	const flags = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
	host, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, flags)
	if err != nil {
		return nil, fmt.Errorf("reserve %d addresses for device memory (ulimit -v): %w", size, err)
	}
	return host[:n:n], m.add(host, true)
}

// Share adds zeroed device memory to host, memory of the program, which stays in use as long as m.
func (m *Memory) Share(host []byte) error {
	if len(host) == 0 {
		return nil
	}
	err := m.add(host, false)
	if err == nil {
		m.driver.Pin(host)
	}
	return err
}

// add adds a block.
func (m *Memory) add(host []byte, reserved bool) error {
	address, err := m.driver.Alloc(len(host))
	if err == nil {
		err = m.driver.Clear(address, len(host))
	}
	if err != nil {
		return fmt.Errorf("device memory: %d bytes beside %d in use: %w", len(host), m.used, err)
	}
	b := block{host, address, reserved}
	at, _ := slices.BinarySearchFunc(m.blocks, b.start(), byStart)
	m.blocks = slices.Insert(m.blocks, at, b)
	m.used += len(host)
	return nil
}

// Close gives reserved addresses back. The memory on the device stays until its driver is closed.
func (m *Memory) Close() {
	for _, b := range m.blocks {
		if b.reserved {
			unix.Munmap(b.host)
		}
	}
	m.blocks = nil
}

func byStart(b block, at uintptr) int { return cmp.Compare(b.start(), at) }

// address returns the device address of x. It is 0 if x is empty. ok is false if x is not memory of the device.
func (m *Memory) address(x []byte) (address uint64, ok bool) {
	if len(x) == 0 {
		return 0, true
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
	at, exact := slices.BinarySearchFunc(m.blocks, start, byStart)
	if !exact {
		at--
	}
	if at < 0 {
		return 0, false
	}
	b := &m.blocks[at]
	offset := start - b.start()
	if offset+uintptr(len(x)) > uintptr(len(b.host)) {
		return 0, false
	}
	return b.device + uint64(offset), true
}
