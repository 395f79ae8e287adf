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

// A memory holds the arrays of a conversation. It is either shared with the child or private.
type memory struct {
	bytes  []byte
	path   string // path for the child to open; "" if the memory is not shared
	remove bool   // whether hide must remove the file at path
	mapped bool
}

// inherited is the descriptor of the shared memory in a child that this process started.
const inherited = 5

// privateMemory returns memory that is not shared.
func privateMemory(size int) *memory { return &memory{bytes: tensor.New(tensor.U8, size).Bytes()} }

// newAnonymous returns an unnamed file for a child to inherit. Call mapAnonymous once the size is
// known.
func newAnonymous() (*os.File, error) {
	fd, err := unix.MemfdCreate("rlinf-bridge", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "rlinf-bridge"), nil
}

// mapAnonymous sets the size of f, seals it, and maps f. Without the seal, a child could truncate
// the file and so kill this process with SIGBUS.
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

// newNamed creates shared memory that children on this machine can open by its path.
func newNamed(size int) (*memory, error) {
	var name [16]byte
	rand.Read(name[:])
	path := "/dev/shm/rlinf-" + hex.EncodeToString(name[:])
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var m *memory
	if err = f.Truncate(int64(size)); err == nil {
		m, err = mapFile(f, size, path)
	}
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	m.remove = true
	return m, nil
}

// mapFile maps the first size bytes of f. The file must not be shorter.
func mapFile(f *os.File, size int, path string) (*memory, error) {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() < int64(size) {
		return nil, errors.Join(err, fmt.Errorf("%s: expected a file of at least %d bytes", path, size))
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &memory{bytes: b, path: path, mapped: true}, nil
}

// hide removes the file at path. Call it after the child has opened the file.
func (m *memory) hide() {
	if m.remove {
		os.Remove(m.path)
		m.remove = false
	}
}

// free unmaps the memory. Nothing may use it afterwards.
func (m *memory) free() error {
	m.hide()
	if !m.mapped {
		return nil
	}
	m.mapped = false
	return os.NewSyscallError("munmap", unix.Munmap(m.bytes))
}
