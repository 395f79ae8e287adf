package device

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/ptx"
	"github.com/rlinf/rlinf/internal/test"
)

// coverage names, for each function of package kernel, the device kernels that compute it, or the reason why there is
// none, after a dash.
var coverage = map[string]string{
	"Gemm": "product_large product_small product_narrow product_few", "GemmBias": "product_large product_few",
	"GemmTA": "gradient_large gradient_small gradient_narrow", "ColSum": "column_sum", "Transpose": "transpose",
	"Tanh": "tanh_forward", "TanhGrad": "tanh_gradient", "Relu": "relu_forward", "ReluGrad": "relu_gradient",
	"Exp": "exp_forward", "Log": "log_forward", "Axpy": "axpy", "Scale": "scale", "LogSoftmax": "log_softmax",
	"Normalize": "normalize", "CopyColumns": "copy_columns", "AddColumns": "add_columns",
	"AdamStep": "adam", "SumSq": "square_sums",
	"Multiplier.Product":  "tree_plain tree_transposed tree_small tree_transposed_small product_large",
	"Multiplier.Gradient": "gradient_large", "RMSNorm": "rms_norm", "RMSNormGrad": "rms_norm_grad rms_norm_sums",
	"Rotate": "rotate", "SwiGLU": "swiglu", "SwiGLUGrad": "swiglu_grad", "SumExp": "cross_entropy",
	"ExpLess": "cross_entropy_grad", "SoftmaxBlock": "attend", "SoftmaxBlockGrad": "attend_query_grad attend_key_grad",
	"Multiplier.Pages": "attend", "Multiplier.Strided": "attend", "Multiplier.Attend": "attend",
	"Dot":                     "attend_query_grad",
	"ScaleTo":                 "- only CopyRows with a scale calls it: experts, which check keeps on the CPU",
	"NewMultiplier":           "- scratch memory of a CPU",
	"Multiplier.ProductPart":  "- parts for threads of a CPU",
	"Multiplier.GradientPart": "- parts for threads of a CPU",
}

// TestCoverage: each function of package kernel has a device kernel, or a reason.
func TestCoverage(t *testing.T) {
	t.Parallel()
	kernels := map[string]bool{}
	for _, m := range modules {
		module := test.Must(ptx.Parse(string(test.Must(texts.ReadFile("kernels/" + m.file))(t))))(t)
		for _, name := range module.Names() {
			kernels[name] = true
		}
	}
	found := map[string]bool{}
	for f, name := range declared(t, "..") {
		if f.Name.IsExported() {
			found[name] = true
		}
	}
	test.EqualSlices(t, slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(coverage)))
	for name, by := range coverage {
		if strings.HasPrefix(by, "- ") {
			continue
		}
		for k := range strings.FieldsSeq(by) {
			if !kernels[k] {
				t.Errorf("%s: no kernel %s", name, k)
			}
		}
	}
}

// declared returns the functions and the methods of a package, with their names. It leaves out files of a CPU's Ops.
func declared(t *testing.T, dir string) map[*ast.FuncDecl]string {
	t.Helper()
	all := map[*ast.FuncDecl]string{}
	for _, path := range test.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "cpu") {
			continue
		}
		for _, d := range test.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t).Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := f.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			all[f] = name
		}
	}
	return all
}

// hostMath names the functions of language models that call package math, and why their data is not on a device. Layers
// of policies that compute by themselves are in a list of package nn.
var hostMath = map[string]string{
	"queryScale": "a number of the model", "experts.forward": "experts stay on the CPU",
	"Model.merge": "sums of a row, which come to the program", "partial.merge": "the same",
	"partial.shifted": "the same",
	"sumBlock":        "logits of the engine, in the program",
	"Model.likeliest": "a part of a vocabulary: not on a device",
	"LoRA.Scale":      "a number of the adapters", "Rope.Frequencies": "angles, which go to the device",
	"Rope.yarn": "the same", "Rope.llama3": "the same", "Rope.attentionFactor": "the same", "newRotation": "the same",
}

// TestHostMath: in a language model, package math computes no data that is on a device.
func TestHostMath(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for f, name := range declared(t, "../../../lm") {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "math" && s.Sel.Name != "MaxInt" {
					found[name] = true
				}
			}
			return true
		})
	}
	test.EqualSlices(t, slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(hostMath)))
}
