package device

// A Driver runs kernels on one device, in the order of the calls. Its methods may be called by one goroutine at a time.
type Driver interface {
	// Alloc returns the device address of size bytes, a multiple of 256. The memory is not initialised.
	Alloc(size int) (address uint64, err error)
	// Upload, Download and Clear copy bytes to the device or from it, and set bytes to 0. Download waits for all
	// kernels before it.
	Upload(to uint64, from []byte) error
	Download(to []byte, from uint64) error
	Clear(address uint64, size int) error
	// Load compiles PTX and returns the functions with the given names.
	Load(ptx string, names []string) ([]Function, error)
	// Launch starts f on a grid of x by y blocks of Threads threads. An argument has the bits of its parameter.
	Launch(f Function, x, y int, args Args) error
}

// A Function is a kernel that a Driver has loaded.
type Function = uintptr

// Args are the arguments of a kernel. A kernel with fewer parameters ignores the rest.
type Args = [14]uint64

// Threads is the number of threads in a block.
const Threads = 256
