package external

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/rlinf/rlinf/tensor"
	"golang.org/x/sys/unix"
)

// A memory is where the arrays of a conversation are: shared with the child, or of this process
// alone.
type memory struct {
	bytes  []byte
	path   string // that the child opens; "": not shared
	remove bool   // path is in the file system
	mapped bool
}

// inherited is the descriptor under which a child that was started here finds its shared memory.
const inherited = 5

// privateMemory returns memory of this process alone.
func privateMemory(size int) *memory { return &memory{bytes: tensor.New(tensor.U8, size).Bytes()} }

// newAnonymous returns a file that has no name, for a child to inherit; map it with mapAnonymous
// once its size is known.
func newAnonymous() (*os.File, error) {
	fd, err := unix.MemfdCreate("rlinf-bridge", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "rlinf-bridge"), nil
}

// mapAnonymous maps size bytes of f, whose size is then fixed: who shortened it would end this
// process by a signal.
func mapAnonymous(f *os.File, size int) (*memory, error) {
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, os.NewSyscallError("seal", err)
	}
	return mapFile(f, size, fmt.Sprintf("/proc/self/fd/%d", inherited))
}

// newNamed makes shared memory that a child of another origin can open, if it is on this machine.
func newNamed(size int) (*memory, error) {
	var name [16]byte
	rand.Read(name[:])
	path := "/dev/shm/rlinf-" + hex.EncodeToString(name[:])
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		os.Remove(path)
		return nil, err
	}
	m, err := mapFile(f, size, path)
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	m.remove = true
	return m, nil
}

// mapFile maps size bytes of f, which has as many at least.
func mapFile(f *os.File, size int, path string) (*memory, error) {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() < int64(size) {
		return nil, errors.Join(err, fmt.Errorf("%s: want a file of at least %d bytes", path, size))
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &memory{bytes: b, path: path, mapped: true}, nil
}

// hide takes the name away: whoever was to open it has.
func (m *memory) hide() {
	if m.remove {
		os.Remove(m.path)
		m.remove = false
	}
}

// free gives the memory back; nothing may use it from then on.
func (m *memory) free() error {
	m.hide()
	if !m.mapped {
		return nil
	}
	m.mapped = false
	return os.NewSyscallError("munmap", unix.Munmap(m.bytes))
}
