package ptx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// kernelText returns a module with one kernel, which has parameters of 8 bytes.
func kernelText(params int, arrays string, body ...string) string {
	var declared []string
	for i := range params {
		declared = append(declared, fmt.Sprintf("\t.param .u64 p%d", i))
	}
	return fmt.Sprintf(".version 7.0\n.target sm_80\n.address_size 64\n\n%s\n.visible .entry f(\n%s\n)\n{\n"+
		"\t.reg .b64 \t%%rd<9>;\n\n%s\n}\n", arrays, strings.Join(declared, ",\n"), strings.Join(body, "\n"))
}

// run parses a module and runs its kernel f in one block. The first argument is the address of data.
func run(t *testing.T, text string, threads int, data []byte, args ...uint64) error {
	t.Helper()
	m := test.Must(Parse(text))(t)
	var memory Memory
	test.OK(t, memory.Map(0x1000, data))
	return m.Kernel("f").Launch(&memory, Grid{1, 1}, threads, append([]uint64{0x1000}, args...))
}

func u32(x int32) uint64        { return uint64(uint32(x)) }
func u64(x int64) uint64        { return uint64(x) }
func d64(x float64) uint64      { return math.Float64bits(x) }
func f32(x float32) uint64      { return bits(x) }
func inf(sign int) float32      { return float32(math.Inf(sign)) }
func negative() float32         { return float32(math.Copysign(0, -1)) }
func args(x ...uint64) []uint64 { return x }

// Each instruction does what the PTX manual says, on values with results by hand.
func TestInstructions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []uint64
		want uint64
	}{
		{"mov.u64", args(1 << 40), 1 << 40},
		{"cvt.u32.u64", args(1<<40 | 7), 7},
		{"cvt.u64.u32", args(0xffffffff), 0xffffffff},
		{"cvt.s64.s32", args(u32(-3)), u64(-3)},
		{"add.s32", args(u32(math.MaxInt32), 1), u32(math.MinInt32)},
		{"add.s32", args(u32(-1), 1), 0},
		{"add.s64", args(u64(-1), 3), 2},
		{"sub.s32", args(3, 5), u32(-2)},
		{"sub.s64", args(3, 5), u64(-2)},
		{"mul.lo.s32", args(u32(-3), 5), u32(-15)},
		{"mul.lo.s64", args(1<<40, 1<<30), 0},
		{"mul.wide.s32", args(u32(-3), 1<<30), u64(-3 << 30)},
		{"mul.wide.u32", args(0xffffffff, 2), 0x1fffffffe},
		{"div.s32", args(u32(-7), 2), u32(-3)},
		{"div.s64", args(u64(-7), 2), u64(-3)},
		{"div.u32", args(u32(-7), 2), 0x7ffffffc},
		{"div.u64", args(u64(-7), 2), 0x7ffffffffffffffc},
		{"rem.u32", args(17, 5), 2},
		{"rem.s64", args(u64(-7), 2), u64(-1)},
		{"min.s32", args(u32(-7), 2), u32(-7)},
		{"min.s64", args(u64(-7), 2), u64(-7)},
		{"shl.b32", args(3, 31), 1 << 31},
		{"shl.b32", args(3, 32), 0},
		{"shl.b64", args(3, 62), 3 << 62},
		{"shr.u32", args(u32(-1), 28), 15},
		{"shr.u64", args(u64(-1), 60), 15},
		{"shr.s32", args(u32(-16), 2), u32(-4)},
		{"and.b32", args(12, 10), 8},
		{"or.b64", args(12, 10), 14},
		{"xor.b32", args(12, 10), 6},
		{"not.pred", args(1), 0},
		{"selp.f32", args(5, 6, 0), 6},
		{"selp.b64", args(5, 6, 1), 5},
		{"setp.lt.s32", args(u32(-1), 0), 1},
		{"setp.lt.u32", args(u32(-1), 0), 0},
		{"setp.ge.s64", args(u64(-1), u64(-1)), 1},
		{"setp.gt.u64", args(u64(-1), 0), 1},
		{"setp.le.s32", args(u32(-1), u32(-2)), 0},
		{"setp.eq.s32", args(3, 3), 1},
		{"setp.ne.s64", args(3, 3), 0},
		{"setp.eq.f32", args(f32(0), f32(negative())), 1},
		{"setp.lt.f32", args(f32(-1), f32(0)), 1},
		{"setp.ge.f32", args(f32(float32(math.NaN())), f32(0)), 0},
		{"setp.nan.f32", args(f32(float32(math.NaN())), f32(0)), 1},
		{"setp.neu.f32", args(f32(float32(math.NaN())), f32(0)), 1},
		{"add.rn.f32", args(f32(1), f32(0x1p-24)), f32(1)},
		{"add.rn.f32", args(f32(0x1p-149), f32(0x1p-149)), f32(0x1p-148)},
		{"sub.rn.f32", args(f32(inf(1)), f32(1)), f32(inf(1))},
		{"mul.rn.f32", args(f32(0x1p-126), f32(0.5)), f32(0x1p-127)},
		{"mul.rn.f32", args(f32(math.MaxFloat32), f32(2)), f32(inf(1))},
		{"div.rn.f32", args(f32(1), f32(3)), 0x3eaaaaab},
		{"div.rn.f32", args(f32(-1), f32(0)), f32(inf(-1))},
		{"fma.rn.f32", args(f32(1+0x1p-12), f32(1+0x1p-12), f32(-1-0x1p-11)), f32(0x1p-24)},
		{"sqrt.rn.f32", args(f32(2)), 0x3fb504f3},
		{"neg.f32", args(f32(0)), f32(negative())},
		{"abs.f32", args(f32(-3)), f32(3)},
		{"cvt.rn.f32.s32", args(u32(-16777217)), f32(-16777216)},
		{"cvt.f64.f32", args(f32(0x1p-149)), d64(0x1p-149)},
		{"add.rn.f64", args(d64(1), d64(0x1p-52)), d64(1 + 0x1p-52)},
		{"mul.rn.f64", args(d64(3), d64(-2)), d64(-6)},
		{"mad.lo.s32", args(u32(-3), 5, 1), u32(-14)},
		{"neg.s64", args(3), u64(-3)},
		{"max.s32", args(u32(-7), 2), 2},
		{"xor.pred", args(1, 1), 0},
		{"setp.leu.f32", args(f32(float32(math.NaN())), f32(0)), 1},
		{"setp.leu.f32", args(f32(1), f32(0)), 0},
		{"rcp.rn.f32", args(f32(3)), 0x3eaaaaab},
		{"cvt.rn.f64.s32", args(u32(-3)), d64(-3)},
		{"cvt.rn.f32.f64", args(d64(1 + 0x1p-24)), f32(1)},
		{"div.rn.f64", args(d64(1), d64(-4)), d64(-0.25)},
		{"sqrt.rn.f64", args(d64(2)), d64(math.Sqrt2)},
		{"rcp.rn.f64", args(d64(8)), d64(0.125)},
	} {
		body := []string{"\tld.param.u64 \t%rd0, [p0];"}
		operands := []string{"%rd8"}
		for i := range c.args {
			body = append(body, fmt.Sprintf("\tld.param.u64 \t%%rd%d, [p%d];", i+1, i+1))
			operands = append(operands, fmt.Sprintf("%%rd%d", i+1))
		}
		body = append(body, "\t"+c.name+" \t"+strings.Join(operands, ", ")+";", "\tst.global.u64 \t[%rd0], %rd8;",
			"\tret;")
		data := make([]byte, 8)
		test.OK(t, run(t, kernelText(1+len(c.args), "", body...), 1, data, c.args...))
		test.Equal(t, binary.LittleEndian.Uint64(data), c.want, "%s %x", c.name, c.args)
	}
}

// A fused multiply-add has the bits of exact arithmetic, rounded once.
func TestFMA(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	random := func() float32 { // any exponent, and subnormal numbers
		for {
			if x := math.Float32frombits(r.Uint32()); x-x == 0 {
				return x
			}
		}
	}
	exact := func(x float32) *big.Float { return new(big.Float).SetPrec(700).SetFloat64(float64(x)) }
	for range 200_000 {
		x, y := random(), random()
		z := random()
		if r.IntN(2) == 0 { // near the product, so that the sum is inexact
			z = -x * y * (1 + float32(r.IntN(3)-1)*0x1p-23)
		}
		if z-z != 0 {
			continue
		}
		sum := exact(x)
		sum.Add(sum.Mul(sum, exact(y)), exact(z))
		want, _ := sum.Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
	}
	for _, c := range []struct{ x, y, z, want float32 }{
		{inf(1), 2, 3, inf(1)}, {2, 3, inf(-1), inf(-1)}, {math.MaxFloat32, 2, 0, inf(1)},
		{math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32}, {-0x1p-149, 0x1p-149, 0, negative()},
		{0, -1, 0, 0}, {0, -1, negative(), negative()},
	} {
		test.Equal(t, bits(fma32(c.x, c.y, c.z)), bits(c.want), "fma(%x, %x, %x)", c.x, c.y, c.z)
	}
	if nan := fma32(inf(1), 0, 1); nan == nan {
		t.Errorf("fma(Inf, 0, 1) = %v", nan)
	}
}

// Each fault is found, and named with its place.
func TestFaults(t *testing.T) {
	t.Parallel()
	const arrays = ".shared .align 4 .b8 a[16];\n.shared .align 16 .b8 b[32];\n"
	start := []string{"\tld.param.u64 \t%rd0, [p0];", "\tmov.u32 \t%r0, %tid.x;", "\tmul.wide.u32 \t%rd1, %r0, 4;",
		"\tadd.s64 \t%rd2, %rd0, %rd1;", "\tmov.u64 \t%rd3, a;", "\tadd.s64 \t%rd4, %rd3, %rd1;",
		"\tsetp.eq.s32 \t%p0, %r0, 0;"}
	for _, c := range []struct {
		name string
		body []string
		want string // empty if there is no fault
	}{
		{"inside", []string{"st.global.u32 [%rd2], %r0"}, ""},
		{"outside", []string{"st.global.u32 [%rd2+4], %r0"}, "thread 3: 4 bytes at address 0x1010 are outside the " +
			"memory (line 21: st.global.u32 [%rd2+4], %r0)"},
		{"before", []string{"ld.global.u32 %r1, [%rd2+-8]"}, "thread 0: 4 bytes at address 0xff8"},
		{"misaligned", []string{"ld.global.v2.u32 {%r1, %r2}, [%rd2]"}, "thread 1: address 0x1004 is no multiple of 8"},
		{"unwritten", []string{"ld.shared.u32 %r1, [%rd4]"}, "shared memory at 0x0 was not written"},
		{"written", []string{"st.shared.u32 [%rd4], %r0", "ld.shared.u32 %r1, [%rd4]"}, ""},
		{"beyond an array", []string{"st.shared.u32 [%rd4+4], %r0"}, "address 0x10 is in no array of shared memory"},
		{"beyond all arrays", []string{"st.shared.u32 [%rd4+1024], %r0"}, "is in no array"},
		{"read without a barrier", []string{"@%p0 st.shared.u32 [a], %r0", "ld.shared.u32 %r1, [a]"},
			"thread 1: a race: another thread wrote address 0x0"},
		{"read after a barrier", []string{"@%p0 st.shared.u32 [a], %r0", "bar.sync 0", "ld.shared.u32 %r1, [a]"}, ""},
		{"write after reads", []string{"@%p0 st.shared.u32 [a], %r0", "bar.sync 0", "ld.shared.u32 %r1, [a]",
			"st.shared.u32 [a], %r0"}, "a race"},
		{"two writes", []string{"st.shared.u32 [a], %r0"}, "a race"},
		{"two global writes", []string{"st.global.u32 [%rd0], %r0"},
			"thread 1: a race: another thread used address 0x1000"},
		{"one barrier for some", []string{"@%p0 bar.sync 0"}, "threads 0 and 1 do not reach the same barrier"},
		{"some end", []string{"@!%p0 ret", "bar.sync 0"}, "do not reach the same barrier"},
		{"division", []string{"div.u32 %r1, 1, %r0"}, "thread 0: division by 0"},
	} {
		body := append([]string(nil), start...)
		for _, line := range c.body {
			body = append(body, "\t"+line+";")
		}
		err := run(t, kernelText(1, arrays, append(body, "\tret;")...), 4, make([]byte, 16))
		var fault *Fault
		switch {
		case c.want == "":
			test.Check(t, err, "%s: ", c.name)
		case !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Shared memory of a block is not that of the block before.
func TestBlocks(t *testing.T) {
	t.Parallel()
	text := kernelText(1, ".shared .align 4 .b8 a[4];", "\tmov.u32 \t%r0, %ctaid.x;", "\tmov.u32 \t%r2, %ctaid.y;",
		"\tadd.s32 \t%r3, %r0, %r2;", "\tsetp.eq.s32 \t%p0, %r3, 0;", "\t@%p0 st.shared.u32 \t[a], %r0;",
		"\tld.shared.u32 \t%r1, [a];", "\tret;")
	m := test.Must(Parse(text))(t)
	for _, grid := range []Grid{{2, 1}, {1, 2}} {
		test.Fails(t, m.Kernel("f").Launch(new(Memory), grid, 1, []uint64{0}), "was not written")
	}
	test.OK(t, m.Kernel("f").Launch(new(Memory), Grid{1, 1}, 1, []uint64{0}))
	test.Fails(t, m.Kernel("f").Launch(new(Memory), Grid{1, 1}, 1, nil), "0 arguments, expected 1")
	test.Fails(t, m.Kernel("f").Launch(new(Memory), Grid{1, 0}, 1, []uint64{0}), "a grid of 1 x 0 blocks")
}

// Branches, loops and predicates: the sum of 1 to n.
func TestLoop(t *testing.T) {
	t.Parallel()
	text := kernelText(2, "", "\tld.param.u64 \t%rd0, [p0];", "\tld.param.u32 \t%r0, [p1];", "\tmov.u32 \t%r1, 0;",
		"$L0:                 // the loop", "\tadd.s32 \t%r1, %r1, %r0;", "\tadd.s32 \t%r0, %r0, -1;",
		"\tsetp.ne.s32 \t%p0, %r0, 0;", "\t@%p0 bra \t$L0;", "\tbra.uni \t$L1;", "\tadd.s32 \t%r1, %r1, 1;", "$L1:",
		"\tst.global.u32 \t[%rd0], %r1;", "\tret;")
	data := make([]byte, 4)
	test.OK(t, run(t, text, 1, data, 100))
	test.Equal(t, binary.LittleEndian.Uint32(data), 5050)
}

// A text that the package does not know is an error with its line.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, says string }{
		{"add.cc.u32 %r0, %r0, %r0;", "line 12: unknown instruction add.cc.u32"},
		{"ld.local.u32 %r0, [%rd0];", "unknown instruction ld.local.u32"},
		{"setp.ne.f32 %p0, %f0, %f1;", "unknown instruction setp.ne.f32"},
		{".local .align 4 .b8 depot[4];", "unknown directive .local"},
		{"mov.u32 %r0, %laneid.x;", "unknown operand %laneid.x"},
		{"bra $L9;", "kernel f has no label $L9"},
		{"ld.global.v4.f32 {%f0, %f1}, [%rd0];", "2 registers, expected 4"},
	} {
		_, err := Parse(kernelText(1, "", "\t"+c.line))
		test.Fails(t, err, c.says)
	}
	_, err := Parse("add.s32 %r0, %r0, %r0;")
	test.Fails(t, err, "an instruction outside a kernel")
}

// Ranges of memory do not overlap.
func TestMemory(t *testing.T) {
	t.Parallel()
	var m Memory
	test.OK(t, m.Map(0x100, make([]byte, 16)))
	test.OK(t, m.Map(0x80, make([]byte, 128)))
	for _, at := range []uint64{0x100, 0x10f, 0xf8, 0x70} {
		test.Fails(t, m.Map(at, make([]byte, 17)), "overlap other memory")
	}
	test.Equal(t, m.Unmap(0x80), true)
	test.Equal(t, m.Unmap(0x80), false)
	test.OK(t, m.Map(0x90, make([]byte, 16)))
}
