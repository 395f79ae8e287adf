// Package devicetest is a device without a card, for tests: it runs kernels by an interpreter of PTX.
package devicetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/ptx"
)

// An Interpreter is a device.Driver that runs kernels by package ptx. Copies of Send and Fetch happen as late as the
// program allows, so that missing waits give other bytes.
type Interpreter struct {
	memory   ptx.Memory
	blocks   map[uint64][]byte
	kernels  []*ptx.Kernel
	next     uint64
	sent     []func()       // the copies of Send that are under way
	fetches  []func() error // the copies of Fetch that are under way
	Launches int            // so far
	Beside   int            // launches so far while a copy of Fetch was under way
	Bytes    int64          // allocated so far
	Broken   *ptx.Module    // has kernels that replace those with the same names; nil if there are none
}

// Alloc returns the address of size bytes of zeros.
func (d *Interpreter) Alloc(size int) (uint64, error) {
	if d.blocks == nil {
		d.blocks, d.next = map[uint64][]byte{}, 1<<32
	}
	at, b := d.next, make([]byte, size)
	d.blocks[at] = b
	d.next += uint64(size+255)&^255 + 256
	d.Bytes += int64(size)
	return at, d.memory.Map(at, b)
}

// within returns the n bytes at an address.
func (d *Interpreter) within(at uint64, n int) ([]byte, error) {
	for from, b := range d.blocks {
		if at >= from && at-from+uint64(n) <= uint64(len(b)) {
			return b[at-from:][:n], nil
		}
	}
	return nil, fmt.Errorf("no %d bytes at %#x", n, at)
}

// Pin does nothing.
func (d *Interpreter) Pin([]byte) {}

// Upload copies bytes to the device.
func (d *Interpreter) Upload(to uint64, from []byte) error {
	err := d.Send(to, from)
	d.settle()
	return err
}

// Download copies bytes from the device.
func (d *Interpreter) Download(to []byte, from uint64) error {
	b, err := d.within(from, len(to))
	d.settle()
	copy(to, b)
	return err
}

// Clear sets bytes to 0.
func (d *Interpreter) Clear(at uint64, size int) error {
	b, err := d.within(at, size)
	d.settle()
	clear(b)
	return err
}

// Send starts an Upload.
func (d *Interpreter) Send(to uint64, from []byte) error {
	b, err := d.within(to, len(from))
	d.sent = append(d.sent, func() { copy(b, from) })
	return err
}

// settle makes the copies of Send.
func (d *Interpreter) settle() {
	for _, f := range d.sent {
		f()
	}
	d.sent = d.sent[:0]
}

// Fetch starts a copy of bytes from the device.
func (d *Interpreter) Fetch(to []byte, from uint64) error {
	b, err := d.within(from, len(to))
	final := slices.Clone(b)
	d.fetches = append(d.fetches, func() error {
		if copy(to, b); !bytes.Equal(b, final) {
			return errors.New("memory changed while it was copied")
		}
		return nil
	})
	return err
}

// Fetched waits for the first Fetch for which no Fetched has waited.
func (d *Interpreter) Fetched() error {
	d.settle()
	err := d.fetches[0]()
	d.fetches = d.fetches[1:]
	return err
}

// Load parses PTX and returns the kernels with the given names.
func (d *Interpreter) Load(text string, names []string) (functions []uintptr, err error) {
	m, err := ptx.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		k := m.Kernel(name)
		if d.Broken != nil && d.Broken.Kernel(name) != nil {
			k = d.Broken.Kernel(name)
		}
		if k == nil {
			return nil, fmt.Errorf("no kernel %s", name)
		}
		functions = append(functions, uintptr(len(d.kernels)))
		d.kernels = append(d.kernels, k)
	}
	return functions, nil
}

// Launch runs a kernel.
func (d *Interpreter) Launch(f uintptr, x, y int, args [18]uint64) error {
	const threads = 256
	d.settle()
	d.Launches++
	if len(d.fetches) > 0 {
		d.Beside++
	}
	k := d.kernels[f]
	return k.Launch(&d.memory, ptx.Grid{X: x, Y: y}, threads, args[:len(k.Params)])
}
