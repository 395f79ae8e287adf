package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/ptx"
	"github.com/rlinf/rlinf/internal/test"
	cpu "github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/tensor"
)

// compiler skips the test without the compiler of the kernels.
func compiler(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19 compiles the kernels: apt-get install clang-19")
	}
}

// TestKernelsAreListed: each kernel of the PTX has a name in modules, and each name stands once.
func TestKernelsAreListed(t *testing.T) {
	t.Parallel()
	known := map[kernel]bool{}
	for _, m := range modules {
		module := test.Must(ptx.Parse(string(test.Must(texts.ReadFile("kernels/" + m.file))(t))))(t)
		test.Equal(t, len(m.kernels), len(module.Names()), "%s: kernels", m.file)
		for k, name := range m.kernels {
			if module.Kernel(name) == nil || known[k] {
				t.Errorf("%s: kernel %d, %s", m.file, k, name)
			}
			known[k] = true
		}
	}
	test.Equal(t, len(known), int(numKernels), "kernels")
}

// TestKernelsAreCurrent: the PTX in the tree is what clang makes of the C files.
func TestKernelsAreCurrent(t *testing.T) {
	t.Parallel()
	compiler(t)
	dir := t.TempDir()
	if out, err := exec.Command("kernels/generate", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range modules {
		got := test.Must(texts.ReadFile("kernels/" + m.file))(t)
		want := test.Must(os.ReadFile(filepath.Join(dir, m.file)))(t)
		if string(got) != string(want) {
			t.Errorf("%s is not what clang-19 makes of its C file: run go generate ./policy/nn/kernel/device", m.file)
		}
	}
}

// TestBrokenKernels: the interpreter, or the comparison with package kernel, finds each mistake.
func TestBrokenKernels(t *testing.T) {
	t.Parallel()
	compiler(t)
	newMachine(t, nil) // skips on other processors
	product := func(m *machine) {
		const rows, n, k = 37, 20, 19
		a, b, c := m.numbers(rows*k, 0), m.numbers(k*n, 0), make([]float32, rows*n)
		got := m.on(c)
		m.host.Product(c, a, b, nil, rows, n, k, false)
		m.device.Product(got, m.on(a), m.on(b), nil, rows, n, k, false)
		m.same(got, c, "product")
	}
	few := func(m *machine) {
		a, b, c := m.numbers(5*40, 0), m.numbers(40*2, 0), make([]float32, 5*2)
		got := m.on(c)
		m.host.Product(c, a, b, nil, 5, 2, 40, false)
		m.device.Product(got, m.on(a), m.on(b), nil, 5, 2, 40, false)
		m.same(got, c, "product")
	}
	deep := func(m *machine) {
		const rows, n, k = 9, 10, 513
		a, b, c := m.numbers(rows*k, 0), m.numbers(k*n, 0), make([]float32, rows*n)
		got := m.on(c)
		m.host.Product(c, a, b, nil, rows, n, k, false)
		m.device.Product(got, m.on(a), m.on(b), nil, rows, n, k, false)
		m.same(got, c, "product")
	}
	seen := func(vision string) func(m *machine) {
		return func(m *machine) { m.compare(t, visions()[vision]) }
	}
	tree := func(m *machine) { m.compareTree(treeShape{17, 6, 4, []int{33, 8}, true}, 0) }
	norm := func(m *machine) {
		const rows, n = 17, 20
		x, w, y, inv := m.numbers(rows*n, 0), m.numbers(n, 0), make([]float32, rows*n), make([]float32, rows)
		got, gotInv := m.on(y), m.on(inv)
		cpu.RMSNorm(y, inv, x, w, rows, n, 1e-6)
		m.device.RMSNorm(got, gotInv, m.on(x), m.on(w), rows, n, 1e-6)
		m.same(got, y, "norm")
		m.device.RMSNormGrad(got, m.on(w), m.on(y), m.on(x), m.on(w), gotInv, rows, n, 1, true)
	}
	entropy := func(m *machine) {
		logits, want, got := m.numbers(2*300, 0), make([]float32, 3), make([]float32, 8)
		m.device.CrossEntropy(got, m.on(logits), []int32{4, 299}, 300, 1, 300)
		for r := range 2 {
			row := logits[300*r : 300*(r+1)]
			want[0], want[1], want[2] = cpu.SumExp(row)
			m.equal(got[4*r:], append(want, row[295*r+4]), "sums")
		}
	}
	intact := attention(newMachine(t, new(devicetest.Interpreter)))
	attends := func(m *machine) {
		for i, got := range attention(m) {
			m.equal(got, intact[i], "part %d of an attention", i)
		}
	}
	const inProduct, inWindows = "product.c", "windows.c"
	const inNorms, inEntropy, inAttention = "transformer.c", "entropy.c", "attention.c"
	for _, c := range []struct {
		name, file, old, new string
		call                 func(m *machine)
		found                string
	}{
		{"barrier removed", inProduct, "\t\tBARRIER;\n\t\ttile other", "\t\ttile other", product,
			"shared memory at"},
		{"barrier of deep tiles removed", inProduct, "\t\tBARRIER;\n\t\ttile other", "\t\ttile other", deep,
			"shared memory at"},
		{"sums in threads that only fetch", inProduct, " : m;\n", " : m - m + THREAD / s.side;\n", deep,
			"a race"},
		{"row of A off by one", inProduct, "rows < s.depth ? t % rows", "rows < s.depth ? t % rows + 1", deep,
			"shared memory at"},
		{"first steps only", inProduct, "a_now + from * rows", "a_now + from / 2 * rows", deep, "element"},
		{"second barrier removed", inProduct, "\t\t\tBARRIER;\n\t\t}\n\t\tif (lane == 0 && row < m)",
			"\t\t}\n\t\tif (lane == 0 && row < m)", few, "a race"},
		{"row off by one", inProduct, "if (row < m && column < n) ", "if (row <= m && column < n) ", product,
			"are outside the memory"},
		{"column off by one", inProduct, "if (row < m && column < n) ", "if (row < m && column <= n) ", product,
			"a race"},
		{"k reversed", inProduct, "x + q * rows, y + q * columns",
			"x + (together - 1 - q) * rows, y + (together - 1 - q) * columns", product, "element"},
		{"two operations for one", inProduct, "sum[i][j] = fma(x[i], y[j], sum[i][j])", "sum[i][j] += x[i] * y[j]",
			product, "element"},
		{"misaligned", inProduct, "whole && count >= 4", "(whole || count >= 4) && count >= 4", product,
			"is no multiple of 16"},
		{"lane left out", inProduct, "i < 8; i++)\n\t\t\t\t\tl[i] =", "i < 7; i++)\n\t\t\t\t\tl[i] =", few,
			"element"},
		{"edge off by one", inWindows, "x >= w", "x > w", seen("frame"), "element"},
		{"row of windows left out", inWindows, "oy * stride <= y + pad", "oy * stride < y + pad", seen("stride 2"),
			"gradients: element"},
		{"first window left out", inWindows, "ox = first_window(x, size, stride, pad); ox < out_w",
			"ox = first_window(x, size, stride, pad) + 1; ox < out_w", seen("stride 2"), "gradients: element"},
		{"initial value in each block", inProduct, "blocks == 1 && initial ?", "initial ?", tree, "element"},
		{"blocks added in order", inProduct, "sum[i][j] = two[i][j] + sum[i][j]",
			"sum[i][j] = two[i][j] - one[i][j] + sum[i][j] + one[i][j]", tree, "element"},
		{"term left out", inProduct, "number < 3", "number < 1", tree, "element"},
		{"norm without a barrier", inNorms, "partial[t] = lane;\n\tBARRIER;", "partial[t] = lane;", norm,
			"shared memory at"},
		{"norm of a row too many", inNorms, "row < m)\n\t\tfor (int j = lane; j < n; j += LANES) {",
			"row <= m)\n\t\tfor (int j = lane; j < n; j += LANES) {", norm, "are outside the memory"},
		{"two threads for a gradient", inNorms, "const int block = (int)(i / n), column = (int)(i % n);",
			"const int block = (int)(i / n), column = (int)(i % n) / 2 * 2;\n\tdw -= i % 2;", norm, "a race"},
		{"weight of another sum", inEntropy, "weighted = weighted + e * z", "weighted = weighted + sum * z", entropy,
			"element"},
		{"fold without a barrier", inEntropy, "BARRIER; // the lanes of the last fold are read", "", entropy, "a race"},
		{"key too many", inAttention, "c < shown ? exp_of", "c <= shown ? exp_of", attends, "of an attention"},
		{"keys reversed", inAttention, "for (int k = 0; k < count; k++)", "for (int k = count - 1; k >= 0; k--)",
			attends, "part 0"},
		{"no decay", inAttention, "*to * decays[r]", "*to", attends, "part 0"},
		{"slices without a barrier", inAttention, "BARRIER;\n\t\tfor (int i = t; i < count * COLUMNS",
			"for (int i = t; i < count * COLUMNS", attends, "a race"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, &devicetest.Interpreter{Broken: compiled(t, c.file, c.old, c.new)})
			found := failure(m, c.call)
			if !strings.Contains(found, c.found) {
				t.Errorf("found %q, expected %q", found, c.found)
			}
		})
	}
}

// attention returns output, lse and gradients of a sequence of 100 tokens.
func attention(m *machine) [][]float32 {
	const n, heads, size = 100, 2, 5
	h := Heads{Rows: n, Queries: heads, Keys: 1, Size: size,
		Tiles: []int32{0, 32, 0, 1, 1, 32, 32, 0, 33, 1, 64, 32, 0, 65, 1, 96, 4, 0, 97, 1}}
	for at := int32(0); at < n; at += 32 {
		h.KeyTiles = append(h.KeyTiles, at, min(32, n-at), at, 0, 4)
	}
	var on [][]float32
	for _, width := range []int{heads * size, heads, heads * size, size, size, heads * size, size, size, heads,
		heads * size} {
		on = append(on, m.on(m.numbers(n*width, 0)))
	}
	m.device.Attend(on[0], on[1], on[2], on[3], on[4], &h)
	m.device.AttendGrad(on[5], on[6], on[7], on[8], on[2], on[3], on[4], on[0], on[9], on[1], &h)
	results := [][]float32{on[0], on[1], on[5], on[6], on[7]}
	for _, x := range results {
		m.device.Download(tensor.BytesOf(x))
	}
	return results
}

// compiled returns the kernels of a C file, with a text replaced. It leaves out kernels that the test does not call.
func compiled(t *testing.T, file, old, new string) *ptx.Module {
	text := string(test.Must(os.ReadFile("kernels/" + file))(t))
	if !strings.Contains(text, old) {
		t.Fatalf("%s has no %q", file, old)
	}
	const unused = `product_large|product_narrow|gradient.*|tree_plain|tree_transposed|tree_small`
	text = regexp.MustCompile(`(?m)^(PRODUCT|TREE)\((`+unused+`),.*`).ReplaceAllString(text, "")
	dir := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(text, old, new, 1)), 0o666))
	for _, name := range []string{"kernel.h", "functions.h", "generate"} {
		test.OK(t, os.WriteFile(filepath.Join(dir, name), test.Must(os.ReadFile("kernels/"+name))(t), 0o777))
	}
	if out, err := exec.Command(filepath.Join(dir, "generate")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	compiled := filepath.Join(dir, strings.TrimSuffix(file, ".c")+".ptx")
	return test.Must(ptx.Parse(string(test.Must(os.ReadFile(compiled))(t))))(t)
}

// A failed is a test that has failed, with the reason.
type failed string

// A probe is a test that may fail.
type probe struct{ testing.TB }

func (p probe) Helper() {}

func (p probe) Fatalf(format string, args ...any) { panic(failed(fmt.Sprintf(format, args...))) }

// failure returns why a call fails: the panic of an Op, or a difference. It is empty if the call does not fail.
func failure(m *machine, call func(m *machine)) (why string) {
	defer func() {
		if e := recover(); e != nil {
			why = fmt.Sprint(e)
		}
	}()
	m.t = probe{m.t}
	call(m)
	return ""
}
