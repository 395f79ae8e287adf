//go:build cuda

package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/internal/test"
)

// TestMain runs the tests on the fake driver. As a child of a test, it prints the devices.
func TestMain(m *testing.M) {
	if os.Getenv("RLINF_CUDA_TEST") != "" {
		devices, why := Devices()
		fmt.Printf("%d devices, %q\n", len(devices), why)
		return
	}
	os.Setenv("RLINF_CUDA", "interpreter")
	os.Exit(m.Run())
}

// A process without a driver starts, and says why it has no device. The tests of a machine with a driver list devices.
func TestDriver(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{
		"":            `0 devices, "no GPU: no CUDA driver: libcuda.so.1: cannot open shared object file`,
		"interpreter": `1 devices, ""`,
		"other":       `0 devices, "no GPU: RLINF_CUDA=other: expected interpreter, or no value for the driver"`,
	} {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "RLINF_CUDA="+value, "RLINF_CUDA_TEST=1")
		out := string(test.Must(child.CombinedOutput())(t))
		if !strings.Contains(out, says) && !(value == "" && !strings.Contains(out, "no CUDA driver")) {
			t.Errorf("RLINF_CUDA=%q: %s, want %s", value, out, says)
		}
	}
}

// The header declares the functions that driver.c finds, and no others.
func TestFunctions(t *testing.T) {
	t.Parallel()
	words := func(file, prefix, end string) map[string]bool {
		found := map[string]bool{}
		for _, part := range strings.Split(string(test.Must(os.ReadFile(filepath.FromSlash(file)))(t)), prefix)[1:] {
			if name, _, ok := strings.Cut(part, end); ok && strings.HasPrefix(name, "cu") {
				found[name] = true
			}
		}
		return found
	}
	declared, known := words("cuda/cuda.h", "\nCUresult ", "("), words("driver.c", "X(", ")")
	known["cuInit"] = true
	for name := range declared {
		if !known[name] {
			t.Errorf("driver.c does not find %s", name)
		}
	}
	test.Equal(t, len(known), len(declared), "functions in driver.c")
	test.Equal(t, len(declared), 161, "functions in cuda.h")
}

// double is a kernel that doubles n float32 numbers. It begins at a wrong address if n is 0.
const double = `.version 7.0
.target sm_80
.address_size 64

.visible .entry double(
	.param .u64 double_param_0,
	.param .u32 double_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<3>;
	.reg .f32 	%f<3>;
	.reg .b64 	%rd<4>;

	ld.param.u64 	%rd1, [double_param_0];
	ld.param.u32 	%r1, [double_param_1];
	mov.u32 	%r2, %tid.x;
	setp.ge.s32 	%p1, %r2, %r1;
	@%p1 bra 	$L__BB0_2;
	mul.wide.u32 	%rd2, %r2, 4;
	add.s64 	%rd3, %rd1, %rd2;
	ld.global.f32 	%f1, [%rd3];
	add.rn.f32 	%f2, %f1, %f1;
	st.global.f32 	[%rd3], %f2;
$L__BB0_2:
	ret;
}
`

// pages returns n bytes, in pages of their own.
func pages(n int) []byte {
	page := os.Getpagesize()
	b := make([]byte, n+2*page)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	return b[skip:][: n : (n+page-1)&^(page-1)]
}

// numbers returns bytes as float32 numbers.
func numbers(b []byte) (x []float32) {
	for i := 0; i < len(b); i += 4 {
		x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
	}
	return x
}

// work doubles three numbers on a new context, fetches them, sends them back in another order, and doubles them again.
// The program has pinned their memory. early is what it has before the fetched numbers arrive.
func work() (c Driver, result []byte, early []float32, err error) {
	if c, err = Open(0); err != nil {
		return nil, nil, nil, err
	}
	data := pages(12)
	for i := range 3 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i+1)))
	}
	c.Pin(data)
	address, err := c.Alloc(len(data))
	if err != nil {
		return c, nil, nil, err
	}
	functions, err := c.Load(double, []string{"double"})
	if err != nil {
		return c, nil, nil, err
	}
	if err = c.Clear(address, len(data)); err == nil {
		err = c.Upload(address, data)
	}
	if clear(data); err == nil {
		err = c.Launch(functions[0], 1, 1, Args{address, 1<<32 | 3}) // the second parameter has 4 bytes
	}
	if err == nil {
		err = c.Fetch(data[4:], address+4)
	}
	if err == nil {
		err = c.Fetch(data[:4], address)
	}
	early = numbers(data)
	for range 2 {
		if err == nil {
			err = c.Fetched()
		}
	}
	if slices.Reverse(data[4:]); err == nil {
		slices.Reverse(data[4:8])
		slices.Reverse(data[8:])
		err = c.Send(address, data)
	}
	if err == nil {
		err = c.Launch(functions[0], 1, 1, Args{address, 3})
	}
	if err == nil {
		err = c.Download(data, address)
	}
	return c, data, early, err
}

// A kernel runs, each call that fails is an error with its name, and nothing is left behind. The fake driver is one for
// the process, so this is one test.
func TestContext(t *testing.T) {
	c, data, early, err := work()
	test.OK(t, err)
	test.EqualSlices(t, early, []float32{0, 0, 0})
	test.EqualSlices(t, numbers(data), []float32{4, 12, 8})
	page := os.Getpagesize()
	test.Equal(t, fakeBooks(), books{contexts: 1, streams: 2, events: 2, modules: 1, bytes: 12, pinned: page,
		launches: 2})

	// Memory without whole pages of its own is not pinned, nor is memory that the driver refuses: it is pinned already.
	for _, b := range [][]byte{data, pages(12)[:12:12], pages(2 * page)[4 : 16 : 4+page], nil} {
		c.Pin(b)
	}
	test.Equal(t, fakeBooks().pinned, page)
	test.Equal(t, len(c.(*context).pinned), 1)

	// Mistakes that a driver or a device finds.
	address, functions := uint64(c.(*context).blocks[0]), test.Must(c.Load(double, []string{"double"}))(t)
	for _, m := range []struct {
		says string
		err  error
	}{
		{"copy from the device: InvalidValue: a copy outside of an allocation", c.Download(data, address+4)},
		{"clear memory: InvalidValue: a copy outside", c.Clear(address-1, 2)},
		{"start a kernel: error 719: ptx: kernel double, block (0,0), thread 3: 4 bytes at address",
			c.Launch(functions[0], 1, 1, Args{address, 4})},
		{"thread 0: address", c.Launch(functions[0], 1, 1, Args{address + 2, 1})},
		{"load kernels: InvalidPtx", second(c.Load("ret;", nil))},
		{"load kernels: triple: NotFound", second(c.Load(double, []string{"triple"}))},
		{"allocate memory: OutOfMemory: no memory for an allocation", second(c.Alloc(1 << 40))},
		{"GPU 1: expected 0 to 0", second(Open(1))},
	} {
		test.Fails(t, m.err, m.says)
	}
	test.OK(t, c.Close())

	n, refused := 1, 0
	for ; ; n++ {
		failCall(n)
		c, _, _, err := work()
		left := failCall(0)
		if err == nil && !left {
			refused++
			test.Equal(t, fakeBooks().pinned, 0, "after call %d has failed", n)
		}
		if c != nil {
			test.OK(t, c.Close(), "after call %d has failed: ", n)
		}
		now := fakeBooks()
		now.launches = 0
		test.Equal(t, now, books{}, "after call %d has failed", n)
		if left {
			break
		}
		var failure *Error
		if err != nil && (!errors.As(err, &failure) || strings.Count(err.Error(), "planned failure") != 1) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	test.Equal(t, refused, 2, "calls whose failure does not matter: they choose the context, and pin memory")
	if n < 40 {
		t.Errorf("%d calls, expected all of a context, memory, copies, a module and launches", n)
	}
}

func second[T any](_ T, err error) error { return err }
