package device

// A Driver runs kernels on one device, in the order of the calls. Its methods may be called by one goroutine at a time.
type Driver interface {
	// Alloc returns the device address of size bytes, a multiple of 256. The memory is not initialised.
	Alloc(size int) (address uint64, err error)
	// Pin makes copies of the program's memory faster, if it has whole pages of its own up to the end of its capacity.
	// It stays in use as long as the device.
	Pin(memory []byte)
	// Upload, Download and Clear copy bytes to the device or from it, and set bytes to 0. Download waits for all
	// kernels before it.
	Upload(to uint64, from []byte) error
	Download(to []byte, from uint64) error
	Clear(address uint64, size int) error
	// Send starts an Upload, and Fetch a copy from the device. Calls of Fetched wait for those of Fetch in turn. See
	// nn.Device.
	Send(to uint64, from []byte) error
	Fetch(to []byte, from uint64) error
	Fetched() error
	// Load compiles PTX and returns the functions with the given names.
	Load(ptx string, names []string) ([]Function, error)
	// Launch starts f on a grid of x by y blocks of Threads threads. An argument has the bits of its parameter.
	Launch(f Function, x, y int, args Args) error
}

// A Meter is a Driver without a device. It only adds up the memory that is asked for.
type Meter struct{ Bytes int64 }

// Alloc returns an address, and counts the bytes.
func (m *Meter) Alloc(size int) (uint64, error) {
	m.Bytes += int64(size)
	return 1, nil
}

// Pin, Upload, Download, Clear, Send, Fetch, Fetched and Launch do nothing.
func (m *Meter) Pin([]byte)                            {}
func (m *Meter) Upload(uint64, []byte) error           { return nil }
func (m *Meter) Download([]byte, uint64) error         { return nil }
func (m *Meter) Clear(uint64, int) error               { return nil }
func (m *Meter) Send(uint64, []byte) error             { return nil }
func (m *Meter) Fetch([]byte, uint64) error            { return nil }
func (m *Meter) Fetched() error                        { return nil }
func (m *Meter) Launch(Function, int, int, Args) error { return nil }

// Load returns functions that do nothing.
func (m *Meter) Load(_ string, names []string) ([]Function, error) {
	return make([]Function, len(names)), nil
}

// A Function is a kernel that a Driver has loaded.
type Function = uintptr

// Args are the arguments of a kernel. A kernel with fewer parameters ignores the rest.
type Args = [18]uint64

// Threads is the number of threads in a block.
const Threads = 256
